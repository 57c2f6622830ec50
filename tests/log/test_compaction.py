"""Of every key the latest record stays: what goes, what does not, and what nobody notices of it."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from crc32c import crc32c

from quorate.chaos.models.log.log_harness import EVERYTHING, NOW_MS, image_of, producers_of, split_batches
from quorate.core.config import CleanupPolicy
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import Compression, encode_values, is_filler, parse_header, patch_header
from quorate.errors import DuplicateSequence, LogDamaged
from quorate.storage import LogConfig, StartKind, compaction
from quorate.storage.leader_epochs import EpochEnd
from tests.log.compaction_harness import KeyedLog, compacted_config, keyed, latest_by_key, records_of

A, B, C = b"a", b"b", b"c"
BIG_SEGMENTS: Final = compacted_config(segment_bytes=100_000)


async def keyed_log(*, epoch: int = 1, config: LogConfig = BIG_SEGMENTS) -> KeyedLog:
    log = KeyedLog(config)
    await log.lead(epoch)
    return log


def headers_of(log: KeyedLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, record count) of each batch."""
    headers = map(parse_header, split_batches(image_of(log.log).batches))
    return [(header.base_offset, header.last_offset, header.record_count) for header in headers]


# -- what stays


async def test_the_latest_record_of_each_key_stays_and_keeps_its_offset() -> None:
    log = await keyed_log()
    log.put((A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"), (B, b"2"))
    report = await log.clean()
    assert report is not None
    assert (report.records_removed, report.is_complete, report.first_dirty_offset) == (2, True, 5)
    assert [(record.offset, record.key, record.value) for record in records_of(log.log)] == [
        (2, A, b"2"),
        (3, C, b"1"),
        (4, B, b"2"),
    ]
    log.check()
    log.check_tidy()


async def test_batch_that_loses_some_records_covers_all_its_offsets() -> None:
    log = await keyed_log()
    log.append(keyed((A, b"1"), (B, b"1"), (C, b"1")), keyed((B, b"2"), (C, b"2")))
    await log.clean()
    assert headers_of(log) == [(0, 2, 1), (3, 4, 2)]
    log.check()


async def test_batches_that_lose_everything_leave_one_that_covers_their_offsets() -> None:
    log = await keyed_log()
    log.put(*[(A, b"%d" % n) for n in range(50)])
    await log.clean()
    assert headers_of(log) == [(0, 48, 0), (49, 49, 1)]
    # In the next pass it grows.
    log.put(*[(A, b"%d" % n) for n in range(50)])
    await log.clean()
    assert headers_of(log) == [(0, 98, 0), (99, 99, 1)]
    log.check()


async def test_no_empty_batch_covers_two_leader_epochs() -> None:
    log = await keyed_log(epoch=1)
    for epoch in (1, 3, 4):
        log.log.become_leader(LeaderEpoch(epoch))
        log.put((A, b"1"), (A, b"2"), (A, b"3"))
    await log.clean()
    assert headers_of(log) == [(0, 2, 0), (3, 5, 0), (6, 7, 0), (8, 8, 1)]
    assert log.log.end_of_epoch(LeaderEpoch(2)) == EpochEnd(LeaderEpoch(1), Offset(3))
    # Without its checkpoint the epochs are found in the batches.
    assert await log.log.close()
    log.disk.unlink(log.harness.path("leader-epoch-checkpoint"))
    await log.open(StartKind.CLEAN)
    log.check()


async def test_records_without_a_key_stay() -> None:
    """They are from before the topic was compacted: nothing has replaced them."""
    log = await keyed_log()
    log.put((None, b"1"), (A, b"1"), (None, None), (A, b"2"))
    await log.clean()
    assert [record.offset for record in records_of(log.log)] == [0, 2, 3]
    log.check()


async def test_an_empty_key_is_a_key() -> None:
    log = await keyed_log()
    log.put((b"", b"1"), (b"", b"2"))
    await log.clean()
    assert [record.offset for record in records_of(log.log)] == [1]


async def test_batch_that_cannot_be_taken_apart_stays_as_it_is() -> None:
    """Its checksum holds, so it is what a client wrote; it may be from before the topic was compacted."""
    log = await keyed_log()
    log.put((A, b"1"))
    nonsense = bytearray(encode_values([b"x" * 100], keys=[A], timestamp_ms=NOW_MS))
    nonsense[62] = 0x7F  # the record's attributes are not looked at, its length is
    nonsense[61] = 0x01
    nonsense[17:21] = crc32c(bytes(nonsense[21:])).to_bytes(4, "big")
    log.log.append_as_leader(bytes(nonsense), leader_epoch=LeaderEpoch(1))
    log.log.append_as_leader(keyed((A, b"2")), leader_epoch=LeaderEpoch(1))
    await log.clean()
    first, second, third = split_batches(image_of(log.log).batches)
    assert is_filler(parse_header(first))
    patch_header(nonsense, 0, base_offset=1, leader_epoch=1)
    assert second == nonsense
    assert parse_header(third).record_count == 1


@pytest.mark.parametrize("compression", list(Compression))
async def test_compressed_batches_are_compressed_again(compression: Compression) -> None:
    log = await keyed_log()
    values = [(b"key %d" % n, b"value" * 20) for n in range(50)]
    log.append(keyed(*values, compression=compression), keyed(*values[::2], compression=compression))
    before = image_of(log.log)
    await log.clean()
    assert [parse_header(batch).compression for batch in split_batches(image_of(log.log).batches)] == [
        compression,
        compression,
    ]
    assert len(image_of(log.log).batches) < len(before.batches)
    log.check()


async def test_what_every_batch_says_of_itself_stays() -> None:
    log = await keyed_log(epoch=7)
    producer = (4, 2, 0)
    log.append(keyed((A, b"1"), (B, b"1"), producer=producer, compression=Compression.ZSTD, timestamp=NOW_MS))
    log.put((A, b"2"))
    before, _ = map(parse_header, split_batches(image_of(log.log).batches))
    await log.clean()
    after, _ = map(parse_header, split_batches(image_of(log.log).batches))
    for field in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "timestamp_type",
    ):
        assert getattr(after, field) == getattr(before, field), field
    assert after.record_count == 1


# -- tombstones


async def test_tombstone_stays_for_its_time_after_what_it_deletes_is_gone() -> None:
    log = await keyed_log()
    log.put((A, b"1"), (B, b"1"), (A, None))
    log.harness.clock.now_ms += 10 * BIG_SEGMENTS.delete_retention_ms  # by its own age it could go at once
    await log.clean()
    assert [record.offset for record in records_of(log.log)] == [1, 2]
    log.harness.clock.now_ms += BIG_SEGMENTS.delete_retention_ms - 1
    assert await log.clean() is None
    log.harness.clock.now_ms += 1
    report = await log.clean()
    assert report is not None
    assert report.records_removed == 1
    assert [record.offset for record in records_of(log.log)] == [1]
    assert log.log.compacted.tombstones_removed_below == 3
    log.check()
    assert await log.clean() is None


async def test_the_time_of_a_tombstone_outlives_the_process() -> None:
    log = await keyed_log()
    log.put((A, b"1"), (A, None), (B, b"1"))
    await log.clean()
    log.harness.clock.now_ms += BIG_SEGMENTS.delete_retention_ms
    await log.die(power_loss=True)
    await log.clean()
    assert [record.offset for record in records_of(log.log)] == [2]
    log.check()


async def test_each_pass_has_a_time_of_its_own_for_its_tombstones() -> None:
    log = await keyed_log()
    retention_ms = BIG_SEGMENTS.delete_retention_ms
    log.put((A, None))
    await log.clean()
    log.harness.clock.now_ms += retention_ms // 2
    log.put((B, None))
    await log.clean()
    log.harness.clock.now_ms += retention_ms // 2
    await log.clean()
    assert [record.key for record in records_of(log.log)] == [B]
    log.harness.clock.now_ms += retention_ms // 2
    await log.clean()
    assert records_of(log.log) == []
    log.check()


async def test_tombstones_of_very_many_passes_wait_longer_never_shorter() -> None:
    log = await keyed_log()
    retention_ms, written = BIG_SEGMENTS.delete_retention_ms, {}
    for n in range(60):
        log.put((b"key %d" % n, None))
        written[n] = log.harness.clock.now_ms
        await log.clean()
        for record in records_of(log.log):
            assert log.harness.clock.now_ms - written[record.offset] < 2 * retention_ms
        for offset in set(written) - {record.offset for record in records_of(log.log)}:
            assert log.harness.clock.now_ms - written[offset] >= retention_ms
        log.harness.clock.now_ms += retention_ms // 40
    log.check()


async def test_a_value_after_its_tombstone_replaces_it() -> None:
    log = await keyed_log()
    log.put((A, b"1"), (A, None), (A, b"2"))
    await log.clean()
    log.harness.clock.now_ms += 2 * BIG_SEGMENTS.delete_retention_ms
    await log.clean()
    assert [(record.offset, record.value) for record in records_of(log.log)] == [(2, b"2")]


async def test_tombstone_above_what_is_clean_never_goes() -> None:
    """There may be an older record of its key below, whatever its own age."""
    log = await keyed_log()
    log.put((A, b"1"), (B, b"1"))
    await log.clean()
    log.harness.clock.now_ms += 10 * BIG_SEGMENTS.delete_retention_ms
    log.put((A, None))
    await log.clean()
    assert [record.offset for record in records_of(log.log)] == [1, 2]


# -- what is not looked at


async def test_nothing_is_removed_for_the_sake_of_the_active_segment() -> None:
    log = await keyed_log()
    log.put((A, b"1"))
    await log.seal()
    log.put((A, b"2"))
    await log.log.flush()
    report = await log.compact()
    assert report is not None
    assert report.records_removed == 0
    assert [record.offset for record in records_of(log.log)] == [0, 1]
    log.check()


async def test_nothing_is_removed_for_the_sake_of_what_is_not_committed() -> None:
    """It may be cut off, and the older record would be the truth again (rule 48)."""
    log = await keyed_log()
    log.put((A, b"1"))
    await log.seal()
    log.put((A, b"2"))
    await log.seal()
    for below in (0, 1):
        await log.compact(below=below)
        assert [record.offset for record in records_of(log.log)] == [0, 1]
    await log.compact(below=2)
    assert [record.offset for record in records_of(log.log)] == [1]


async def test_nothing_is_removed_for_the_sake_of_what_is_not_on_the_device() -> None:
    """A power loss would take the newer record, and the older one is gone."""
    log = await keyed_log()
    log.put((A, b"1"))
    await log.seal()
    log.put((A, b"2"))
    log.log._writer.roll()
    await log.compact()
    await log.die(power_loss=True)
    assert latest_by_key(records_of(log.log)) == {A: b"1"}


async def test_segments_with_young_records_wait() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=100_000, min_compaction_lag_ms=1000))
    log.put((A, b"1"), (A, b"2"))
    log.harness.clock.now_ms += 999
    assert await log.clean() is None
    log.harness.clock.now_ms += 1
    assert await log.clean() is not None
    log.check()


