"""One segment: its bookkeeping is what counts, its indexes are only ever a shortcut."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log.log_harness import NOW_MS, batch, make_context, small_config
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import patch_header
from quorate.errors import CorruptBatch
from quorate.storage.segment import NO_TIMESTAMP, Segment, segment_path

BASE = Offset(1000)
SIZES = (1, 3, 2, 1, 4)


def new_segment(disk: SimDisk, *, index_interval_bytes: int = 0) -> Segment:
    config = small_config(index_interval_bytes=index_interval_bytes)
    return Segment.create(make_context(disk), config, "/log", BASE)


def fill(segment: Segment) -> bytes:
    content = b""
    for n, count in enumerate(SIZES):
        stamped = bytearray(batch(*[b"v"] * count, timestamp=NOW_MS + (40, 10, 60, 20, 30)[n]))
        patch_header(stamped, 0, base_offset=segment.next_offset, leader_epoch=1)
        segment.write([stamped])
        segment.add_batch(
            last_offset=Offset(segment.next_offset + count - 1),
            size_in_bytes=len(stamped),
            max_timestamp=TimestampMs(NOW_MS + (40, 10, 60, 20, 30)[n]),
        )
        content += stamped
    return content


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/log")
    return disk


def test_name_is_the_first_offset_in_twenty_digits() -> None:
    assert segment_path("/log", Offset(4711), ".log") == "/log/00000000000000004711.log"
    assert segment_path("/log", Offset(2**63 - 1), ".log") == "/log/09223372036854775807.log"


def test_new_segment_is_empty_and_has_no_time(disk: SimDisk) -> None:
    segment = new_segment(disk)
    assert (segment.size, segment.next_offset, segment.is_active) == (0, BASE, True)
    assert segment.max_timestamp == NO_TIMESTAMP
    assert segment.first_timestamp() is None
    assert list(segment.walk(0)) == []


def test_bytes_written_do_not_count_before_the_batch_is_added(disk: SimDisk) -> None:
    segment = new_segment(disk)
    segment.write([batch()])
    assert (segment.size, segment.next_offset) == (0, BASE)
    segment.cut_file()
    assert disk.size(segment.path) == 0


def test_walk_visits_every_batch_whatever_the_chunk(disk: SimDisk) -> None:
    segment = new_segment(disk)
    content = fill(segment)
    for read_bytes in (61, 62, 100, 1 << 20):
        visited = list(segment.walk(0, read_bytes=read_bytes))
        assert sum(header.size_in_bytes for _, header in visited) == len(content)
        assert [header.base_offset - BASE for _, header in visited] == [0, 1, 4, 6, 7]
    assert segment.first_timestamp() == NOW_MS + 40


def test_walk_stops_at_a_batch_that_does_not_follow(disk: SimDisk) -> None:
    """Offsets lie outside the checksums: nobody else would notice."""
    segment = new_segment(disk)
    fill(segment)
    for position, _ in list(segment.walk(0)):
        disk.flip_bit(segment.path, 8 * (position + 7))
        with pytest.raises(CorruptBatch) as caught:
            list(segment.walk(0))
        assert caught.value.facts["position"] == position
        assert caught.value.facts["path"] == segment.path
        disk.flip_bit(segment.path, 8 * (position + 7))


def test_walk_calls_a_batch_of_another_format_corrupt(disk: SimDisk) -> None:
    segment = new_segment(disk)
    fill(segment)
    disk.flip_bit(segment.path, 8 * 16)  # magic 3
    disk.flip_bit(segment.path, 8 * 16 + 1)  # magic 1
    with pytest.raises(CorruptBatch):
        list(segment.walk(0))


@pytest.mark.parametrize("index_interval_bytes", [0, 150, 10_000])
def test_position_of_an_offset_is_the_start_of_its_batch(disk: SimDisk, index_interval_bytes: int) -> None:
    segment = new_segment(disk, index_interval_bytes=index_interval_bytes)
    fill(segment)
    starts = {header.base_offset: position for position, header in segment.walk(0)}
    for offset in range(BASE, segment.next_offset):
        base = max(start for start in starts if start <= offset)
        assert segment.position_of(Offset(offset)) == starts[base]
        assert segment.batch_start(Offset(offset)) == base
    assert segment.position_of(segment.next_offset) == segment.size
    assert segment.batch_start(segment.next_offset) == segment.next_offset


@pytest.mark.parametrize("index_interval_bytes", [0, 150, 10_000])
def test_batch_whose_offset_rotted_is_found_by_no_lookup(disk: SimDisk, index_interval_bytes: int) -> None:
    segment = new_segment(disk, index_interval_bytes=index_interval_bytes)
    fill(segment)
    for position, header in list(segment.walk(0)):
        for bit in range(8):
            disk.flip_bit(segment.path, 8 * (position + 7) + bit)
            for offset in range(header.base_offset, header.last_offset + 1):
                with pytest.raises(CorruptBatch):
                    segment.position_of(Offset(offset))
            disk.flip_bit(segment.path, 8 * (position + 7) + bit)


def test_region_ends_between_batches(disk: SimDisk) -> None:
    segment = new_segment(disk, index_interval_bytes=150)
    fill(segment)
    starts = [position for position, _ in segment.walk(0)]
    boundaries = {*starts, segment.size}
    for start in starts:
        for bytes_max in range(1, segment.size + 50):
            region = segment.region(start, bytes_max=bytes_max, end=segment.size)
            end = region.position + region.length
            assert end in boundaries
            following = [boundary for boundary in boundaries if boundary > end]
            assert not following or min(following) - start > bytes_max
            first = min(boundary for boundary in boundaries if boundary > start)
            assert region.length <= bytes_max or end == first


# -- indexes


@pytest.mark.parametrize("index_interval_bytes", [0, 150, 10_000])
def test_rebuilt_indexes_equal_those_that_were_kept(disk: SimDisk, index_interval_bytes: int) -> None:
    segment = new_segment(disk, index_interval_bytes=index_interval_bytes)
    fill(segment)
    kept = (segment.offset_index, segment.time_index, segment.max_timestamp)
    segment.rebuild_indexes()
    assert (segment.offset_index, segment.time_index, segment.max_timestamp) == kept


def test_index_entries_keep_their_distance(disk: SimDisk) -> None:
    segment = new_segment(disk, index_interval_bytes=150)
    fill(segment)
    positions = [position for _, position in segment.offset_index.entries()]
    assert all(b - a >= 150 for a, b in zip([0, *positions], positions, strict=False))


def test_sealed_segment_knows_its_newest_record_from_the_time_index(disk: SimDisk) -> None:
    segment = new_segment(disk, index_interval_bytes=10_000)
    fill(segment)
    segment.persist_indexes()
    sealed = reopened(disk, segment)
    assert sealed.max_timestamp == NOW_MS + 60
    assert not sealed.is_active


def reopened(disk: SimDisk, segment: Segment) -> Segment:
    """As a clean start has it: nothing but size and end are known."""
    sealed = Segment(make_context(disk), small_config(index_interval_bytes=10_000), "/log", BASE)
    sealed.size, sealed.next_offset = segment.size, segment.next_offset
    return sealed


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_index_file_damaged_at_any_byte_is_rebuilt(disk: SimDisk, suffix: str) -> None:
    segment = new_segment(disk, index_interval_bytes=10_000)
    fill(segment)
    segment.persist_indexes()
    path = segment_path("/log", BASE, f".{suffix}")
    for byte in range(disk.size(path)):
        disk.flip_bit(path, 8 * byte + byte % 8)
        sealed = reopened(disk, segment)
        assert sealed.max_timestamp == NOW_MS + 60
        assert sealed.offset_index == segment.offset_index
        disk.flip_bit(path, 8 * byte + byte % 8)


@pytest.mark.parametrize("names", [(".index",), (".timeindex",), (".index", ".timeindex")])
def test_missing_index_file_is_rebuilt(disk: SimDisk, names: tuple[str, ...]) -> None:
    segment = new_segment(disk)
    fill(segment)
    segment.persist_indexes()
    for suffix in names:
        disk.unlink(segment_path("/log", BASE, suffix))
    assert reopened(disk, segment).max_timestamp == NOW_MS + 60


def test_rebuilding_notices_batches_that_end_elsewhere(disk: SimDisk) -> None:
    segment = new_segment(disk)
    fill(segment)
    for size, next_offset in ((segment.size - 1, 0), (segment.size + 70, 0), (segment.size, 1)):
        other = reopened(disk, segment)
        other.size, other.next_offset = size, Offset(segment.next_offset + next_offset)
        with pytest.raises(CorruptBatch):
            other.rebuild_indexes()


# -- shrinking


@pytest.mark.parametrize("index_interval_bytes", [0, 150, 10_000])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_truncated_segment_equals_one_that_was_never_longer(
    disk: SimDisk, index_interval_bytes: int, is_sealed: bool
) -> None:
    for offset in range(BASE, BASE + sum(SIZES) + 1):
        segment = new_segment(disk, index_interval_bytes=index_interval_bytes)
        fill(segment)
        if is_sealed:
            segment.persist_indexes()
            segment.retire()
        segment.truncate(Offset(offset))
        assert segment.is_active
        assert disk.size(segment.path) == segment.size
        kept = (segment.offset_index, segment.time_index, segment.max_timestamp, segment.next_offset)
        segment.rebuild_indexes()
        rebuilt = (segment.offset_index, segment.time_index, segment.max_timestamp, segment.next_offset)
        assert kept[1].max_timestamp == rebuilt[1].max_timestamp or is_sealed
        assert kept[0] == rebuilt[0]
        assert kept[2:] == rebuilt[2:]
        assert not any(disk.exists(path) for path in (segment.index_path, segment.time_index_path))
        segment.delete()


def test_deleted_segment_leaves_no_file_and_no_descriptor(disk: SimDisk) -> None:
    segment = new_segment(disk)
    fill(segment)
    segment.persist_indexes()
    segment.delete()
    assert disk.list("/log") == []
    assert disk.open_paths == []
