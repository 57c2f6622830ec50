"""Reads records from partitions, from an ordinary thread.

Fetching goes on in the process's background loop. A poll takes and decodes what lies ready on the caller's
own thread, and crosses over to the loop only to wait. One thread uses a consumer at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, Unpack

from quorate.client.arguments import check_seconds
from quorate.client.background import BackgroundLoop
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.consumer.engine import ConsumerEngine
from quorate.client.consumer.iteration import ITERATION_RECORDS, ITERATION_STEP_S
from quorate.client.consumer.options import OptionArguments, options_of
from quorate.client.consumer.positions import BEGINNING, END, at_time
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import ClientClosed

__all__ = ["Consumer"]

P = ParamSpec("P")
T = TypeVar("T")


class Consumer:
    """Use as a context manager, or close it. It has the calls of `AsyncConsumer`, with the same meaning."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        transport: Transport | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ConsumerOptions`."""
        self._engine = ConsumerEngine(
            options_of("Consumer", options),
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            topics or (),
            clock=SystemClock(),
            rng=random.Random(),
        )
        self._is_closed = False
        self._background = BackgroundLoop.acquire()
        self._on_loop(self._engine.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position."""
        self._on_loop(self._engine.assign, partitions)

    def assignment(self) -> list[TopicPartition]:
        return self._on_loop(self._engine.assignment)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self._on_loop(self._engine.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._on_loop(self._engine.resume, partitions)

    def paused(self) -> list[TopicPartition]:
        return self._on_loop(self._engine.paused)

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int | None = None) -> None:
        """Go on at ``offset``; with the leader epoch of the record before it, that is checked first."""
        self._on_loop(self._engine.seek, partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all."""
        self._on_loop(self._engine.seek_to, partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked. No partition given: all."""
        self._on_loop(self._engine.seek_to, partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._on_loop(self._engine.seek_to, [partition], at_time(timestamp_ms))

    def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:
        """The offset of the next record that a poll will bring of this partition."""
        self._check_open()
        return self._background.call(self._engine.position(partition, timeout))

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        return self._on_loop(self._engine.lag)

    # -- records

    def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        check_seconds("timeout", timeout)
        self._engine.put_back()
        return self._poll(max_records, timeout)

    def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:
        records = self._engine.take(max_records, is_patient=True)
        if not records and timeout > 0:
            self._background.call(self._engine.wait(timeout))
        return records or self._engine.take(max_records)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        ahead = self._engine.ahead
        while (record := ahead.next()) is None:
            ahead.fill(self._poll(ITERATION_RECORDS, ITERATION_STEP_S))
        return record

    def statistics(self) -> ConsumerStatistics:
        return self._on_loop(self._engine.statistics)

    # -- life

    def close(self) -> None:
        """Records that were not polled stay in the log; closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._background.call(self._engine.close())
        finally:
            self._background.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed")

    def _on_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it on the background loop's thread, to which all state but the buffer belongs."""
        self._check_open()

        async def call() -> T:
            return function(*args, **kwargs)

        return self._background.call(call())
