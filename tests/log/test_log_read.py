"""Reading: by offset, by size, below an end, by time."""

from __future__ import annotations

import itertools

import pytest

from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    batch,
    headers_in,
    read_all,
    small_config,
    split_batches,
)
from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import Compression, decode_batch
from quorate.errors import LogClosed, OffsetOutOfRange
from quorate.storage import LogRead, PartitionLog, TimestampedOffset


async def log_of(*counts: int, segment_bytes: int = 400) -> PartitionLog:
    """A batch of so many records each; values tell the offset."""
    harness = LogHarness(small_config(segment_bytes=segment_bytes))
    log = await harness.lead()
    offset = 0
    for count in counts:
        harness.append(batch(*(b"%d" % (offset + n) for n in range(count))))
        offset += count
    return log


COUNTS = (1, 3, 1, 5, 2, 1, 8, 1, 1, 4, 2, 2)


async def test_every_offset_is_found_in_its_batch() -> None:
    log = await log_of(*COUNTS)
    assert log.segment_count > 2
    for offset in range(log.log_end_offset):
        found = log.read(Offset(offset), bytes_max=1)
        records = decode_batch(found.batches)
        assert records[0].offset <= offset <= records[-1].offset
        assert all(record.value == b"%d" % record.offset for record in records)
        assert found.next_offset == records[-1].offset + 1


@pytest.mark.parametrize("index_interval_bytes", [0, 200, 100_000])
async def test_reads_do_not_depend_on_how_dense_the_index_is(index_interval_bytes: int) -> None:
    harness = LogHarness(small_config(segment_bytes=600, index_interval_bytes=index_interval_bytes))
    log = await harness.lead()
    harness.append(*(batch(*[b"x"] * count) for count in COUNTS))
    whole = read_all(log)
    starts = {header.base_offset: position for position, header in headers_in(whole)}
    for offset in range(log.log_end_offset):
        for bytes_max in (1, 150, 300, EVERYTHING):
            found = log.read(Offset(offset), bytes_max=bytes_max).batches
            start = starts[max(base for base in starts if base <= offset)]
            assert whole[start:].startswith(found)
            assert len(found) <= bytes_max or len(split_batches(found)) == 1


async def test_read_returns_no_more_than_asked_for_and_as_much_as_fits() -> None:
    log = await log_of(*[1] * 6, segment_bytes=10_000)
    size = len(read_all(log)) // 6
    for bytes_max, count in (
        (1, 1),
        (size - 1, 1),
        (size, 1),
        (2 * size - 1, 1),
        (2 * size, 2),
        (9 * size, 6),
    ):
        assert len(log.read(Offset(0), bytes_max=bytes_max).batches) == count * size


async def test_batch_larger_than_the_limit_comes_alone() -> None:
    harness = LogHarness(small_config(segment_bytes=10_000))
    log = await harness.lead()
    harness.append(batch(b"a"), batch(b"b" * 1000), batch(b"c"))
    found = log.read(Offset(1), bytes_max=100)
    assert [record.value for record in decode_batch(found.batches)] == [b"b" * 1000]
    assert found.next_offset == 2


async def test_reads_go_on_across_segments() -> None:
    log = await log_of(*COUNTS)
    for bytes_max in (1, 90, 200, EVERYTHING):
        assert read_all(log, bytes_max=bytes_max) == read_all(log)
    values = [record.value for each in split_batches(read_all(log)) for record in decode_batch(each)]
    assert values == [b"%d" % offset for offset in range(sum(COUNTS))]


async def test_nothing_at_or_beyond_the_end_offset_is_returned() -> None:
    """A consumer's end is the high watermark: whole batches below it only (rule 17)."""
    log = await log_of(*COUNTS)
    ends = list(itertools.accumulate(COUNTS, initial=0))
    for offset in range(log.log_end_offset):
        for end_offset in range(log.log_end_offset + 3):
            found = log.read(Offset(offset), bytes_max=EVERYTHING, end_offset=Offset(end_offset))
            boundary = max(end for end in ends if end <= end_offset)
            assert found.next_offset <= max(boundary, offset)
            batch_end = min(end for end in ends if end > offset)
            assert bool(found.batches) == (batch_end <= end_offset)


