"""Appending as leader: offsets, epochs, refusals, and groups whose batches fare differently."""

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
    StorageError,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownProducer,
    UnsupportedBatch,
)
from quorate.storage import Appended, PartitionLog
from quorate.storage.leader_epochs import EpochEnd
from tests.unit.records.batches import raw_batch, raw_record

EPOCH = LeaderEpoch(0)


def append_all(log: PartitionLog, *batches: bytes) -> list[Appended | QuorateError]:
    return log.append_all_as_leader(batches, leader_epoch=log.latest_leader_epoch)


# -- one batch


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
    outcomes = append_all(log, bad)
    assert isinstance(outcomes[0], error)
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


# -- groups


async def test_group_is_written_by_one_call_and_each_batch_has_its_outcome() -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    trace = record_operations(harness.disk)
    outcomes = append_all(
        log,
        batch(b"a"),
        GOOD[:-1],
        batch(b"b", b"c", producer=(7, 0, 0)),
        batch(b"x" * 100_001),
        batch(producer=(8, 0, 5)),
        batch(b"d"),
    )
    assert [type(outcome) for outcome in outcomes] == [
        Appended,
        CorruptBatch,
        Appended,
        BatchTooLarge,
        UnknownProducer,
        Appended,
    ]
    assert [o.base_offset for o in outcomes if isinstance(o, Appended)] == [0, 1, 3]
    assert [operation.name for operation in trace if operation.path.endswith(".log")] == ["pwritev"]
    assert image_of(log) == replay(read_all(log))


async def test_empty_group_writes_nothing() -> None:
    harness = LogHarness()
    log = await harness.lead()
    trace = record_operations(harness.disk)
    assert append_all(log) == []
    assert isinstance(append_all(log, b"nonsense")[0], CorruptBatch)
    assert trace == []


async def test_duplicates_inside_one_group_are_judged_after_their_originals() -> None:
    log = await LogHarness(small_config(segment_bytes=10_000)).lead()
    outcomes = append_all(
        log,
        batch(b"a", producer=(7, 0, 0)),
        batch(b"a", producer=(7, 0, 0)),
        batch(b"b", producer=(7, 0, 1)),
        batch(b"d", producer=(7, 0, 3)),
        batch(b"b", producer=(7, 0, 1)),
    )
    first, again, second, gap, second_again = outcomes
    assert isinstance(first, Appended)
    assert again == first._replace(is_duplicate=True)
    assert isinstance(second, Appended)
    assert isinstance(gap, OutOfOrderSequence)
    assert second_again == second._replace(is_duplicate=True)
    assert log.log_end_offset == 2


async def test_group_may_span_rolls() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    log = await harness.lead()
    outcomes = append_all(log, *(batch(b"x" * 50, producer=(7, 0, n)) for n in range(7)))
    assert [o.base_offset for o in outcomes if isinstance(o, Appended)] == list(range(7))
    assert log.segment_count > 2
    assert image_of(log) == replay(read_all(log))
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_failed_write_of_a_group_is_the_outcome_of_all_that_relied_on_it(number: int) -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    original = log.append_as_leader(batch(b"a", producer=(7, 0, 0)), leader_epoch=EPOCH)
    before = image_of(log)
    harness.disk.fault_hook = fail_nth(1, os_error(number), names={"pwritev"})
    outcomes = append_all(
        log,
        batch(b"a", producer=(7, 0, 0)),  # a duplicate of what is in the log: not affected
        batch(b"b", producer=(7, 0, 1)),
        batch(b"b", producer=(7, 0, 1)),  # a duplicate of what was not written: no success
        batch(b"c", producer=(8, 0, 0)),
        batch(b"e", producer=(8, 0, 2)),
    )
    assert outcomes[0] == original._replace(is_duplicate=True)
    failed = [type(outcome) for outcome in outcomes[1:4]]
    assert failed == [DiskFull if number == errno.ENOSPC else StorageFailed] * 3
    assert isinstance(outcomes[4], OutOfOrderSequence)
    assert image_of(log) == before


async def test_after_a_failed_write_the_rest_of_the_group_leaves_no_gap_in_a_producers_sequence() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    log = await harness.lead()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwritev"})
    outcomes = append_all(log, *(batch(b"x" * 60, producer=(7, 0, n)) for n in range(3)))
    assert isinstance(outcomes[0], DiskFull)
    assert isinstance(outcomes[1], QuorateError)
    assert isinstance(outcomes[2], QuorateError)
    assert log.log_end_offset == 0


async def test_after_a_failed_write_to_an_empty_segment_the_next_batch_goes_there() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    log = await harness.lead()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwritev"})
    outcomes = append_all(log, batch(b"x" * 60), batch(b"y" * 60), batch(b"z" * 60))
    assert isinstance(outcomes[0], DiskFull)
    assert [o.base_offset for o in outcomes[1:] if isinstance(o, Appended)] == [0, 1]
    log.validate()
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_after_a_storage_error_nothing_of_the_group_is_written_behind_it() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    log = await harness.lead()
    harness.append(batch(b"w" * 60))
    before = image_of(log)
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"pwritev"})
    outcomes = append_all(log, batch(b"x" * 60), batch(b"y" * 60), batch(b"z" * 60))
    assert all(isinstance(outcome, StorageError) for outcome in outcomes), outcomes
    assert read_all(log) == before.batches
    with pytest.raises(StorageFailed):
        log.append_as_leader(batch(), leader_epoch=EPOCH)
    await harness.crash()
    assert image_of(harness.log) == before


async def test_failed_roll_inside_a_group_spares_what_was_written_before_it() -> None:
    harness = LogHarness(small_config(segment_bytes=250))
    log = await harness.lead()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"rename"})
    outcomes = append_all(log, *(batch(b"x" * 60) for _ in range(3)))
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds[0] is Appended
    assert DiskFull in kinds
    written = [outcome for outcome in outcomes if isinstance(outcome, Appended)]
    assert [o.base_offset for o in written] == list(range(log.log_end_offset))
    assert len(list(headers_in(read_all(log)))) == len(written)


async def test_segments_first_append_sets_its_age_not_the_timestamps_of_its_records() -> None:
    harness = LogHarness(small_config(segment_ms=1000))
    log = await harness.lead()
    harness.append(batch(timestamp=5))
    log.roll_if_old()
    assert log.segment_count == 1
    harness.clock.now_ms = NOW_MS + 1000
    log.roll_if_old()
    assert log.segment_count == 2
