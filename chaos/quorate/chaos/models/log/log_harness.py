"""What the tests of the log have in common: batches to append, a disk and a clock to run it on, and
one value, ``LogImage``, that says everything a log holds.

``LogImage`` is what most tests compare. ``image_of`` takes it from a log through its reads, which
verify; ``replay`` derives it from nothing but batches, by code of its own. A log whose image is not
the replay of its batches has forgotten or invented something (rules 5 and 49).
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.chaos.sim.disk_faults import Operation
from quorate.core.clock import SystemClock
from quorate.core.disk import Disk
from quorate.core.ids import LeaderEpoch, Offset, ProducerId, TimestampMs
from quorate.core.records import BatchHeader, Compression, encode_values, parse_header
from quorate.storage import LogConfig, LogContext, LogDirectory, OpenFiles, PartitionLog, StartKind

__all__ = [
    "DIRECTORY",
    "EVERYTHING",
    "NOW_MS",
    "SMALL_CONFIG",
    "HastyClock",
    "LogHarness",
    "LogImage",
    "ManualClock",
    "ProcessEnded",
    "ProducerImage",
    "batch",
    "epochs_of",
    "headers_in",
    "image_of",
    "maintain",
    "make_context",
    "os_error",
    "producers_of",
    "read_all",
    "record_operations",
    "replay",
    "small_config",
    "split_batches",
]

#: where a harness keeps its log
DIRECTORY: Final = "/data/orders-0"
#: what ``ManualClock`` shows at first, and the timestamp of batches that are given no other
NOW_MS: Final = 1_767_225_600_000
#: for ``bytes_max``: more than any log here has
EVERYTHING: Final = 1 << 30
#: few batches to a segment, an index entry for each, and nothing expires by itself
SMALL_CONFIG: Final = LogConfig(
    segment_bytes=400, index_interval_bytes=0, retention_ms=-1, max_message_bytes=100_000
)


def small_config(**changes: Any) -> LogConfig:
    return dataclasses.replace(SMALL_CONFIG, **changes)


class ProcessEnded(BaseException):
    """What ``on_fatal`` does in tests. No handler may stop it: a real process would be gone."""


def end_process(reason: str) -> NoReturn:
    raise ProcessEnded(reason)


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class ManualClock(SystemClock):
    """It shows what it was set to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms
        #: by how much the wall clock is wrong
        self.wall_jump_ms = 0

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.now_ms + self.wall_jump_ms)


class HastyClock(ManualClock):
    """Whoever sleeps wakes up at once, and the time has passed."""

    async def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        await asyncio.sleep(0)


def make_context(disk: Disk, clock: SystemClock | None = None, *, files_max: int = 16) -> LogContext:
    """As one process has it: a new one forgets which errors the old one saw."""
    return LogContext(disk, clock or ManualClock(), OpenFiles(disk, files_max=files_max), end_process)


def record_operations(disk: SimDisk) -> list[Operation]:
    """From now on; the list grows with every operation."""
    disk.trace = operations = list[Operation]()
    return operations


# -- batches