async def test_read_at_the_end_is_empty_and_stays_there() -> None:
    log = await log_of(1, 2)
    assert log.read(Offset(3), bytes_max=EVERYTHING) == LogRead(b"", Offset(3))


@pytest.mark.parametrize("offset", [-1, 4])
async def test_read_outside_the_log_says_where_the_log_is(offset: int) -> None:
    log = await log_of(1, 2)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(Offset(offset), bytes_max=EVERYTHING)
    assert caught.value.facts == {"offset": offset, "log_start_offset": 0, "log_end_offset": 3}


async def test_batch_that_begins_before_the_log_start_is_returned_whole() -> None:
    log = await log_of(4, 1)
    await log.advance_log_start(Offset(2))
    records = decode_batch(log.read(Offset(2), bytes_max=1).batches)
    assert [record.offset for record in records] == [0, 1, 2, 3]


async def test_closed_log_refuses_everything() -> None:
    log = await log_of(1)
    assert await log.close()
    assert await log.close()
    with pytest.raises(LogClosed):
        log.read(Offset(0), bytes_max=1)
    with pytest.raises(LogClosed):
        log.find_timestamp(TimestampMs(0))
    with pytest.raises(LogClosed):
        log.append_as_leader(batch(), leader_epoch=log.latest_leader_epoch)
    with pytest.raises(LogClosed):
        log.append_as_follower(batch())
    with pytest.raises(LogClosed):
        log.become_leader(log.latest_leader_epoch)
    for change in (
        log.flush(),
        log.truncate_to(Offset(0)),
        log.apply_retention(below=Offset(0)),
        log.advance_log_start(Offset(0)),
        log.reset_to(Offset(0)),
    ):
        with pytest.raises(LogClosed):
            await change


# -- by time


async def timed_log(times: list[list[int]], *, segment_bytes: int, index_interval_bytes: int) -> PartitionLog:
    harness = LogHarness(small_config(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes))
    log = await harness.lead()
    for batch_times in times:
        harness.append(batch(*[b"v"] * len(batch_times), timestamps=[NOW_MS + t for t in batch_times]))
    return log


#: clients' clocks disagree: times go up and down, within batches and across segments
TIMES = [[10, 5, 20], [15], [15, 14], [40, 50], [30], [30, 60, 55], [58], [70, 70], [69], [90], [80, 100]]


@pytest.mark.parametrize("segment_bytes", [100, 250, 100_000])
@pytest.mark.parametrize("index_interval_bytes", [0, 150, 100_000])
async def test_the_first_record_at_or_after_a_time_is_found(
    segment_bytes: int, index_interval_bytes: int
) -> None:
    log = await timed_log(TIMES, segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    flat = [time for times in TIMES for time in times]
    for log_start in (0, 4, 11):
        await log.advance_log_start(Offset(log_start))
        for wanted in range(103):
            hits = [n for n, time in enumerate(flat) if time >= wanted and n >= log_start]
            found = log.find_timestamp(TimestampMs(NOW_MS + wanted))
            if hits:
                assert found == TimestampedOffset(Offset(hits[0]), TimestampMs(NOW_MS + flat[hits[0]]))
            else:
                assert found is None


async def test_time_lookup_is_the_same_after_every_kind_of_start() -> None:
    harness = LogHarness(small_config(segment_bytes=250, index_interval_bytes=150))
    log = await harness.lead()
    for times in TIMES:
        harness.append(batch(*[b"v"] * len(times), timestamps=[NOW_MS + t for t in times]))
    await log.flush()
    expected = [log.find_timestamp(TimestampMs(NOW_MS + t)) for t in range(103)]
    for reopen in (harness.restart, harness.crash, harness.restart, harness.power_loss):
        log = await reopen()
        assert [log.find_timestamp(TimestampMs(NOW_MS + t)) for t in range(103)] == expected


async def test_time_lookup_reads_compressed_batches() -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(
        batch(b"a", b"b", timestamps=[NOW_MS, NOW_MS + 5], compression=Compression.GZIP),
    )
    assert log.find_timestamp(TimestampMs(NOW_MS + 1)) == TimestampedOffset(
        Offset(1), TimestampMs(NOW_MS + 5)
    )


async def test_empty_log_has_no_record_at_any_time() -> None:
    assert (await LogHarness().open()).find_timestamp(TimestampMs(0)) is None
