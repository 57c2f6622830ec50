"""Iteration over single records, on top of polls for many.

Records that were taken out for an iteration and not yielded yet are not read: before anything else is done
with the consumer they go back, so that leaving a loop and polling, or seeking, or asking for the position,
works as if each record had been polled alone.
"""

from __future__ import annotations

from typing import Final

from quorate.client.consumer.buffer import FetchBuffer
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord

__all__ = ["ITERATION_RECORDS", "ITERATION_STEP_S", "RecordsAhead"]

#: How many records an iteration takes out at once.
ITERATION_RECORDS: Final = 1000
#: An iteration waits for ever, in steps of so long.
ITERATION_STEP_S: Final = 1.0


class RecordsAhead:
    __slots__ = ("_buffer", "_last", "_reversed", "is_interrupted", "steps")

    def __init__(self, buffer: FetchBuffer) -> None:
        self._buffer = buffer
        #: the next one last, where it is cheap to take
        self._reversed: list[ConsumerRecord] = []
        #: what was yielded last, as long as the application has not come back
        self._last: ConsumerRecord | None = None
        #: there is something to do before the next record is yielded; set on the event loop's thread
        self.is_interrupted = False
        #: how often the application has come for a record
        self.steps = 0

    def __len__(self) -> int:
        return len(self._reversed)

    def fill(self, records: list[ConsumerRecord]) -> None:
        assert not self._reversed
        self._reversed = records[::-1]
        # Each of them is handed out when it is yielded, not now.
        self._buffer.came_back()

    def next(self) -> ConsumerRecord | None:
        """None: none is left, or something has to be done first."""
        self.steps += 1
        if self.is_interrupted or not self._reversed:
            self._last = None
            return None
        self._last = self._reversed.pop()
        return self._last

    def put_back(self) -> None:
        if self._reversed:
            self._buffer.put_back(self._reversed[::-1])
            self._reversed = []

    def came_back(self) -> None:
        """The application is done with all that it was handed, by a poll or a step."""
        self._last = None
        self._buffer.came_back()

    def forget(self, partition: TopicPartition) -> None:
        """The application has chosen another position there: what it was handed before does not matter."""
        if self._last is not None and (self._last.topic, self._last.partition) == partition:
            self._last = None

    def unread(self) -> None:
        """The application did not come back from what it was handed last: it counts as not read."""
        if self._last is not None:
            self._reversed.append(self._last)
            self._last = None
        self.put_back()
        self._buffer.unread()
