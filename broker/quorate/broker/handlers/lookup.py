"""Calls that ask the leader of each partition one thing, and wait for nothing.

They differ in what they ask: ``find`` fills in the result of one partition, or raises what goes in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from quorate.broker.handlers.targets import NamedPartition, PartitionResult, answer_each
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.core.config import NodeConfig
from quorate.core.transport import Call

__all__ = ["LookupHandler"]

Named = TypeVar("Named", bound=NamedPartition)
Result = TypeVar("Result", bound=PartitionResult)
Named_co = TypeVar("Named_co", bound=NamedPartition, covariant=True)
Result_co = TypeVar("Result_co", bound=PartitionResult, covariant=True)


class _Request(Protocol[Named_co]):
    @property
    def partitions(self) -> Sequence[Named_co]: ...


class _Results(Protocol[Result_co]):
    def add(self) -> Result_co: ...


class _Response(Protocol[Result_co]):
    @property
    def partitions(self) -> _Results[Result_co]: ...


class LookupHandler(Generic[Named, Result]):
    def __init__(
        self,
        config: NodeConfig,
        hosted: Hosted,
        new_response: Callable[[], _Response[Result]],
        find: Callable[[Result, Named, Partition], None],
    ) -> None:
        self._partitions_max = config.request_partitions_max
        self._hosted = hosted
        self._new_response = new_response
        self._find = find

    async def __call__(self, request: _Request[Named], _call: Call) -> _Response[Result]:
        response = self._new_response()
        answer_each(
            self._hosted,
            request.partitions,
            response.partitions.add,
            self._find,
            partitions_max=self._partitions_max,
        )
        return response
