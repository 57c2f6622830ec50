"""What somebody is told who bootstraps with nodes that are no brokers.

A controller has an address of its own, and no records. It would be of no use to ask it again, so its client
is told at once; and since every controller knows the brokers, they are named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.transport import Channel, method_of
from quorate.errors import QuorateError, UnsupportedOperation
from quorate.v1 import admin_pb2

__all__ = ["NotBrokers", "is_unimplemented", "look_at_not_brokers"]

_DESCRIBE_CLUSTER: Final = method_of(
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    "DescribeCluster",
    admin_pb2.DescribeClusterRequest,
    admin_pb2.DescribeClusterResponse,
)
#: as many as a bootstrap needs
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class NotBrokers:
    #: they answered, and have none of a broker's methods
    addresses: tuple[str, ...]
    #: where nobody answered
    silent: tuple[str, ...]
    #: what else listens there is no business of ours
    are_controllers: bool
    #: where there are brokers; None: nobody could say
    brokers: tuple[str, ...] | None

    def error(self, **facts: str) -> UnsupportedOperation:
        if len(self.addresses) == 1:
            what = "this is a controller, not a broker" if self.are_controllers else "this is no broker"
        else:
            what = "these are controllers, not brokers" if self.are_controllers else "these are no brokers"
        where = f"nobody answers at {', '.join(self.silent)}" if self.silent else ""
        told = "; ".join(filter(None, (self._advice(), where)))
        return UnsupportedOperation(f"{', '.join(self.addresses)}: {what}: {told}", **facts)

    def _advice(self) -> str:
        if self.brokers is None:
            return "bootstrap with brokers"
        if not self.brokers:
            return "bootstrap with brokers, once one has registered: there is none yet"
        return f"bootstrap with brokers: {','.join(self.brokers[:_NAMED_MAX])}"


async def look_at_not_brokers(
    addresses: Sequence[str],
    silent: Iterable[str],
    *,
    channel: Callable[[str], Channel],
    timeout_s: float,
) -> NotBrokers:
    """Asks all of them at once who the brokers are."""
    answers = await asyncio.gather(*(_describe(channel(each), timeout_s) for each in addresses))
    described = [each for each in answers if isinstance(each, admin_pb2.DescribeClusterResponse)]
    brokers = None
    if described:
        newest = max(described, key=lambda each: each.metadata_offset)
        living_first = sorted(newest.brokers, key=lambda each: each.is_fenced)
        brokers = tuple(each.address for each in living_first)
    return NotBrokers(
        tuple(addresses),
        tuple(silent),
        are_controllers=not any(
            isinstance(each, QuorateError) and is_unimplemented(each) for each in answers
        ),
        brokers=brokers,
    )


async def _describe(channel: Channel, timeout_s: float) -> admin_pb2.DescribeClusterResponse | QuorateError:
    try:
        return await channel.call(_DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest(), timeout_s=timeout_s)
    except QuorateError as error:
        return error


def is_unimplemented(error: QuorateError) -> bool:
    """A node of another role says so, or whatever else listens there."""
    return isinstance(error, UnsupportedOperation) or error.facts.get("grpc_status") == "UNIMPLEMENTED"