def batch(
    *values: bytes | None,
    timestamp: int = NOW_MS,
    timestamps: Sequence[int] | None = None,
    producer: tuple[int, int, int] | None = None,
    compression: Compression = Compression.NONE,
) -> bytes:
    """As a client sends it, one record ``b"v"`` if no values are given.

    ``producer`` is (id, epoch, base sequence).
    """
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return encode_values(
        values or (b"v",),
        timestamp_ms=None if timestamps else timestamp,
        timestamps=timestamps,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def headers_in(batches: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch, unchecked."""
    position = 0
    while position < len(batches):
        header = parse_header(batches, position)
        yield position, header
        position += header.size_in_bytes


def split_batches(batches: bytes) -> list[bytes]:
    return [batches[at : at + header.size_in_bytes] for at, header in headers_in(batches)]


# -- what a log holds


class ProducerImage(NamedTuple):
    epoch: int
    #: (base sequence, last sequence, base offset, last offset, max timestamp), oldest first
    batches: tuple[tuple[int, int, int, int, int], ...]


class LogImage(NamedTuple):
    log_start_offset: int
    log_end_offset: int
    batches: bytes
    #: (leader epoch, first offset)
    epochs: list[tuple[int, int]]
    producers: dict[int, ProducerImage]


def read_all(log: PartitionLog, *, bytes_max: int = EVERYTHING) -> bytes:
    """From the log start to the end, as a consumer goes: each read where the last one ended."""
    parts, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, bytes_max=bytes_max)
        assert part.next_offset > offset, "a read that returns nothing before the end never gets on"
        parts.append(part.batches)
        offset = part.next_offset
    return b"".join(parts)


def epochs_of(log: PartitionLog) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log._state.epochs.entries]


def producers_of(log: PartitionLog) -> dict[int, ProducerImage]:
    images = {}
    for producer_id in log._state.producers._entries:
        entry = log._state.producers.get(ProducerId(producer_id))
        assert entry is not None
        images[int(producer_id)] = ProducerImage(entry.epoch, tuple((*b,) for b in entry.batches))
    return images


def image_of(log: PartitionLog) -> LogImage:
    log.validate()
    return LogImage(
        log.log_start_offset, log.log_end_offset, read_all(log), epochs_of(log), producers_of(log)
    )


def replay(batches: bytes, *, log_start_offset: int = 0) -> LogImage:
    """What a log holds that consists of just these batches. Not written with the log's own code."""
    end, epochs = log_start_offset, list[tuple[int, int]]()
    producers: dict[int, ProducerImage] = {}
    for _, header in headers_in(batches):
        end = header.base_offset + header.last_offset_delta + 1
        if not epochs or header.leader_epoch != epochs[-1][0]:
            epochs.append((header.leader_epoch, header.base_offset))
        if header.producer_id >= 0:
            producers[header.producer_id] = _producer_after(producers.get(header.producer_id), header)
    return LogImage(log_start_offset, end, batches, epochs, producers)


def _producer_after(before: ProducerImage | None, header: BatchHeader) -> ProducerImage:
    new = (
        header.base_sequence,
        (header.base_sequence + header.last_offset_delta) % 2**31,
        header.base_offset,
        header.base_offset + header.last_offset_delta,
        header.max_timestamp,
    )
    same_epoch = before is not None and before.epoch == header.producer_epoch
    earlier = before.batches if before is not None and same_epoch else ()
    return ProducerImage(header.producer_epoch, (*earlier, new)[-5:])


# -- a log on a simulated disk


class LogHarness:
    """One log on one simulated machine, through any number of processes."""

    def __init__(
        self, config: LogConfig = SMALL_CONFIG, *, disk: SimDisk | None = None, directory: str = DIRECTORY
    ) -> None:
        self.disk = disk or SimDisk()
        if disk is None:
            # Made durably, from outside: tests that count operations count the log's alone.
            parent, _, name = directory.lstrip("/").rpartition("/")
            self.disk.restore(DiskSnapshot([parent, f"{parent}/{name}"], {}))
        self.disk.make_directory(directory)
        self.disk.operation_count = 0
        self.clock = ManualClock()
        self.config = config
        self.directory = directory
        #: of the running process; a new one after every death
        self.context = make_context(self.disk, self.clock)
        self._log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None, "open the log first"
        return self._log

    async def open(self, start: StartKind = StartKind.PROCESS_CRASH) -> PartitionLog:
        """In a new process."""
        self.context = make_context(self.disk, self.clock)
        self._log = await PartitionLog.open(self.context, self.config, self.directory, start=start)
        return self._log

    async def lead(self, leader_epoch: int = 0) -> PartitionLog:
        """Open as the leader of an epoch."""
        log = await self.open()
        log.become_leader(LeaderEpoch(leader_epoch))
        return log

    def append(self, *batches: bytes) -> None:
        """As the leader of the latest epoch; every batch must make it."""
        for each in batches:
            self.log.append_as_leader(each, leader_epoch=self.log.latest_leader_epoch)

    async def crash(self) -> PartitionLog:
        """The process dies and the next one opens the log."""
        self.disk.crash()
        return await self.open(StartKind.PROCESS_CRASH)

    async def power_loss(self, rng: random.Random | None = None) -> PartitionLog:
        """The machine dies and the next process opens the log."""
        self.disk.power_loss(rng)
        return await self.open(StartKind.LOSSY)

    async def restart(self) -> PartitionLog:
        """A clean stop and a clean start."""
        assert await self.log.close()
        return await self.open(StartKind.CLEAN)

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def files(self, suffix: str = "") -> dict[str, bytes]:
        """Name -> content of the files in the log's directory."""
        found = self.disk.snapshot(self.directory).files
        return {name: content for name, content in found.items() if name.endswith(suffix)}


async def maintain(directory: LogDirectory, *, below: Offset) -> None:
    """As a broker does whose replicas may all be shortened up to there."""
    await directory.maintain(deletable_below=lambda _: below, on_damage=lambda *_: None)
    await directory.compact(high_watermark_of=lambda _: below, on_damage=lambda *_: None)
