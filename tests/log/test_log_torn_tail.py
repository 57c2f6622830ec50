"""A process that dies in the middle of a write leaves a prefix of it: cut, and nothing else is (rule 44)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    batch,
    headers_in,
    image_of,
    read_all,
    replay,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import Compression
from quorate.storage import StartKind
from tests.log.log_model import stamped


async def log_of(*, segment_bytes: int = 100_000) -> LogHarness:
    harness = LogHarness(small_config(segment_bytes=segment_bytes))
    await harness.lead(1)
    harness.append(batch(b"first" * 20, b"x"), batch(b"second", producer=(7, 0, 0)))
    harness.log.become_leader(LeaderEpoch(2))
    harness.append(
        batch(b"third", b"y", b"z", producer=(7, 0, 1)),
        batch(b"fourth" * 10, compression=Compression.ZSTD, producer=(7, 0, 4)),
    )
    return harness


@pytest.mark.parametrize("start", [StartKind.PROCESS_CRASH, StartKind.LOSSY])
async def test_tail_torn_at_every_byte_of_the_last_two_batches(start: StartKind) -> None:
    harness = await log_of()
    (name,) = harness.files(".log")
    content = harness.files(".log")[name]
    harness.disk.crash()
    before = harness.disk.snapshot(harness.directory)
    first_torn = len(content) - sum(map(len, split_batches(content)[-2:]))
    for length in range(first_torn, len(content)):
        harness.disk.restore(before, harness.directory)
        harness.disk.open(harness.path(name)).truncate(length)
        log = await harness.open(start)
        whole = max(p + h.size_in_bytes for p, h in headers_in(content) if p + h.size_in_bytes <= length)
        assert log.damage is None, f"{length} bytes: {log.damage}"
        assert image_of(log) == replay(content[:whole])
        assert log.opening_report.cut_bytes == length - whole
        assert harness.files(".log")[name] == content[:whole], "the torn bytes are still there"
        if length % 10 == 0:
            await assert_goes_on(harness)


async def assert_goes_on(harness: LogHarness) -> None:
    harness.log.become_leader(LeaderEpoch(3))
    harness.append(batch(b"next"))
    expected = image_of(harness.log)
    assert expected == replay(expected.batches)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_write_of_a_group_cut_short_keeps_its_whole_batches() -> None:
    """A follower writes three batches at once, and the process dies after any number of their bytes."""
    batches = [stamped(batch(b"%d" % n * 10), base_offset=7 + n, leader_epoch=2) for n in range(3)]
    sizes = [0, *(sum(map(len, batches[: n + 1])) for n in range(3))]
    for written in range(sizes[-1] + 1):
        harness = await log_of()
        before = read_all(harness.log)
        harness.disk.fault_hook = fail_nth(1, ProcessDied(written=written))
        with pytest.raises(ProcessDied):
            harness.log.append_as_follower(b"".join(batches))
        harness.disk.fault_hook = None
        log = await harness.crash()
        whole = max(size for size in sizes if size <= written)
        assert log.damage is None, f"{written} bytes: {log.damage}"
        assert len(read_all(log)) == len(before) + whole
        assert image_of(log) == replay(read_all(log))


async def test_torn_tail_in_an_older_segment_is_damage() -> None:
    """Only the last segment is written to."""
    harness = await log_of(segment_bytes=200)
    assert harness.log.segment_count > 2
    first = min(harness.files(".log"))
    harness.disk.open(harness.path(first)).truncate(harness.disk.size(harness.path(first)) - 3)
    log = await harness.crash()
    assert log.damage is not None
    assert log.damage.path == harness.path(first)


async def test_torn_tail_below_the_recovery_point_is_damage_on_every_start() -> None:
    """It was whole when it was synced; no crash can explain it."""
    harness = await log_of()
    (name,) = harness.files(".log")
    assert await harness.log.close()
    before = harness.disk.snapshot(harness.directory)
    for start in StartKind:
        harness.disk.restore(before, harness.directory)
        harness.disk.open(harness.path(name)).truncate(harness.disk.size(harness.path(name)) - 3)
        log = await harness.open(start)
        assert log.damage is not None, start


async def test_after_power_loss_a_hole_above_the_recovery_point_is_cut_with_all_behind_it() -> None:
    harness = await log_of()
    (name,) = harness.files(".log")
    content = harness.files(".log")[name]
    position = [p for p, _ in headers_in(content)][1]
    harness.disk.open(harness.path(name)).pwrite(bytes(100), position + 30)
    harness.disk.crash()
    before = harness.disk.snapshot(harness.directory)
    log = await harness.open(StartKind.PROCESS_CRASH)
    assert log.damage is not None
    harness.disk.restore(before, harness.directory)
    log = await harness.open(StartKind.LOSSY)
    assert log.damage is None
    assert image_of(log) == replay(content[:position])
    assert log.opening_report.cut_damage is not None
    assert log.opening_report.cut_damage.position == position


async def test_after_power_loss_what_was_never_written_is_cut_and_is_no_damage() -> None:
    """A page that did not reach the device, and one behind it that did."""
    harness = await log_of()
    (name,) = harness.files(".log")
    content = harness.files(".log")[name]
    _, (position, header), *_ = headers_in(content)
    harness.disk.open(harness.path(name)).pwrite(bytes(header.size_in_bytes), position)
    harness.disk.crash()
    before = harness.disk.snapshot(harness.directory)
    log = await harness.open(StartKind.PROCESS_CRASH)
    assert log.damage is not None, "a process that dies leaves no holes"
    harness.disk.restore(before, harness.directory)
    log = await harness.open(StartKind.LOSSY)
    assert log.damage is None
    assert image_of(log) == replay(content[:position])
    assert log.opening_report.cut_bytes == len(content) - position
    assert log.opening_report.cut_damage is None


DUE = bytes(7) + b"\x06"  # the offset that comes next


@pytest.mark.parametrize(
    ("tail", "is_beginning"),
    [
        (b"\0", True),
        (DUE, True),
        (DUE + bytes(40), True),
        (DUE + bytes(60), False),
        (bytes(8), False),
        (bytes(61), False),
        (b"\xff" * 8, False),
        (bytes(7) + b"\x63" + bytes(40), False),
    ],
    ids=["zero", "offset", "part of a header", "no header", "offset 0", "zeros", "ones", "another offset"],
)
async def test_only_a_beginning_of_the_batch_that_was_due_is_torn(tail: bytes, is_beginning: bool) -> None:
    harness = await log_of()
    assert harness.log.log_end_offset == 7
    await harness.log.truncate_to(Offset(6))
    (name,) = harness.files(".log")
    size = harness.disk.size(harness.path(name))
    harness.disk.open(harness.path(name)).pwrite(tail, size)
    log = await harness.crash()
    if is_beginning:
        assert log.damage is None
        assert log.opening_report.cut_bytes == len(tail)
    else:
        assert log.damage is not None
        assert (log.damage.position, log.damage.offset) == (size, 6)


async def test_batch_larger_than_any_window_is_recovered_and_cut() -> None:
    harness = LogHarness(small_config(segment_bytes=1 << 30, max_message_bytes=1 << 23))
    await harness.lead()
    harness.append(batch(b"small"), batch(b"x" * (3 << 20)), batch(b"small"))
    expected = image_of(harness.log)
    await harness.crash()
    assert image_of(harness.log) == expected
    file = harness.disk.open(harness.path(f"{0:020d}.log"))
    file.truncate(file.size() - len(batch(b"small")) - 1)
    log = await harness.crash()
    # It was flushed when it was recovered, so that a missing byte cannot come from a crash.
    assert log.damage is not None
    harness = LogHarness(small_config(segment_bytes=1 << 30, max_message_bytes=1 << 23))
    await harness.lead()
    harness.append(batch(b"small"), batch(b"x" * (3 << 20)))
    file = harness.disk.open(harness.path(f"{0:020d}.log"))
    file.truncate(file.size() - 1)
    log = await harness.crash()
    assert log.log_end_offset == 1
