"""What is read from memory is what a read of the files would give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quorate.chaos.models.log.log_harness import make_context, small_config
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import encode_values
from quorate.storage import PartitionLog, StartKind
from quorate.storage.recent_batches import ENTRY_BYTES, RecentBatches, RecentTail

BATCH_BYTES: Final = 10
KEPT_BYTES: Final = BATCH_BYTES + ENTRY_BYTES


def batch(number: int) -> bytes:
    return b"%010d" % number


def add(tail: RecentTail, *numbers: int) -> None:
    """Each of one record, at the offset of its number."""
    for number in numbers:
        content = batch(number)
        tail.add(Offset(number), Offset(number + 1), content[:4], memoryview(content)[4:], len(content))


def read(
    tail: RecentTail, offset: int, *, bytes_max: int = 1_000, end_offset: int = 1_000
) -> tuple[bytes, int] | None:
    return tail.read(Offset(offset), bytes_max=bytes_max, end_offset=Offset(end_offset))


def test_batches_that_follow_each_other_are_read_together() -> None:
    tail = RecentTail(RecentBatches(100_000))
    add(tail, 0, 1, 2)
    assert read(tail, 0) == (batch(0) + batch(1) + batch(2), 3)
    assert read(tail, 2) == (batch(2), 3)
    assert read(tail, 3) is None


def test_at_least_one_is_read_and_no_more_than_there_is_room_for() -> None:
    tail = RecentTail(RecentBatches(100_000))
    add(tail, 0, 1, 2)
    assert read(tail, 0, bytes_max=1) == (batch(0), 1)
    assert read(tail, 0, bytes_max=25) == (batch(0) + batch(1), 2)


def test_nothing_is_read_beyond_the_end_that_is_asked_for() -> None:
    tail = RecentTail(RecentBatches(100_000))
    add(tail, 0, 1, 2)
    assert read(tail, 0, end_offset=2) == (batch(0) + batch(1), 2)
    assert read(tail, 0, end_offset=1) == (batch(0), 1)
    assert read(tail, 0, end_offset=0) is None


def test_the_oldest_go_first_whosever_they_are() -> None:
    shared = RecentBatches(10 * KEPT_BYTES)
    idle, busy = RecentTail(shared), RecentTail(shared)
    add(idle, 0)
    add(busy, *range(9))
    assert read(idle, 0) == (batch(0), 1)
    add(busy, 9)
    assert read(idle, 0) is None
    add(busy, 10)
    assert read(busy, 0) is None
    assert shared.held_bytes == 10 * KEPT_BYTES


def test_what_would_push_out_too_much_is_not_kept() -> None:
    shared = RecentBatches(8 * BATCH_BYTES - 1)
    tail = RecentTail(shared)
    add(tail, 0)
    assert read(tail, 0) is None
    assert shared.held_bytes == 0


def test_after_a_cut_offsets_may_be_taken_by_other_batches() -> None:
    shared = RecentBatches(8 * KEPT_BYTES)
    tail = RecentTail(shared)
    add(tail, 0, 1)
    tail.forget()
    assert read(tail, 0) is None
    content = b"x" * BATCH_BYTES
    tail.add(Offset(1), Offset(2), content[:4], memoryview(content)[4:], len(content))
    assert read(tail, 1) == (content, 2)
    # Those that were forgotten have their turn, and nothing is counted twice.
    add(tail, *range(2, 12))
    assert shared.held_bytes == 8 * KEPT_BYTES


async def test_reads_from_memory_are_what_the_files_have_whatever_was_cut_and_appended() -> None:
    rng = random.Random(7)
    disk = SimDisk()
    disk.make_directory("/log")
    context = make_context(disk)
    context.recent = RecentBatches(6_000)
    log = await PartitionLog.open(context, small_config(), "/log", start=StartKind.CLEAN)
    epoch = 0
    for _ in range(600):
        if rng.random() < 0.05:
            await log.truncate_to(Offset(rng.randint(log.log_start_offset, log.log_end_offset)))
            epoch += 1
        if rng.random() < 0.02:
            await log.reset_to(Offset(rng.randint(0, 50)))
            epoch += 1
        log.become_leader(LeaderEpoch(epoch))
        values = [rng.randbytes(rng.randint(1, 60)) for _ in range(rng.randint(1, 3))]
        log.append_as_leader(encode_values(values, timestamp_ms=1), leader_epoch=LeaderEpoch(epoch))
        offset = Offset(rng.randint(log.log_start_offset, log.log_end_offset))
        bytes_max = rng.choice((1, 150, 10_000))
        end_offset = Offset(rng.randint(log.log_start_offset, log.log_end_offset))
        found = log.read(offset, bytes_max=bytes_max, end_offset=end_offset)
        with of_files_alone(log):
            in_files = log.read(offset, bytes_max=bytes_max, end_offset=end_offset)
        # A batch at a time or several: the same bytes, as far as both go.
        shorter = min(len(found.batches), len(in_files.batches))
        assert found.batches[:shorter] == in_files.batches[:shorter]
        assert bool(found.batches) == bool(in_files.batches)
        assert context.recent.held_bytes <= 6_000
    await log.close()


@contextmanager
def of_files_alone(log: PartitionLog) -> Iterator[None]:
    state = log._state
    kept, state.recent = state.recent, RecentTail(RecentBatches(0))
    try:
        yield
    finally:
        state.recent = kept
