"""What the tests of compaction share: logs of keyed records, and a model of what may be missing from one.

``KeyedLog`` remembers everything that was ever appended. ``check`` reads the log, with all the checks that
reads make, and holds it to that: which records have to be there, which must not be, and that whatever is
there is unchanged and in its place. Nothing of it is written with the code under test.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    image_of,
    make_context,
    replay,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.core.config import CleanupPolicy
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import Compression, Record, decode_batch, encode_values, parse_header
from quorate.storage import CompactionReport, LogConfig, PartitionLog, StartKind
from quorate.storage.inspect import ProblemKind, verify

__all__ = [
    "COMPACT",
    "COMPACTED_CONFIG",
    "KeyedLog",
    "Pair",
    "compacted_config",
    "keyed",
    "latest_by_key",
    "records_of",
]

COMPACT: Final = (CleanupPolicy.COMPACT,)
#: some five small batches to a segment, and a pass whenever there is anything to clean
COMPACTED_CONFIG: Final = dataclasses.replace(
    small_config(), cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0, delete_retention_ms=60_000
)


class Pair(NamedTuple):
    key: bytes | None
    value: bytes | None


def compacted_config(**changes: Any) -> LogConfig:
    return dataclasses.replace(COMPACTED_CONFIG, **changes)


def keyed(
    *pairs: tuple[bytes | None, bytes | None],
    producer: tuple[int, int, int] | None = None,
    compression: Compression = Compression.NONE,
    timestamp: int = NOW_MS,
) -> bytes:
    """As a client sends it; ``producer`` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return encode_values(
        [value for _, value in pairs],
        keys=[key for key, _ in pairs],
        timestamps=[timestamp + index for index in range(len(pairs))],
        headers=[(("n", b"%d" % index),) for index in range(len(pairs))],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def records_of(log: PartitionLog) -> list[Record]:
    """As a consumer gets them that reads from the start."""
    return [record for batch in split_batches(image_of(log).batches) for record in decode_batch(batch)]


def latest_by_key(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What is true by the log: a key that was deleted is not in it."""
    latest: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        latest.pop(record.key, None)
        if record.value is not None:
            latest[record.key] = record.value
    return latest


class KeyedLog:
    """A log, and all that was appended to it, through any number of processes."""

    def __init__(self, config: LogConfig = COMPACTED_CONFIG, *, harness: LogHarness | None = None) -> None:
        self.harness = harness or LogHarness(config)
        #: by offset
        self.appended: dict[int, Record] = {}

    @property
    def log(self) -> PartitionLog:
        return self.harness.log

    @property
    def disk(self) -> SimDisk:
        return self.harness.disk

    async def lead(self, epoch: int) -> None:
        if self.harness._log is None:
            await self.harness.open()
        self.log.become_leader(LeaderEpoch(epoch))

    def append(self, *batches: bytes) -> None:
        """As the leader of the latest epoch."""
        for batch in batches:
            at = self.log.append_as_leader(batch, leader_epoch=self.log.latest_leader_epoch)
            assert not at.is_duplicate
            for index, record in enumerate(decode_batch(batch)):
                offset = at.base_offset + index
                self.appended[offset] = record._replace(offset=offset)

    def put(self, *pairs: tuple[bytes | None, bytes | None]) -> None:
        """Each in a batch of its own."""
        for pair in pairs:
            self.append(keyed(pair))

    async def seal(self) -> None:
        """All that is there may be cleaned."""
        if self.log._state.active.size:
            self.log._writer.roll()
        await self.log.checkpoint()

    async def compact(self, *, below: int | None = None) -> CompactionReport | None:
        end = self.log.log_end_offset if below is None else Offset(below)
        return await self.log.compact(below=end)

    async def clean(self) -> CompactionReport | None:
        """All that is there, in one pass if there is memory for it."""
        await self.seal()
        return await self.compact()

    # -- lives

    def snapshot(self) -> DiskSnapshot:
        return self.disk.snapshot()

    def copy(self, snapshot: DiskSnapshot) -> KeyedLog:
        """The same log on a disk of its own, where all of it is durable. It is not open."""
        disk = SimDisk()
        disk.restore(snapshot)
        harness = LogHarness(self.harness.config, disk=disk, directory=self.harness.directory)
        harness.clock.now_ms = self.harness.clock.now_ms
        twin = KeyedLog(harness=harness)
        twin.appended = dict(self.appended)
        return twin

    async def open(self, start: StartKind = StartKind.PROCESS_CRASH, *, buffer_bytes: int = 1 << 20) -> None:
        harness = self.harness
        harness.context = make_context(harness.disk, harness.clock)
        harness.context.dedupe_buffer_bytes = buffer_bytes
        harness._log = await PartitionLog.open(
            harness.context, harness.config, harness.directory, start=start
        )

    async def die(self, *, power_loss: bool, rng: random.Random | None = None) -> None:
        """The process ends where it is, and the next one opens the log."""
        self.disk.fault_hook = None
        if power_loss:
            self.disk.power_loss(rng)
        else:
            self.disk.crash()
        await self.open(StartKind.LOSSY if power_loss else StartKind.PROCESS_CRASH)

    # -- what has to be true

    def due(self, *, cleaned_to: int, tombstones_removed_below: int = 0) -> list[Record]:
        """What is left when everything before ``cleaned_to`` is clean."""
        newest = {
            record.key: offset for offset, record in sorted(self.appended.items()) if offset < cleaned_to
        }
        return [
            record
            for offset, record in sorted(self.appended.items())
            if offset >= cleaned_to
            or record.key is None
            or (
                newest[record.key] == offset
                and not (record.value is None and offset < tombstones_removed_below)
            )
        ]

    def check(self) -> None:
        """The log is exactly as clean as it says that it is."""
        self.check_sound()
        log = self.log
        assert records_of(log) == self.due(
            cleaned_to=log.first_dirty_offset, tombstones_removed_below=log.compacted.tombstones_removed_below
        )

    def check_truth(self) -> None:
        """Whatever a crash has left: nothing true is missing, nothing is made up, nothing has come back."""
        self.check_sound()
        found = records_of(self.log)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            assert record == self.appended[record.offset]
        history = [record for _, record in sorted(self.appended.items())]
        keyed_only = [record for record in found if record.key is not None]
        assert latest_by_key(keyed_only) == latest_by_key([r for r in history if r.key is not None])
        assert [r for r in found if r.key is None] == [r for r in history if r.key is None]

    def check_sound(self) -> None:
        """It opens, has no gap, and its epochs and producers are those of its batches."""
        log = self.log
        assert log.damage is None, log.damage
        image = image_of(log)
        assert image.log_start_offset == 0
        assert image == replay(image.batches)
        assert log.log_end_offset == max(self.appended, default=-1) + 1
        due = 0
        for batch in split_batches(image.batches):
            header = parse_header(batch)
            assert header.base_offset == due
            due = header.next_offset
        for report in verify(self.disk, self.harness.directory):
            assert [p for p in report.problems if p.kind is not ProblemKind.REBUILDABLE] == []
        assert self.harness.context.storage_error is None

    def check_tidy(self) -> None:
        """Nothing half done is left, and no snapshot that nobody asks for."""
        names = list(self.harness.files())
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".tmp"))]
        bases = {int(name[:20]) for name in names if name.endswith(".log")}
        for name in names:
            if name.endswith((".index", ".timeindex")):
                assert int(name[:20]) in bases
