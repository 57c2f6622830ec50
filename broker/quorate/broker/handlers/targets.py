"""From the names in a request to partitions, under the bounds that hold for every request.

A request names many partitions, and each has a result of its own: the first half finds them, the
second half fills the results in, or tells in them what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

from google.protobuf.descriptor import EnumDescriptor

from quorate.broker.controller_link.lease import fenced
from quorate.broker.handlers.client_errors import for_client
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.errors import InvalidRequest, QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import errors_pb2

__all__ = [
    "KnownValues",
    "NamedPartition",
    "PartitionResult",
    "answer_each",
    "find_partitions",
    "known_epoch",
]

Named = TypeVar("Named", bound="NamedPartition")
Result = TypeVar("Result", bound="PartitionResult")


class NamedPartition(Protocol):
    """What the partitions of every request have in common."""

    topic: str
    topic_id: str
    partition: int
    current_leader_epoch: int

    def HasField(self, name: Literal["current_leader_epoch"], /) -> bool: ...  # noqa: N802 - protobuf's name


class PartitionResult(Protocol):
    """What the partitions of every answer have in common."""

    topic: str
    topic_id: str
    partition: int

    @property
    def error(self) -> errors_pb2.ErrorDetail: ...

    def Clear(self) -> None: ...  # noqa: N802 - protobuf's name


class KnownValues:
    """The values of an enum: one of a newer client must not be taken for the default."""

    __slots__ = ("_field", "_names", "_numbers")

    def __init__(self, enum: EnumDescriptor, field: str) -> None:
        self._field = field
        # Kept, because asking protobuf costs more than all the rest of such a check.
        self._numbers = frozenset(enum.values_by_number)
        self._names = ", ".join(enum.values_by_name)

    def check(self, value: int) -> None:
        if value not in self._numbers:
            raise InvalidRequest(f"{self._field} has the unknown value {value}; known are {self._names}")


def known_epoch(named: NamedPartition) -> int | None:
    """The leader epoch that the client knows; None: it does not say (rule 3)."""
    return named.current_leader_epoch if named.HasField("current_leader_epoch") else None


def find_partitions(
    hosted: Hosted, named: Sequence[NamedPartition], *, partitions_max: int
) -> list[Partition | QuorateError]:
    """Each partition that is named, or why the request cannot have it, in the same order.

    Fails as a whole for too many, and for one that is named twice, by whichever names: its share of
    the answer would be ambiguous.
    """
    if len(named) > partitions_max:
        raise InvalidRequest(
            f"the request names {len(named)} partitions, request.partitions.max is {partitions_max}",
            request_partitions_max=partitions_max,
        )
    found: list[Partition | QuorateError] = []
    for each in named:
        try:
            partition = hosted.find(each.topic, each.topic_id, each.partition)
        except QuorateError as error:
            # Its traceback would hold this list, and with it the request, until garbage is collected.
            found.append(for_client(error, hosted).with_traceback(None))
        else:
            found.append(partition)
    if len(found) > 1:
        _check_named_once(found)
    return found


def _check_named_once(found: Sequence[Partition | QuorateError]) -> None:
    #: by identity: there is one object for a replica
    seen: set[Partition] = set()
    for partition in found:
        if isinstance(partition, QuorateError):
            continue
        if partition in seen:
            topic, number = partition.topic_partition
            raise InvalidRequest(f"{partition.topic_partition} is named twice", topic=topic, partition=number)
        seen.add(partition)


def answer_each(
    hosted: Hosted,
    named: Sequence[Named],
    add_result: Callable[[], Result],
    fill: Callable[[Result, Named, Partition], None],
    *,
    partitions_max: int,
) -> None:
    """Let ``fill`` answer for each partition, from what the leader of that partition knows."""
    targets = find_partitions(hosted, named, partitions_max=partitions_max)
    results: list[Result] = []
    for each, target in zip(named, targets, strict=True):
        result = add_result()
        results.append(result)
        _answer(hosted, result, each, target, fill)
    # Last, because the answer leaves now: a look into the log can take its time, and so can a process that
    # was stopped in the middle of it (rule 37).
    if not hosted.lease.is_valid:
        for each, result in zip(named, results, strict=True):
            result.Clear()
            result.topic, result.topic_id, result.partition = each.topic, each.topic_id, each.partition
            result.error.CopyFrom(detail_from_error(fenced()))


def _answer(
    hosted: Hosted,
    result: Result,
    named: Named,
    target: Partition | QuorateError,
    fill: Callable[[Result, Named, Partition], None],
) -> None:
    result.topic, result.topic_id, result.partition = named.topic, named.topic_id, named.partition
    if isinstance(target, QuorateError):
        result.error.CopyFrom(detail_from_error(target))
        return
    # A request may name a topic by one of the two; the answer has both.
    result.topic, result.topic_id = target.topic_partition.topic, target.topic_id
    try:
        fill(result, named, target)
    except QuorateError as error:
        result.error.CopyFrom(detail_from_error(for_client(error, hosted)))
