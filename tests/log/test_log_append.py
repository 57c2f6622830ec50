"""Appending as leader: offsets, epochs, refusals, and writes that fail."""

from __future__ import annotations

import errno

import pytest

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    batch,
    epochs_of,
    headers_in,
    image_of,
    os_error,
    read_all,
    record_operations,
    replay,
    small_config,
)
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import Compression, check_batch, decode_batch
from quorate.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    OutOfOrderSequence,
    QuorateError,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownProducer,
    UnsupportedBatch,
)
from quorate.storage import Appended
from quorate.storage.leader_epochs import EpochEnd
from tests.unit.records.batches import raw_batch, raw_record

EPOCH = LeaderEpoch(0)


async def test_new_log_is_empty() -> None:
    log = await LogHarness().open()
    assert (log.log_start_offset, log.log_end_offset, log.size_in_bytes) == (0, 0, 0)
    assert log.latest_leader_epoch == -1
    assert log.damage is None


async def test_offsets_count_records_and_follow_each_other() -> None:
    log = await LogHarness().lead()
    first = log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=EPOCH)
    second = log.append_as_leader(batch(b"d"), leader_epoch=EPOCH)
    assert first == Appended(Offset(0), Offset(2), first.max_timestamp)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert log.log_end_offset == 4


async def test_bytes_are_kept_but_for_offset_and_epoch() -> None:
    harness = LogHarness()
    log = await harness.lead(9)
    sent = batch(b"a", b"b", compression=Compression.ZSTD, producer=(7, 0, 0))
    harness.append(batch(), sent)
    stored = read_all(log)[len(batch()) :]
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[12:16] == (9).to_bytes(4, "big")
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]
    assert check_batch(stored).leader_epoch == 9
    assert [record.offset for record in decode_batch(stored)] == [1, 2]


async def test_buffer_of_the_caller_is_neither_changed_nor_kept() -> None:
    harness = LogHarness()
    log = await harness.lead(9)
    buffer = bytearray(batch(b"abc"))
    before = bytes(buffer)
    log.append_as_leader(memoryview(buffer), leader_epoch=LeaderEpoch(9))
    assert buffer == before
    buffer[:] = bytes(len(buffer))
    assert [record.value for record in decode_batch(read_all(log))] == [b"abc"]


@pytest.mark.parametrize("leader_epoch", [-1, 4])
async def test_append_with_an_older_epoch_is_fenced(leader_epoch: int) -> None:
    log = await LogHarness().lead(5)
    with pytest.raises(FencedLeaderEpoch):
        log.append_as_leader(batch(), leader_epoch=LeaderEpoch(leader_epoch))


async def test_append_before_the_epoch_is_on_record_is_refused() -> None:
    """Rule 6: else a follower meets an epoch that its leader cannot answer for."""
    log = await LogHarness().lead(5)
    with pytest.raises(UnknownLeaderEpoch):
        log.append_as_leader(batch(), leader_epoch=LeaderEpoch(6))


async def test_new_epoch_is_on_record_before_any_batch_of_it_and_on_the_device_with_the_first() -> None:
    harness = LogHarness()
    log = await harness.lead(5)
    harness.append(batch())
    log.become_leader(LeaderEpoch(6))
    log.become_leader(LeaderEpoch(6))
    assert log.end_of_epoch(LeaderEpoch(6)) == EpochEnd(LeaderEpoch(6), Offset(1))
    assert log.end_of_epoch(LeaderEpoch(5)) == EpochEnd(LeaderEpoch(5), Offset(1))
    assert b'"epochs":[[5,0],[6,1]]' in harness.disk.read_file(harness.path("leader-epoch-checkpoint"))
    assert harness.disk.unsynced_bytes(harness.path("leader-epoch-checkpoint")) > 0
    harness.append(batch())
    await log.flush()
    assert harness.disk.unsynced_bytes(harness.path("leader-epoch-checkpoint")) == 0


async def test_leader_cannot_go_back_to_an_older_epoch() -> None:
    log = await LogHarness().lead(5)
    with pytest.raises(FencedLeaderEpoch):
        log.become_leader(LeaderEpoch(4))
    assert epochs_of(log) == [(5, 0)]


# -- refusals

GOOD = batch(b"good")


