"""Reads records from partitions, on the application's event loop.

Calls that need nobody's answer are plain functions and take effect at once; what has to wait is a coroutine.
One task uses a consumer at a time. Groups are not there yet: partitions are assigned by the application, or
all partitions of ``topics`` are read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from quorate.client.arguments import check_seconds
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.consumer.engine import ConsumerEngine
from quorate.client.consumer.iteration import ITERATION_RECORDS, ITERATION_STEP_S
from quorate.client.consumer.options import OptionArguments, options_of
from quorate.client.consumer.positions import BEGINNING, END, at_time
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport

__all__ = ["AsyncConsumer"]


class AsyncConsumer:
    """Use as an asynchronous context manager, or close it. It begins to fetch with the first coroutine."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ConsumerOptions`. The transport, clock and rng are for simulations."""
        self._engine = ConsumerEngine(
            options_of("AsyncConsumer", options),
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            topics or (),
            clock=clock or SystemClock(),
            rng=rng or random.Random(),
        )

    async def __aenter__(self) -> Self:
        self._engine.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position."""
        self._engine.assign(partitions)

    def assignment(self) -> list[TopicPartition]:
        return self._engine.assignment()

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self._engine.pause(partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._engine.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        return self._engine.paused()

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int | None = None) -> None:
        """Go on at ``offset``.

        With the leader epoch of the record before it, as kept from when it was read, the position is checked
        before it is used: `LogTruncated` if what was read is no longer there.
        """
        self._engine.seek(partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all that are assigned, and all of ``topics`` that are still to be found."""
        self._engine.seek_to(partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked. None given: as above."""
        self._engine.seek_to(partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._engine.seek_to([partition], at_time(timestamp_ms))

    async def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """The offset of the next record that a poll will bring of this partition."""
        return await self._engine.position(partition, timeout)

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        return self._engine.lag()

    # -- records

    async def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        check_seconds("timeout", timeout)
        self._engine.put_back()
        return await self._poll(max_records, timeout)

    async def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        engine = self._engine
        engine.start()
        # Also an application that always finds records here has to let the next ones be fetched.
        await asyncio.sleep(0)
        records = engine.take(max_records, is_patient=True)
        if not records and timeout > 0:
            await engine.wait(timeout)
        return records or engine.take(max_records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        ahead = self._engine.ahead
        while (record := ahead.next()) is None:
            self._engine.check_open()
            ahead.fill(await self._poll(ITERATION_RECORDS, ITERATION_STEP_S))
        return record

    def statistics(self) -> ConsumerStatistics:
        return self._engine.statistics()

    # -- life

    async def close(self) -> None:
        """Records that were not polled stay in the log; closing twice is harmless."""
        await self._engine.close()
