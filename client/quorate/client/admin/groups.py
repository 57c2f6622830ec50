"""Calls about groups: each to the group's coordinator, or to every broker where all groups are asked for.

Nothing is left out silently: a coordinator that is loading, or a broker that does not answer, is asked again,
and when the time is up the call fails and says which. A list that lacks some groups would be worse than none.

A change of a group is one of the group as it was looked at: it names the revision that the coordinator told
then. Where somebody else was faster, and surely nothing was done, it is looked at again. Where an attempt
had no answer, it may have been carried out, and what it wanted was changed by others since: the caller is
told that its outcome is not known, since doing it once more would undo what they did.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from google.protobuf.message import Message

from quorate.client.admin.group_types import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    OffsetReset,
    group_from,
    listing_from,
    offset_from,
)
from quorate.client.arguments import check_offset, check_partition_argument, shown
from quorate.client.cluster import ClusterView
from quorate.client.groups.coordinator import (
    COMMIT_OFFSETS,
    DELETE_GROUPS,
    DELETE_OFFSETS,
    DESCRIBE_GROUPS,
    FETCH_OFFSETS,
    FIND_COORDINATORS,
    LIST_GROUPS,
    CoordinatorLink,
)
from quorate.client.groups.offsets import OffsetAndMetadata, offset_to, offsets_given
from quorate.client.groups.partitions import GroupPartition, partitions_to
from quorate.client.listed_offsets import OffsetAt, list_offsets
from quorate.client.retrying import retrying
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import Method
from quorate.errors import (
    CoordinatorLoadInProgress,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    InvalidUpdateVersion,
    QuorateError,
    UnknownMember,
    UnknownServerError,
    UnknownTopicOrPartition,
    copy_of,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import errors_pb2, group_pb2

__all__ = ["GROUPS_TIMEOUT_S", "GroupCalls", "ResetTo"]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")
#: what an answer says of one group
OfGroup = TypeVar("OfGroup", group_pb2.Coordinator, group_pb2.GroupDescription, group_pb2.DeleteGroupResult)

GROUPS_TIMEOUT_S: Final = 30.0
#: One broker that is silent must not use up the time of the whole question.
_ATTEMPT_TIMEOUT_S: Final = 5.0
#: far fewer than brokers allow, for the answer's sake: each may have a thousand members
_GROUPS_PER_QUESTION: Final = 100

#: the first offset, the end, or an offset by its number
ResetTo: TypeAlias = Literal["earliest", "latest"] | int


class GroupCalls:
    """Calls have ``timeout_s`` to succeed, whatever happens to coordinators meanwhile."""

    def __init__(self, cluster: ClusterView, *, clock: Clock, rng: random.Random) -> None:
        self._cluster = cluster
        self._clock = clock
        self._rng = rng

    # -- all groups

    async def list_groups(self, timeout_s: float) -> list[GroupListing]:
        async def attempt(remaining_s: float) -> list[GroupListing]:
            await self._cluster.refreshed(remaining_s)
            brokers = sorted(self._cluster.brokers.items())
            if not brokers:
                raise self._cluster.unreachable()
            answers = await asyncio.gather(
                *(
                    self._list_at(broker.address, min(remaining_s, _ATTEMPT_TIMEOUT_S))
                    for _, broker in brokers
                )
            )
            # A group that moves meanwhile is on two lists: one of them is enough.
            found = {listing.group: listing for listings in answers for listing in listings}
            return [found[name] for name in sorted(found)]

        return await retrying(attempt, clock=self._clock, rng=self._rng, timeout_s=timeout_s)

    async def _list_at(self, address: str, timeout_s: float) -> list[GroupListing]:
        channel = self._cluster.channel(address)
        response = await channel.call(LIST_GROUPS, group_pb2.ListGroupsRequest(), timeout_s=timeout_s)
        if response.loading:
            raise CoordinatorLoadInProgress(
                f"{address} has not loaded all groups yet: {len(response.loading)} partitions are missing",
                address=address,
            )
        return [listing_from(each) for each in response.groups]

    # -- several groups

    async def describe_all(self, groups: Iterable[str], timeout_s: float) -> dict[str, GroupDescription]:
        """Those that there are, in the given order; a coordinator is asked for many at once."""
        names = list(dict.fromkeys(_name(group) for group in groups))
        # None: there is no such group.
        answers: dict[str, GroupDescription | None] = {}

        async def attempt(remaining_s: float) -> None:
            deadline = self._clock.monotonic() + remaining_s
            missing = [name for name in names if name not in answers]
            errors: list[QuorateError] = []
            coordinated = await self._by_coordinator(missing, deadline, errors)
            await asyncio.gather(
                *(
                    self._describe_at(address, theirs, deadline, answers, errors)
                    for address, theirs in coordinated.items()
                )
            )
            if errors:
                # Those that no other attempt helps against come first.
                raise min(errors, key=lambda error: error.retriable)

        await retrying(attempt, clock=self._clock, rng=self._rng, timeout_s=timeout_s)
        found = ((name, answers[name]) for name in names)
        return {name: described for name, described in found if described is not None}

    async def _by_coordinator(
        self, groups: Sequence[str], deadline: float, errors: list[QuorateError]
    ) -> dict[str, list[str]]:
        """By its address. Why a group has none goes to ``errors``."""
        coordinated: defaultdict[str, list[str]] = defaultdict(list)
        for asked in _in_pieces(groups):
            request = group_pb2.FindCoordinatorsRequest(groups=asked)
            response = await self._cluster.call(
                FIND_COORDINATORS, request, timeout_s=self._attempt_s(deadline)
            )
            for found in _checked(response.coordinators, asked):
                if found.HasField("error"):
                    errors.append(error_from_detail(found.error))
                else:
                    coordinated[found.address].append(found.group)
        return coordinated

    async def _describe_at(
        self,
        address: str,
        groups: Sequence[str],
        deadline: float,
        answers: dict[str, GroupDescription | None],
        errors: list[QuorateError],
    ) -> None:
        channel = self._cluster.channel(address)
        for asked in _in_pieces(groups):
            request = group_pb2.DescribeGroupsRequest(groups=asked)
            try:
                response = await channel.call(DESCRIBE_GROUPS, request, timeout_s=self._attempt_s(deadline))
                described = _checked(response.groups, asked)
            except QuorateError as error:
                errors.append(error)
                return
            for each in described:
                failure = error_from_detail(each.error) if each.HasField("error") else None
                if failure is None:
                    answers[each.group] = group_from(each)
                elif isinstance(failure, GroupNotFound):
                    answers[each.group] = None
                else:
                    errors.append(failure)

    def _attempt_s(self, deadline: float) -> float:
        return min(max(deadline - self._clock.monotonic(), 0.001), _ATTEMPT_TIMEOUT_S)

    # -- one group

    async def describe(self, group: str, timeout_s: float) -> GroupDescription:
        def read(response: group_pb2.DescribeGroupsResponse) -> GroupDescription:
            [described] = _checked(response.groups, [group])
            _raise(described.error if described.HasField("error") else None)
            return group_from(described)

        request = group_pb2.DescribeGroupsRequest(groups=[_name(group)])
        return await self._ask(group, DESCRIBE_GROUPS, request, read, timeout_s)

    async def delete(self, group: str, revision: str | None, timeout_s: float) -> None:
        """``revision``: as it was when somebody looked at it; None: as it is now."""

        def read(response: group_pb2.DeleteGroupsResponse) -> None:
            [result] = _checked(response.results, [group])
            _raise(result.error if result.HasField("error") else None)

        def request(revision: str) -> group_pb2.DeleteGroupsRequest:
            return group_pb2.DeleteGroupsRequest(groups=[_name(group)], revisions=[revision])

        if revision is None:
            await self._change(group, self._revision_of, DELETE_GROUPS, request, read, timeout_s)
        else:
            await self._attempt_change(group, DELETE_GROUPS, request(revision), read, timeout_s)

    async def _revision_of(self, group: str, timeout_s: float) -> str:
        """Raises that there is no such group."""
        return (await self.describe(group, timeout_s)).revision

    # -- offsets

    async def offsets(self, group: str, timeout_s: float) -> dict[TopicPartition, CommittedOffset]:
        request = group_pb2.FetchOffsetsRequest(group=_name(group))
        response = await self._ask(group, FETCH_OFFSETS, request, _as_it_is, timeout_s)
        return {
            TopicPartition(TopicName(each.topic), PartitionId(each.partition)): offset_from(each)
            for each in response.offsets
            if each.HasField("offset")
        }

    async def commit(self, group: str, offsets: object, timeout_s: float) -> None:
        """All of them, or the first error; others may be committed then."""
        named = {
            await self._identify(name, timeout_s): offset for name, offset in offsets_given(offsets).items()
        }
        await self._commit(_name(group), named, timeout_s)

    async def _commit(
        self, group: str, offsets: Mapping[GroupPartition, OffsetAndMetadata], timeout_s: float
    ) -> None:
        if not offsets:
            return

        async def look(group: str, timeout_s: float) -> str:
            request = group_pb2.FetchOffsetsRequest(group=group, partitions=partitions_to(offsets))
            return (await self._ask(group, FETCH_OFFSETS, request, _as_it_is, timeout_s)).revision

        def request(revision: str) -> group_pb2.CommitOffsetsRequest:
            entries = [offset_to(partition, offset) for partition, offset in offsets.items()]
            return group_pb2.CommitOffsetsRequest(group=group, offsets=entries, revision=revision)

        try:
            await self._change(group, look, COMMIT_OFFSETS, request, _check_results, timeout_s)
        except UnknownMember as error:
            # Whoever is no member may commit only while there is none.
            raise GroupNotEmpty(error.message, **error.facts) from None

    async def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], timeout_s: float
    ) -> None:
        named = [await self._identify(check_partition_argument(each), timeout_s) for each in partitions]
        if not named:
            return

        def request(revision: str) -> group_pb2.DeleteOffsetsRequest:
            return group_pb2.DeleteOffsetsRequest(
                group=_name(group), partitions=partitions_to(named), revision=revision
            )

        await self._change(group, self._revision_of, DELETE_OFFSETS, request, _check_results, timeout_s)

    async def reset(
        self,
        group: str,
        partitions: str | Iterable[tuple[str, int]],
        to: ResetTo | None,
        timestamp_ms: int | None,
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> dict[TopicPartition, OffsetReset]:
        """An offset that the log does not hold becomes the nearest one that it does."""
        if (to is None) == (timestamp_ms is None):
            raise InvalidRequest("either to or timestamp_ms says where to")
        wanted = (
            partitions
            if isinstance(partitions, str)
            else [check_partition_argument(each) for each in partitions]
        )
        before = await self.offsets(group, timeout_s)
        first, end = [await self._bounds(wanted, at, timeout_s) for at in ("earliest", "latest")]
        chosen: Mapping[TopicPartition, int | None] = {"earliest": first, "latest": end}.get(str(to), {})
        if timestamp_ms is not None:
            chosen = await self._bounds(wanted, timestamp_ms, timeout_s)
        elif isinstance(to, int):
            chosen = dict.fromkeys(first, check_offset("to", to))
        elif to not in ("earliest", "latest"):
            raise InvalidRequest(
                f"to is {shown(to)}: earliest, latest or an offset is expected; a time is given as "
                "timestamp_ms=…, in milliseconds since 1970",
                argument="to",
            )
        plan = {
            each: OffsetReset(
                before[each].offset if each in before else None,
                _within(chosen[each], first[each], end[each]),
            )
            for each in first
        }
        if not validate_only:
            await self.commit(group, {each: reset.after for each, reset in plan.items()}, timeout_s)
        return plan

    async def _bounds(
        self, partitions: str | Sequence[tuple[str, int]], at: OffsetAt, timeout_s: float
    ) -> dict[TopicPartition, int | None]:
        found = await list_offsets(
            self._cluster, partitions, at, clock=self._clock, rng=self._rng, timeout_s=timeout_s
        )
        return {name: each.offset for name, each in found.items()}

    # -- how

    async def _identify(self, name: TopicPartition, timeout_s: float) -> GroupPartition:
        topic = await self._cluster.topic(name.topic, timeout_s=timeout_s)
        if not 0 <= name.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(
                f"{name}: the topic has {len(topic.partitions)} partitions", topic=name.topic
            )
        return GroupPartition(topic.topic_id, topic.name, name.partition)

    async def _change(
        self,
        group: str,
        look: Callable[[str, float], Awaitable[str]],
        method: Method[Request, Response],
        request: Callable[[str], Request],
        read: Callable[[Response], T],
        timeout_s: float,
    ) -> T:
        """``look``: tells the revision. ``request``: of a change that is based on it."""
        deadline = self._clock.monotonic() + timeout_s
        backoff = Backoff(self._rng)
        while True:
            revision = await look(group, max(deadline - self._clock.monotonic(), 0.001))
            remaining_s = max(deadline - self._clock.monotonic(), 0.001)
            try:
                return await self._attempt_change(group, method, request(revision), read, remaining_s)
            except InvalidUpdateVersion:
                pause_s = backoff.next_s()
                if self._clock.monotonic() + pause_s >= deadline:
                    raise
            await self._clock.sleep(pause_s)

    async def _attempt_change(
        self,
        group: str,
        method: Method[Request, Response],
        request: Request,
        read: Callable[[Response], T],
        timeout_s: float,
    ) -> T:
        """What others did since is a reason to refuse only where no attempt is without an answer."""
        unknown: QuorateError | None = None

        def note(error: QuorateError) -> None:
            nonlocal unknown
            if error.outcome_unknown:
                unknown = error

        try:
            return await self._ask(group, method, request, read, timeout_s, on_error=note)
        except (InvalidUpdateVersion, GroupNotEmpty, UnknownMember) as error:
            if unknown is None:
                raise
            raise copy_of(unknown) from error

    async def _ask(
        self,
        group: str,
        method: Method[Request, Response],
        request: Request,
        read: Callable[[Response], T],
        timeout_s: float,
        *,
        on_error: Callable[[QuorateError], None] = lambda _: None,
    ) -> T:
        """``read`` takes the answer apart, and raises what it says is wrong."""
        link = CoordinatorLink(self._cluster, group, clock=self._clock, rng=self._rng)

        async def attempt(remaining_s: float) -> T:
            attempt_s = min(remaining_s, _ATTEMPT_TIMEOUT_S)
            return read(await link.call_once(method, request, timeout_s=attempt_s))

        def try_elsewhere(error: QuorateError) -> None:
            link.forget()
            on_error(error)

        try:
            return await retrying(
                attempt, clock=self._clock, rng=self._rng, timeout_s=timeout_s, on_error=try_elsewhere
            )
        finally:
            await link.close()


def _name(group: object) -> str:
    if not isinstance(group, str) or not group:
        raise InvalidRequest(f"group is {shown(group)}: a name is expected", argument="group")
    return group


def _in_pieces(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(groups), _GROUPS_PER_QUESTION):
        yield groups[start : start + _GROUPS_PER_QUESTION]


def _checked(results: Sequence[OfGroup], asked: Sequence[str]) -> Sequence[OfGroup]:
    """One for each group, in the same order."""
    if [each.group for each in results] != list(asked):
        raise UnknownServerError("a coordinator answers what was not asked")
    return results


def _raise(detail: errors_pb2.ErrorDetail | None) -> None:
    if detail is not None:
        raise error_from_detail(detail)


def _as_it_is(response: Response) -> Response:
    return response


def _check_results(
    response: group_pb2.CommitOffsetsResponse | group_pb2.DeleteOffsetsResponse,
) -> None:
    for result in response.results:
        _raise(result.error if result.HasField("error") else None)


def _within(offset: int | None, first: int | None, end: int | None) -> int:
    assert first is not None
    assert end is not None
    # None: no record is that late; the next one to come will be.
    return end if offset is None else min(max(offset, first), end)
