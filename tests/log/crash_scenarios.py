"""What the processes do that are killed: each scenario is one life of a data directory.

A ``Life`` says what it is going to do before it does it, and that it is done afterwards, in the words
of ``log_model``. So whoever listens knows at any moment which states the log may be in: see
``crash_harness.Ledger``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.chaos.models.log.log_harness import NOW_MS, ManualClock, batch, make_context
from quorate.core.disk import Disk
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.records import Compression
from quorate.storage import LogConfig, LogContext, PartitionKey, PartitionLog
from tests.log.log_model import stamped

__all__ = ["CONFIG", "KEY", "SCENARIOS", "Life", "Report", "prepare", "start_in", "stream"]

KEY: Final = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("A" * 22))
BROKER_EPOCH: Final = BrokerEpoch(7)
#: some ten small batches to a segment, an index entry for every third
CONFIG: Final = LogConfig(
    segment_bytes=1_500,
    segment_ms=3_600_000,
    index_interval_bytes=400,
    retention_ms=1_000,
    max_message_bytes=1 << 20,
)


async def start_in(context: LogContext, directory: str) -> BrokerDirectory:
    """All that a process does with its directory before it serves."""
    data = await BrokerDirectory.open(
        context, directory, node_id=BrokerId(1), cluster_id=None, random_bytes=os.urandom
    )
    await data.recover_logs(lambda _: CONFIG)
    await data.note_incarnation("this one")
    await data.note_epoch(BROKER_EPOCH, "the cluster")
    return data


class Report(Protocol):
    """How a life tells the world; see ``LogModel`` for the operations and their arguments."""

    def begin(self, operation: str, *arguments: object) -> None: ...

    def done(self) -> None: ...


class Life:
    """One process with one log, on a clock that stands still unless it is moved."""

    def __init__(self, disk: Disk, directory: str, report: Report) -> None:
        self.clock = ManualClock()
        self._directory = directory
        self._context = make_context(disk, self.clock)
        self._report = report
        self._data: BrokerDirectory | None = None
        self._log: PartitionLog | None = None
        self._values = itertools.count(1)

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None
        return self._log

    async def do(self, operation: str, *arguments: object, action: Callable[[], Awaitable[object]]) -> None:
        self._report.begin(operation, *arguments)
        await action()
        self._report.done()

    async def open(self) -> None:
        """The first life makes the log, every other one finds it."""

        async def open_or_create() -> None:
            self._data = await start_in(self._context, self._directory)
            self._log = self._data.logs.get(KEY) or await self._data.logs.create(KEY, CONFIG)
            assert self._log.damage is None, self._log.damage

        await self.do("open", action=open_or_create)

    async def lead(self, leader_epoch: int) -> None:
        async def lead() -> None:
            self.log.become_leader(LeaderEpoch(leader_epoch))

        await self.do("lead", leader_epoch, action=lead)

    async def append(self, *batches: bytes) -> None:
        """As leader, one after the other."""
        for each in batches:
            await self._append(each)

    async def _append(self, sent: bytes) -> None:
        epoch = self.log.latest_leader_epoch
        (stored,) = self._stamp((sent,), epoch)

        async def append() -> None:
            self.log.append_as_leader(sent, leader_epoch=epoch)

        await self.do("append", stored, action=append)

    async def replicate(self, *batches: bytes, leader_epoch: int) -> None:
        """As follower, with one call."""
        stored = list(self._stamp(batches, leader_epoch))

        async def append() -> None:
            self.log.append_as_follower(b"".join(stored))

        await self.do("append", *stored, action=append)

    def _stamp(self, batches: tuple[bytes, ...], leader_epoch: int) -> Iterator[bytes]:
        offset = int(self.log.log_end_offset)
        for each in batches:
            stored = stamped(each, base_offset=offset, leader_epoch=leader_epoch)
            offset += int.from_bytes(stored[23:27], "big") + 1
            yield stored

    async def roll_by_age(self) -> None:
        self.clock.now_ms += 2 * CONFIG.segment_ms
        segments = self.log.segment_count

        async def roll() -> None:
            self.log.roll_if_old()
            assert self.log.segment_count == segments + 1

        await self.do("roll", action=roll)

    async def flush(self) -> None:
        await self.do("flush", action=lambda: self.log.flush())

    async def checkpoint(self) -> None:
        await self.do("checkpoint", action=lambda: self.log.checkpoint())

    async def truncate(self, offset: int) -> None:
        await self.do("truncate", offset, action=lambda: self.log.truncate_to(Offset(offset)))

    async def retain(self, *, log_start_offset: int) -> None:
        """Everything is old enough; the high watermark decides how far it goes."""
        self.clock.now_ms += 10 * CONFIG.retention_ms

        async def retain() -> None:
            await self.log.apply_retention(below=Offset(log_start_offset))
            assert self.log.log_start_offset == log_start_offset

        await self.do("raise_log_start", log_start_offset, action=retain)

    async def advance_log_start(self, offset: int) -> None:
        await self.do("raise_log_start", offset, action=lambda: self.log.advance_log_start(Offset(offset)))

    async def reset(self, offset: int) -> None:
        await self.do("reset", offset, action=lambda: self.log.reset_to(Offset(offset)))

    async def close(self) -> None:
        async def close() -> None:
            assert self._data is not None
            assert await self._data.close()

        await self.do("close", action=close)

    # -- batches

    def small(self, *, producer: tuple[int, int, int] | None = None) -> bytes:
        """Three records, of which no other batch has the same."""
        values = [b"value %d" % next(self._values) + b"." * 40 for _ in range(3)]
        return batch(*values, timestamp=NOW_MS, producer=producer)

    def large(self, value_bytes: int) -> bytes:
        values = [b"value %d" % next(self._values) + b"-" * value_bytes for _ in range(2)]
        return batch(*values, timestamp=NOW_MS, compression=Compression.NONE)


async def prepare(life: Life) -> None:
    """What most scenarios begin with: several segments, three epochs, two producers, some of it synced."""
    await life.open()
    await life.lead(1)
    for sequence in range(0, 18, 3):
        await life.append(life.small(producer=(41, 0, sequence)))
    await life.replicate(life.small(), life.small(), leader_epoch=2)
    await life.flush()
    await life.checkpoint()
    await life.lead(4)
    for sequence in range(0, 36, 3):
        await life.append(life.small(producer=(42, 0, sequence)))
    assert life.log.segment_count >= 3
    assert life.log.log_end_offset == 60


async def _append(life: Life) -> None:
    await life.append(life.small(producer=(42, 0, 36)))
    await life.append(life.large(50_000))
    await life.append(life.small(producer=(42, 0, 39)), life.small(), life.small(producer=(43, 0, 0)))
    await life.flush()


async def _replicate(life: Life) -> None:
    await life.replicate(life.small(), leader_epoch=4)
    await life.replicate(life.small(), life.small(), leader_epoch=6)


async def _lead(life: Life) -> None:
    await life.lead(5)
    await life.append(life.small())
    await life.lead(6)
    await life.lead(7)
    await life.append(life.small())


async def _roll(life: Life) -> None:
    """By size, within a follower's write, and by the age of the first batch."""
    await life.append(life.large(700))
    await life.append(life.large(300))
    await life.replicate(*[life.small() for _ in range(8)], leader_epoch=4)
    await life.roll_by_age()
    await life.append(life.small(producer=(42, 0, 36)))