def _with_byte(position: int, value: int) -> bytes:
    return GOOD[:position] + bytes([value]) + GOOD[position + 1 :]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b"", CorruptBatch),
        (GOOD[:60], CorruptBatch),
        (GOOD[:-1], CorruptBatch),
        (GOOD + b"\0", CorruptBatch),
        (GOOD + GOOD, CorruptBatch),
        (_with_byte(len(GOOD) - 1, 0xFF), CorruptBatch),
        (_with_byte(16, 1), UnsupportedBatch),
        (batch(b"x" * 100_001), BatchTooLarge),
        (batch(producer=(7, 0, 3)), UnknownProducer),
    ],
)
async def test_a_bad_batch_is_refused_and_changes_nothing(bad: bytes, error: type[QuorateError]) -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(GOOD, batch(producer=(8, 0, 0)))
    before = image_of(log)
    with pytest.raises(error):
        log.append_as_leader(bad, leader_epoch=EPOCH)
    assert image_of(log) == before


async def test_batch_of_just_the_largest_size_is_accepted() -> None:
    largest = batch(b"x" * 1000)
    harness = LogHarness(small_config(max_message_bytes=len(largest)))
    log = await harness.lead()
    log.append_as_leader(largest, leader_epoch=EPOCH)
    with pytest.raises(BatchTooLarge):
        log.append_as_leader(batch(b"x" * 1001), leader_epoch=EPOCH)


async def test_batch_whose_count_of_records_does_not_cover_its_offsets_is_refused() -> None:
    """Offsets are assigned by the count; a gap would be read as loss."""
    log = await LogHarness().lead()
    lying = raw_batch(raw_record(), last_offset_delta=5, record_count=1)
    with pytest.raises(CorruptBatch):
        log.append_as_leader(lying, leader_epoch=EPOCH)


# -- writes


async def test_append_is_one_write_and_a_refused_one_is_none() -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    trace = record_operations(harness.disk)
    log.append_as_leader(batch(b"a", producer=(7, 0, 0)), leader_epoch=EPOCH)
    assert [operation.name for operation in trace] == ["pwritev"]
    trace.clear()
    assert log.append_as_leader(batch(b"a", producer=(7, 0, 0)), leader_epoch=EPOCH).is_duplicate
    with pytest.raises(CorruptBatch):
        log.append_as_leader(GOOD[:-1], leader_epoch=EPOCH)
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(batch(b"c", producer=(7, 0, 2)), leader_epoch=EPOCH)
    assert trace == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_failed_write_changes_nothing_and_is_forgotten(number: int) -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    original = log.append_as_leader(batch(b"a", producer=(7, 0, 0)), leader_epoch=EPOCH)
    before = image_of(log)
    harness.disk.fault_hook = fail_nth(1, os_error(number), names={"pwritev"})
    with pytest.raises(DiskFull if number == errno.ENOSPC else StorageFailed):
        log.append_as_leader(batch(b"b", producer=(7, 0, 1)), leader_epoch=EPOCH)
    assert image_of(log) == before
    await harness.crash()
    log = harness.log
    assert image_of(log) == before
    again = log.append_as_leader(batch(b"a", producer=(7, 0, 0)), leader_epoch=EPOCH)
    assert again == original._replace(is_duplicate=True)
    assert not log.append_as_leader(batch(b"b", producer=(7, 0, 1)), leader_epoch=EPOCH).is_duplicate


async def test_after_a_failed_write_there_is_no_gap_in_a_producers_sequence() -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    harness.append(batch(b"a", producer=(7, 0, 0)))
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwritev"})
    with pytest.raises(DiskFull):
        harness.append(batch(b"b", producer=(7, 0, 1)))
    with pytest.raises(OutOfOrderSequence):
        harness.append(batch(b"c", producer=(7, 0, 2)))
    assert log.log_end_offset == 1
    harness.append(batch(b"b", producer=(7, 0, 1)), batch(b"c", producer=(7, 0, 2)))
    assert image_of(log) == replay(read_all(log))


async def test_after_a_failed_write_to_an_empty_segment_the_next_batch_goes_there() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    log = await harness.lead()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwritev"})
    with pytest.raises(DiskFull):
        harness.append(batch(b"x" * 60))
    harness.append(batch(b"y" * 60), batch(b"z" * 60))
    assert [header.base_offset for _, header in headers_in(read_all(log))] == [0, 1]
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_after_a_storage_error_nothing_is_written_behind_it() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    log = await harness.lead()
    harness.append(batch(b"w" * 60), batch(b"x" * 60))
    before = image_of(log)
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"pwritev"})
    for value in (b"y", b"z"):
        with pytest.raises(StorageFailed):
            harness.append(batch(value * 60))
    assert read_all(log) == before.batches
    await harness.crash()
    assert image_of(harness.log) == before


async def test_segments_first_append_sets_its_age_not_the_timestamps_of_its_records() -> None:
    harness = LogHarness(small_config(segment_ms=1000))
    log = await harness.lead()
    harness.append(batch(timestamp=5))
    log.roll_if_old()
    assert log.segment_count == 1
    harness.clock.now_ms = NOW_MS + 1000
    log.roll_if_old()
    assert log.segment_count == 2
