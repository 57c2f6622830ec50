"""A small log with something of everything in it, and the verdict on one flipped bit of it.

Two segments, two epochs, an idempotent producer. A bit of a ``.log`` file is data that may have been
acknowledged: flipped, it is damage, found where it lies. A bit of any other file is knowledge that the
batches can restore: flipped, nothing may be different.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    LogImage,
    batch,
    headers_in,
    image_of,
    small_config,
)
from quorate.chaos.sim.disk import DiskSnapshot
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import LogDamaged
from quorate.storage import StartKind, TimestampedOffset

__all__ = ["SmallLog", "check_flip_after_crash", "check_flip_after_stop", "check_times", "small_log"]


class SmallLog(NamedTuple):
    harness: LogHarness
    #: the log's directory before any bit was flipped
    files: DiskSnapshot
    image: LogImage
    #: what ``find_timestamp`` answers, by the time it is asked for
    times: dict[int, TimestampedOffset | None]

    def bits(self, suffix: str = "") -> Iterator[tuple[str, int]]:
        """Every bit of every file whose name ends so."""
        for name, content in sorted(self.files.files.items()):
            if name.endswith(suffix):
                yield from ((name, bit) for bit in range(8 * len(content)))

    def flip(self, name: str, bit: int) -> None:
        self.harness.disk.crash()
        self.harness.disk.restore(self.files, self.harness.directory)
        self.harness.disk.flip_bit(self.harness.path(name), bit)


async def small_log(*, is_closed: bool = False, is_checkpointed: bool = False) -> SmallLog:
    harness = LogHarness(small_config(segment_bytes=160))
    await harness.lead(1)
    harness.append(batch(b"a", b"b", timestamp=NOW_MS), batch(b"c", timestamp=NOW_MS + 3))
    harness.log.become_leader(LeaderEpoch(2))
    harness.append(
        batch(b"d", timestamp=NOW_MS + 2, producer=(7, 0, 0)),
        batch(b"e", b"f", b"g", timestamp=NOW_MS + 9),
    )
    assert harness.log.segment_count == 2
    if is_checkpointed:
        await harness.log.checkpoint()
    image = image_of(harness.log)
    times = {ms: harness.log.find_timestamp(TimestampMs(NOW_MS + ms)) for ms in (0, 3, 9, 10)}
    if is_closed:
        assert await harness.log.close()
    harness.disk.crash()
    return SmallLog(harness, harness.disk.snapshot(harness.directory), image, times)


async def check_flip_after_crash(small: SmallLog, name: str, bit: int) -> None:
    """Everything is scanned, so the start itself has to tell."""
    small.flip(name, bit)
    log = await small.harness.open(StartKind.PROCESS_CRASH)
    if not name.endswith(".log"):
        assert log.damage is None, f"bit {bit} of {name} is no damage: {log.damage}"
        assert image_of(log) == small.image, f"bit {bit} of {name} changed what the log holds"
        return
    assert log.damage is not None, f"bit {bit} of {name} was not noticed"
    content = small.files.files[name]
    position, header = max(
        (found for found in headers_in(content) if found[0] <= bit // 8), key=lambda found: found[0]
    )
    found = (log.damage.path, log.damage.position, log.damage.offset)
    assert found == (small.harness.path(name), position, header.base_offset), f"bit {bit} of {name}: {found}"
    after = small.harness.files(".log")[name]
    assert len(after) == len(content), f"bit {bit} of {name}: something was cut"


async def check_flip_after_stop(small: SmallLog, name: str, bit: int, *, start: StartKind) -> None:
    """Not everything is scanned: then whoever asks gets the right answer, or LogDamaged."""
    what = f"bit {bit} of {name}"
    small.flip(name, bit)
    log = await small.harness.open(start)
    if name.endswith(".log"):
        assert is_found_by_reads(small, what=what), f"{what} was not noticed by any read"
        return
    assert log.damage is None, f"{what} is no damage: {log.damage}"
    assert image_of(log) == small.image, f"{what} changed what the log holds"
    if name.endswith("index"):
        check_times(small, what=what)


def is_found_by_reads(small: SmallLog, *, what: str) -> bool:
    """Whether the log turned out to be damaged; every answer before that is right."""
    log, image = small.harness.log, small.image
    try:
        # Backwards, so that each batch is met first by a read that begins with it, and alone.
        for offset in reversed(range(image.log_end_offset)):
            found = log.read(Offset(offset), bytes_max=1).batches
            assert found, f"{what}: nothing at offset {offset}"
            assert found == _batch_with(image.batches, offset), f"{what}: offset {offset}"
            assert log.read(Offset(offset), bytes_max=EVERYTHING).batches in image.batches, what
        assert image_of(log) == image, f"{what} changed what the log holds"
    except LogDamaged:
        return True
    return False


def check_times(small: SmallLog, *, what: str) -> None:
    for ms, expected in small.times.items():
        assert small.harness.log.find_timestamp(TimestampMs(NOW_MS + ms)) == expected, f"{what}: time {ms}"


def _batch_with(batches: bytes, offset: int) -> bytes:
    position, header = next(found for found in headers_in(batches) if found[1].last_offset >= offset)
    return batches[position : position + header.size_in_bytes]