async def _checkpoint(life: Life) -> None:
    await life.append(life.large(700))
    await life.append(life.large(700))
    await life.flush()
    await life.checkpoint()


async def _truncate(life: Life) -> None:
    """Within a segment, then to before the recovery point, and go on from there."""
    await life.flush()
    await life.checkpoint()
    await life.truncate(47)
    await life.truncate(10)
    await life.replicate(life.small(), leader_epoch=5)


async def _retain(life: Life) -> None:
    second, third = (segment.base_offset for segment in life.log._state.segments[1:3])
    await life.retain(log_start_offset=second)
    await life.advance_log_start(third + 1)
    await life.retain(log_start_offset=60)
    await life.append(life.small())


async def _reset(life: Life) -> None:
    await life.reset(1_000)
    await life.replicate(life.small(), leader_epoch=5)
    await life.reset(0)
    await life.replicate(life.small(), leader_epoch=5)


async def _close(life: Life) -> None:
    await life.append(life.small(producer=(42, 0, 36)))
    await life.close()


async def _nothing(_: Life) -> None:
    """For what happens while a log is opened."""


#: each begins in a directory that ``prepare`` has left behind, and opens it first
SCENARIOS: Final = {
    "append": _append,
    "replicate": _replicate,
    "lead": _lead,
    "roll": _roll,
    "checkpoint": _checkpoint,
    "truncate": _truncate,
    "retain": _retain,
    "reset": _reset,
    "close": _close,
    "open": _nothing,
}


async def stream(life: Life) -> None:
    """Append until killed."""
    await life.open()
    await life.lead(int(life.log.latest_leader_epoch) + 1)
    for number in itertools.count(1):
        await life.append(*[life.small() for _ in range(number % 3 + 1)])
        if number % 4 == 0:
            await life.flush()
        if number % 20 == 0:
            await life.checkpoint()
