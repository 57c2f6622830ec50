"""The way to a group's coordinator: who it is, and calls to it that survive its end.

Any broker names the coordinator (FindCoordinators), and a broker that is asked in its place names the right
one (NOT_COORDINATOR). What is known may be old at any time, so nothing depends on it: a call that goes to the
wrong broker is refused by it, and one that nobody answers makes the next one look again.

While a coordinator loads, or there is none, calls are repeated after pauses with jitter, inside their time.
Every call says what is to be and not what is to be added, so it may be made twice.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, TypeVar

from google.protobuf.message import Message

from quorate.client.cluster import ClusterView
from quorate.client.retrying import retrying
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.logging import get_logger
from quorate.core.transport import Method, method_of
from quorate.errors import (
    CoordinatorNotAvailable,
    LeadershipError,
    NotCoordinator,
    QuorateError,
    RequestTimedOut,
    StaleMemberEpoch,
    Unavailable,
    UnknownServerError,
    copy_of,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import group_pb2

__all__ = [
    "COMMIT_OFFSETS",
    "DELETE_GROUPS",
    "DELETE_OFFSETS",
    "DESCRIBE_GROUPS",
    "FETCH_OFFSETS",
    "FIND_COORDINATORS",
    "GROUP_HEARTBEAT",
    "LIST_GROUPS",
    "CoordinatorLink",
]

log = get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_GROUPS: Final = group_pb2.DESCRIPTOR.services_by_name["GroupService"]
FIND_COORDINATORS: Final = method_of(
    _GROUPS, "FindCoordinators", group_pb2.FindCoordinatorsRequest, group_pb2.FindCoordinatorsResponse
)
GROUP_HEARTBEAT: Final = method_of(
    _GROUPS, "GroupHeartbeat", group_pb2.GroupHeartbeatRequest, group_pb2.GroupHeartbeatResponse
)
COMMIT_OFFSETS: Final = method_of(
    _GROUPS, "CommitOffsets", group_pb2.CommitOffsetsRequest, group_pb2.CommitOffsetsResponse
)
FETCH_OFFSETS: Final = method_of(
    _GROUPS, "FetchOffsets", group_pb2.FetchOffsetsRequest, group_pb2.FetchOffsetsResponse
)
LIST_GROUPS: Final = method_of(
    _GROUPS, "ListGroups", group_pb2.ListGroupsRequest, group_pb2.ListGroupsResponse
)
DESCRIBE_GROUPS: Final = method_of(
    _GROUPS, "DescribeGroups", group_pb2.DescribeGroupsRequest, group_pb2.DescribeGroupsResponse
)
DELETE_GROUPS: Final = method_of(
    _GROUPS, "DeleteGroups", group_pb2.DeleteGroupsRequest, group_pb2.DeleteGroupsResponse
)
DELETE_OFFSETS: Final = method_of(
    _GROUPS, "DeleteOffsets", group_pb2.DeleteOffsetsRequest, group_pb2.DeleteOffsetsResponse
)

#: A coordinator that takes longer is stopped, overloaded or cut off: somebody else may have taken over.
_ATTEMPT_TIMEOUT_S: Final = 5.0


class CoordinatorLink:
    """To the coordinator of one group. It belongs to the loop that it is used on."""

    def __init__(self, cluster: ClusterView, group: str, *, clock: Clock, rng: random.Random) -> None:
        self.group = group
        self._cluster = cluster
        self._clock = clock
        self._rng = rng
        #: None: not known
        self._address: str | None = None
        self._finding: asyncio.Task[str | QuorateError] | None = None

    async def call_once(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """One attempt, which may begin with finding out whom to ask."""
        deadline = self._clock.monotonic() + timeout_s
        address = self._address or await self._found(timeout_s)
        remaining_s = max(deadline - self._clock.monotonic(), 0.001)
        try:
            return await self._cluster.channel(address).call(method, request, timeout_s=remaining_s)
        except QuorateError as error:
            self._note(address, error)
            raise

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """As often as it takes and the time allows; `StaleMemberEpoch` is for the caller to deal with."""
        stale: list[StaleMemberEpoch] = []

        async def attempt(remaining_s: float) -> Response | None:
            try:
                return await self.call_once(method, request, timeout_s=min(remaining_s, _ATTEMPT_TIMEOUT_S))
            except StaleMemberEpoch as error:
                stale.append(error)
                return None

        response = await retrying(attempt, clock=self._clock, rng=self._rng, timeout_s=timeout_s)
        if response is None:
            raise stale[0]
        return response

    # -- who it is

    async def _found(self, timeout_s: float) -> str:
        if self._finding is None or self._finding.done():
            self._finding = asyncio.get_running_loop().create_task(self._find(timeout_s))
        # Not cancelled with one of those who wait for it.
        await asyncio.wait([self._finding], timeout=timeout_s)
        if not self._finding.done() or self._finding.cancelled():
            raise CoordinatorNotAvailable(
                f"nobody says in time who coordinates group {self.group!r}", group=self.group
            )
        outcome = self._finding.result()
        if isinstance(outcome, QuorateError):
            raise copy_of(outcome)  # others may wait for it, too
        return outcome

    async def _find(self, timeout_s: float) -> str | QuorateError:
        request = group_pb2.FindCoordinatorsRequest(groups=[self.group])
        try:
            response = await self._cluster.call(FIND_COORDINATORS, request, timeout_s=timeout_s)
        except QuorateError as error:
            return error
        if len(response.coordinators) != 1:
            return UnknownServerError(
                "FindCoordinators: the answer is not about the group that was asked for"
            )
        [found] = response.coordinators
        if found.HasField("error"):
            return error_from_detail(found.error)
        if not found.address:
            return CoordinatorNotAvailable(f"group {self.group!r} has no coordinator now", group=self.group)
        if found.address != self._address:
            log.debug("coordinator_found", group=self.group, broker=found.broker_id, address=found.address)
        self._address = found.address
        return found.address

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait([self._finding])

    def forget(self) -> None:
        """Whoever it was has not helped: look again."""
        self._address = None

    def _note(self, address: str, error: QuorateError) -> None:
        if self._address != address:
            return  # somebody has found out better since
        if isinstance(error, NotCoordinator):
            self._address = self._hinted(error, address)
        elif isinstance(error, CoordinatorNotAvailable | LeadershipError | RequestTimedOut | Unavailable):
            self._address = None

    def _hinted(self, error: NotCoordinator, asked: str) -> str | None:
        """Whom the broker named in its place; never itself, which would be asked for ever."""
        address, broker_id = error.facts.get("address"), error.facts.get("broker_id")
        if not address and isinstance(broker_id, int):
            broker = self._cluster.brokers.get(BrokerId(broker_id))
            address = None if broker is None else broker.address
        return address if isinstance(address, str) and address and address != asked else None