async def test_log_is_compacted_again_once_enough_of_it_is_new() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=100_000, min_cleanable_dirty_ratio=0.5))
    log.put(*[(b"%d" % n, b"x" * 100) for n in range(10)])
    assert await log.clean() is not None
    log.put((A, b"x" * 100), (B, b"x" * 100))
    assert await log.clean() is None
    log.put(*[(b"%d" % n, b"y" * 100) for n in range(8)])
    assert await log.clean() is not None
    log.check()


async def test_log_that_is_not_compacted_is_left_alone() -> None:
    log = await keyed_log(config=compacted_config(cleanup_policy=(CleanupPolicy.DELETE,)))
    log.put((A, b"1"), (A, b"2"))
    assert await log.clean() is None
    assert len(records_of(log.log)) == 2


async def test_log_that_is_only_compacted_deletes_nothing_by_age_or_size() -> None:
    log = await keyed_log(config=compacted_config(retention_ms=1, retention_bytes=1))
    log.put((A, b"1"), (B, b"2"))
    await log.seal()
    log.harness.clock.now_ms += 1_000_000
    assert await log.log.apply_retention(below=log.log.log_end_offset) == 0
    both = (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)
    log.log.reconfigure(compacted_config(retention_ms=1, cleanup_policy=both))
    assert await log.log.apply_retention(below=log.log.log_end_offset) == 1


