"""Iteration over single records, on top of polls for many.

Records that were taken out for an iteration and not yielded yet are not read: before anything else is done
with the consumer they go back, so that leaving a loop and polling, or seeking, or asking for the position,
works as if each record had been polled alone.
"""

from __future__ import annotations

from typing import Final

from quorate.client.consumer.buffer import FetchBuffer
from quorate.core.records import ConsumerRecord

__all__ = ["ITERATION_RECORDS", "ITERATION_STEP_S", "RecordsAhead"]

#: How many records an iteration takes out at once.
ITERATION_RECORDS: Final = 1000
#: An iteration waits for ever, in steps of so long.
ITERATION_STEP_S: Final = 1.0


class RecordsAhead:
    __slots__ = ("_buffer", "_reversed")

    def __init__(self, buffer: FetchBuffer) -> None:
        self._buffer = buffer
        #: the next one last, where it is cheap to take
        self._reversed: list[ConsumerRecord] = []

    def __len__(self) -> int:
        return len(self._reversed)

    def fill(self, records: list[ConsumerRecord]) -> None:
        assert not self._reversed
        self._reversed = records[::-1]

    def next(self) -> ConsumerRecord | None:
        return self._reversed.pop() if self._reversed else None

    def put_back(self) -> None:
        if self._reversed:
            self._buffer.put_back(self._reversed[::-1])
            self._reversed = []
