"""What ``send_many`` returns: one handle for many records."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Sequence
from itertools import accumulate, chain
from typing import Any, Final, overload

from quorate.client.producer.accumulator import Placed
from quorate.client.producer.batch import ProducerBatch, RecordMetadata
from quorate.client.producer.record_future import wait_for
from quorate.errors import QuorateError

__all__ = ["Delivery"]


_RECORDS_SHOWN: Final = 5


class Delivery:
    """Knows the batches that the records went into, and nothing for each record."""

    __slots__ = ("_ends", "_indices", "_placed", "_ranks")

    def __init__(self, placed: Sequence[Placed], indices: Sequence[Sequence[int]] | None) -> None:
        self._placed = placed
        #: ``_ends[i]``: records in the first i + 1 places together
        self._ends = list(accumulate(each.records for each in placed))
        #: which records were placed, in that order; None: all, as they were given
        self._indices = indices
        #: for each record its rank among the placed ones; made when it is first needed
        self._ranks: list[int] | None = None

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __repr__(self) -> str:
        return f"<Delivery of {len(self)} record(s), {'done' if self.done() else 'under way'}>"

    def done(self) -> bool:
        return all(each.batch.is_done for each in self._placed)

    def result(self, timeout: float | None = None) -> Sequence[RecordMetadata]:
        """Where each record is, in the order in which they were given; raises the first error.

        After an error ``errors`` says which records it concerns: others may be delivered all the same.
        """
        self._wait(timeout)
        for each in self._placed:
            each.batch.raise_error()
        return _Metadata(self)

    def exception(self, timeout: float | None = None) -> QuorateError | None:
        """The first error; None: all were delivered."""
        self._wait(timeout)
        return next((each.batch.error for each in self._placed if each.batch.error is not None), None)

    def errors(self, timeout: float | None = None) -> dict[int, QuorateError]:
        """The records that were not delivered, by index, each with its error."""
        self._wait(timeout)
        if all(each.batch.error is None for each in self._placed):
            return {}
        found = {}
        for index in range(len(self)):
            error = self._place_of(index)[0].error
            if error is not None:
                found[index] = error
        return found

    def __await__(self) -> Generator[Any, None, Sequence[RecordMetadata]]:
        for each in self._placed:
            if not each.batch.is_done:
                yield from wait_for(each.batch).__await__()
        return self.result()

    def metadata(self, index: int) -> RecordMetadata:
        batch, index_in_batch = self._place_of(index)
        return batch.metadata(index_in_batch)

    def _place_of(self, index: int) -> tuple[ProducerBatch, int]:
        rank = index if self._indices is None else self._rank_of(index)
        which = bisect_right(self._ends, rank)
        placed = self._placed[which]
        return placed.batch, placed.first + rank - (self._ends[which] - placed.records)

    def _rank_of(self, index: int) -> int:
        if self._ranks is None:
            assert self._indices is not None
            self._ranks = [0] * len(self)
            for rank, each in enumerate(chain.from_iterable(self._indices)):
                self._ranks[each] = rank
        return self._ranks[index]

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for each in self._placed:
            if not each.batch.is_done:
                each.batch.wait(None if deadline is None else max(deadline - time.monotonic(), 0))


class _Metadata(Sequence[RecordMetadata]):
    """Made one by one, as they are looked at."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __len__(self) -> int:
        return len(self._delivery)

    def __repr__(self) -> str:
        """As a list's, which it is like; of many records the first few."""
        shown = ", ".join(repr(each) for each in self[:_RECORDS_SHOWN])
        more = len(self) - _RECORDS_SHOWN
        return f"[{shown}, … {more} more]" if more > 0 else f"[{shown}]"

    @overload
    def __getitem__(self, index: int) -> RecordMetadata: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordMetadata]: ...

    def __getitem__(self, index: int | slice) -> RecordMetadata | Sequence[RecordMetadata]:
        if isinstance(index, slice):
            return [self._delivery.metadata(each) for each in range(len(self))[index]]
        return self._delivery.metadata(range(len(self))[index])