async def test_emptied_segments_expire_as_if_they_had_their_records() -> None:
    """A segment without a time would stay for ever, and all behind it with it."""
    both = (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)
    log = await keyed_log(config=compacted_config(retention_ms=1000, cleanup_policy=both))
    log.put(*[(A, b"%d" % n) for n in range(5)])
    await log.seal()
    log.put((A, b"last"))
    await log.clean()
    assert log.log.segment_count == 3
    log.harness.clock.now_ms += 2000
    assert await log.log.apply_retention(below=log.log.log_end_offset) == 2
    assert log.log.log_start_offset == 6


# -- memory


async def test_pass_ends_where_there_is_no_memory_for_more_keys_and_the_next_one_goes_on() -> None:
    log = await keyed_log()
    keys = [b"key %d" % n for n in range(40)]
    log.put(*[(key, b"1") for key in keys], *[(key, b"2") for key in keys])
    await log.seal()
    await log.open(StartKind.LOSSY, buffer_bytes=15 * 180)
    ends = []
    while (report := await log.compact()) is not None:
        ends.append(report.first_dirty_offset)
        assert report.is_complete == (report.first_dirty_offset == 80)
        log.check()
    assert ends == [15, 30, 45, 60, 75, 80]
    assert latest_by_key(records_of(log.log)) == dict.fromkeys(keys, b"2")


async def test_batch_with_more_keys_than_there_is_memory_for_is_cleaned_all_the_same() -> None:
    log = await keyed_log()
    log.append(keyed(*[(b"%d" % n, b"1") for n in range(50)]), keyed((b"7", b"2")))
    await log.seal()
    await log.open(StartKind.LOSSY, buffer_bytes=180)
    for _ in range(2):
        await log.compact()
        log.check()
    assert log.log.first_dirty_offset == 51


# -- segments


async def test_small_segments_become_one() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=1000))
    for n in range(20):
        log.put(*[(A, b"%d" % n)] * 5)
        await log.seal()
    assert log.log.segment_count == 21
    await log.clean()
    await log.clean()
    log.put((A, b"last"))
    await log.clean()
    log.check()
    log.check_tidy()
    assert log.log.segment_count == 2
    assert [name for name in log.harness.files(".snapshot") if int(name[:20]) < 101] == []


async def test_segment_never_covers_more_offsets_than_an_index_can_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = await keyed_log()
    for n in range(10):
        log.put((A, b"%d" % n), (B, b"%d" % n))
        await log.seal()
    monkeypatch.setattr(compaction, "RELATIVE_OFFSET_MAX", 5)
    await log.compact()
    assert [segment.base_offset for segment in log.log._state.segments] == [0, 6, 12, 18, 20]
    log.check()


async def test_clean_part_that_loses_nothing_is_not_written_again() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=200))
    log.put(*[(b"key %d" % n, b"x" * 50) for n in range(6)])
    await log.clean()
    files = log.harness.files(".log")
    inodes = {name: log.disk._inode(log.harness.path(name)) for name in files}
    log.put((b"key 5", b"y"))
    await log.clean()
    log.check()
    unchanged = [name for name in files if log.disk._inode(log.harness.path(name)) is inodes[name]]
    assert set(files) - set(unchanged) == {"00000000000000000005.log"}


async def test_find_timestamp_passes_over_what_is_gone() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=100_000))
    for n in range(5):
        log.append(keyed((A, b"%d" % n), timestamp=NOW_MS + 10 * n))
    log.append(keyed((B, b"x"), timestamp=NOW_MS + 100))
    await log.clean()
    assert log.log.find_timestamp(TimestampMs(NOW_MS)) == (4, NOW_MS + 40)
    assert log.log.find_timestamp(TimestampMs(NOW_MS + 50)) == (5, NOW_MS + 100)
    assert log.log.find_timestamp(TimestampMs(NOW_MS + 200)) is None


async def test_read_within_an_empty_batch_goes_on_behind_it() -> None:
    log = await keyed_log()
    log.put(*[(A, b"%d" % n) for n in range(9)])
    await log.clean()
    for offset in range(8):
        read = log.log.read(Offset(offset), bytes_max=1)
        assert read.next_offset == 8
        assert parse_header(read.batches).record_count == 0
    assert log.log.read(Offset(8), bytes_max=1).next_offset == 9


# -- producers


async def test_batches_by_which_a_producer_is_known_stay_as_headers() -> None:
    """Rule 48: a retry of any of its last five is still a duplicate, also when all snapshots are lost."""
    log = await keyed_log()
    batches = [keyed((A, b"%d" % n), producer=(9, 0, n)) for n in range(8)]
    log.append(*batches)
    log.put((A, b"last"))
    known = producers_of(log.log)
    await log.clean()
    assert headers_of(log) == [(0, 2, 0), *[(n, n, 0) for n in range(3, 8)], (8, 8, 1)]
    assert await log.log.close()
    for name in log.harness.files(".snapshot"):
        log.disk.unlink(log.harness.path(name))
    await log.open(StartKind.CLEAN)
    assert producers_of(log.log) == known
    log.check()
    log.log.become_leader(LeaderEpoch(2))
    for n in range(3, 8):
        assert log.log.append_as_leader(batches[n], leader_epoch=LeaderEpoch(2)).base_offset == n
    with pytest.raises(DuplicateSequence):
        log.log.append_as_leader(batches[2], leader_epoch=LeaderEpoch(2))


async def test_producer_is_known_by_batches_before_the_end_of_the_pass_alone() -> None:
    """What comes behind may be cut off: then the older batches are the ones that a retry is judged by."""
    log = await keyed_log()
    log.append(*[keyed((A, b"%d" % n), producer=(9, 0, n)) for n in range(3)])
    await log.seal()
    end = log.log.log_end_offset
    log.append(*[keyed((A, b"%d" % n), producer=(9, 0, n)) for n in range(3, 9)])
    await log.compact(below=end)
    for name in log.harness.files(".snapshot"):
        log.disk.unlink(log.harness.path(name))
    await log.log.truncate_to(end)
    known = producers_of(log.log)[9]
    assert [batch[0] for batch in known.batches] == [0, 1, 2]


async def test_header_of_a_producer_goes_when_newer_ones_tell_of_it() -> None:
    log = await keyed_log()
    for n in range(20):
        log.append(keyed((A, b"%d" % n), producer=(9, 0, n)))
        await log.clean()
        log.check()
    assert headers_of(log)[0] == (0, 14, 0)


# -- others, meanwhile


async def test_a_read_under_way_goes_on_in_the_old_file() -> None:
    log = await keyed_log()
    log.put(*[(A, b"%d" % n) for n in range(20)])
    await log.seal()
    before = image_of(log.log).batches
    region = log.log._reader.locate(Offset(0), bytes_max=EVERYTHING, end_offset=None)
    assert region is not None
    await log.compact()
    assert region.read() == before
    assert log.log.read(Offset(0), bytes_max=EVERYTHING).batches != before


async def test_reads_and_appends_go_on_at_every_moment_of_a_pass() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=2000))
    log.harness.context.open_files.files_max = 1
    log.put(*[(b"%d" % (n % 7), b"%d" % n) for n in range(60)])
    await log.seal()
    task = asyncio.ensure_future(log.compact())
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        log.put((b"%d" % (turns % 7), b"later"))
        turns += 1
        log.check_truth()
    assert turns > 10
    assert task.result() is not None
    log.check()


async def test_only_one_pass_at_a_time() -> None:
    log = await keyed_log()
    log.put((A, b"1"), (A, b"2"))
    await log.seal()
    first, second = await asyncio.gather(log.compact(), log.compact())
    assert first is not None
    assert second is None
    log.check()


@pytest.mark.parametrize("turns", range(30))
async def test_pass_that_is_given_up_leaves_a_log_that_goes_on(turns: int) -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=600))
    log.put(*[(b"%d" % (n % 3), b"%d" % n) for n in range(30)])
    await log.seal()
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    log.check_truth()
    while log.log.first_dirty_offset < 30:
        # A swap that was under way goes on by itself, and until then nobody else begins.
        await log.compact()
        await asyncio.sleep(0)
    log.check()
    assert await log.log.close()
    await log.open(StartKind.CLEAN)
    log.check()
    log.check_tidy()


@pytest.mark.parametrize("turns", range(1, 30))
async def test_log_that_is_closed_during_a_pass_is_closed_cleanly(turns: int) -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=600))
    log.put(*[(b"%d" % (n % 3), b"%d" % n) for n in range(30)])
    await log.seal()
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    assert await log.log.close()
    await task
    await log.open(StartKind.CLEAN)
    log.check_truth()
    log.check_tidy()
    await log.clean()
    log.check()


async def test_damage_ends_a_pass_and_is_not_written_over() -> None:
    log = await keyed_log(config=compacted_config(segment_bytes=600))
    log.put(*[(b"%d" % (n % 3), b"%d" % n) for n in range(30)])
    await log.seal()
    victim = sorted(log.harness.files(".log"))[2]
    log.disk.flip_bit(log.harness.path(victim), 8 * 70)
    with pytest.raises(LogDamaged):
        await log.compact()
    assert log.log.damage is not None
    assert log.log.damage.path == log.harness.path(victim)
    assert not log.harness.files(".cleaned")


@pytest.mark.parametrize("field_at", [7, 15])
async def test_fields_outside_the_checksum_are_checked_before_they_are_written_again(field_at: int) -> None:
    """Base offset and leader epoch."""
    log = await keyed_log()
    log.put((A, b"1"), (A, b"2"))
    await log.seal()
    log.disk.flip_bit(log.harness.path("00000000000000000000.log"), 8 * field_at)
    with pytest.raises(LogDamaged):
        await log.compact()
