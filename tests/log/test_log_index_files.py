"""Sparse indexes: what they answer, what a truncation leaves, and that a damaged file is never believed."""

from __future__ import annotations

import pytest

from quorate.storage.index import IndexFileDamaged, OffsetIndex, TimeIndex


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset=relative_offset, position=position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp, relative_offset in entries:
        index.maybe_append(timestamp=timestamp, relative_offset=relative_offset)
    return index


#: batches of offsets 0-4, 5-9 and 20-29, at bytes 0, 100 and 300
OFFSETS = offset_index((4, 0), (9, 100), (29, 300))
TIMES = time_index((1000, 4), (2000, 9), (5000, 29))


@pytest.mark.parametrize(
    ("relative_offset", "entry"),
    [
        *((offset, None) for offset in (0, 3)),
        *((offset, (4, 0)) for offset in (4, 5, 8)),
        *((offset, (9, 100)) for offset in (9, 10, 28)),
        *((offset, (29, 300)) for offset in (29, 1000)),
    ],
)
def test_lookup_answers_a_batch_at_or_before_the_one_wanted(
    relative_offset: int, entry: tuple[int, int] | None
) -> None:
    assert OFFSETS.entry_before(relative_offset) == entry


def test_empty_index_knows_no_batch() -> None:
    assert OffsetIndex().entry_before(7) is None
    assert OffsetIndex().last_position == 0


@pytest.mark.parametrize(
    ("position", "limit", "boundary"),
    [(0, 50, None), (0, 100, 100), (0, 299, 100), (0, 1000, 300), (100, 299, None), (300, 1000, None)],
)
def test_boundary_lies_behind_the_position_and_within_the_limit(
    position: int, limit: int, boundary: int | None
) -> None:
    assert OFFSETS.last_boundary_within(position, limit) == boundary


@pytest.mark.parametrize(("size", "left"), [(0, 0), (1, 1), (100, 1), (101, 2), (300, 2), (301, 3)])
def test_truncation_forgets_batches_that_start_at_or_after_the_size(size: int, left: int) -> None:
    index = OffsetIndex.from_bytes(OFFSETS.to_bytes())
    index.truncate(size)
    assert len(index) == left
    assert list(index.entries()) == list(OFFSETS.entries())[:left]


def test_time_lookup_answers_the_last_offset_before_which_all_is_older() -> None:
    assert TIMES.offset_before(1000) is None
    assert TIMES.offset_before(1001) == 4
    assert TIMES.offset_before(2000) == 4
    assert TIMES.offset_before(5000) == 9
    assert TIMES.offset_before(5001) == 29
    assert TimeIndex().offset_before(0) is None


def test_time_index_notes_only_new_maxima() -> None:
    index = time_index((1000, 4), (1000, 9), (999, 14), (1001, 19))
    assert index == time_index((1000, 4), (1001, 19))
    assert index.max_timestamp == 1001
    assert TimeIndex().max_timestamp is None


def test_time_index_truncation_forgets_entries_at_or_after_the_offset() -> None:
    for relative_offset, left in ((0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (29, 2), (30, 3)):
        index = TimeIndex.from_bytes(TIMES.to_bytes())
        index.truncate(relative_offset)
        assert len(index) == left


@pytest.mark.parametrize("index", [OFFSETS, OffsetIndex(), TIMES, TimeIndex(), time_index((-1, 0))])
def test_index_file_restores_the_index(index: OffsetIndex | TimeIndex) -> None:
    assert type(index).from_bytes(index.to_bytes()) == index


def test_offset_index_entries_are_kafkas() -> None:
    assert OFFSETS.to_bytes()[:16] == bytes.fromhex("00000004 00000000 00000009 00000064")


def test_largest_relative_offset_and_position_fit() -> None:
    index = offset_index((2**31 - 1, 2**31 - 1))
    assert list(OffsetIndex.from_bytes(index.to_bytes()).entries()) == [(2**31 - 1, 2**31 - 1)]


@pytest.mark.parametrize("index", [OFFSETS, OffsetIndex(), TIMES, TimeIndex()])
def test_every_flipped_bit_of_an_index_file_is_noticed(index: OffsetIndex | TimeIndex) -> None:
    content = index.to_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IndexFileDamaged):
            type(index).from_bytes(bytes(damaged))


@pytest.mark.parametrize("index", [OFFSETS, TIMES])
def test_index_file_of_any_other_length_is_noticed(index: OffsetIndex | TimeIndex) -> None:
    content = index.to_bytes()
    for length in range(len(content)):
        with pytest.raises(IndexFileDamaged):
            type(index).from_bytes(content[:length])
        with pytest.raises(IndexFileDamaged):
            type(index).from_bytes(content[length + 1 :])
    with pytest.raises(IndexFileDamaged):
        type(index).from_bytes(content + b"\0")


def test_an_index_of_one_kind_is_not_taken_for_the_other() -> None:
    # Three entries each: the footers differ in nothing but the checksum.
    with pytest.raises(IndexFileDamaged):
        TimeIndex.from_bytes(OFFSETS.to_bytes())
    with pytest.raises(IndexFileDamaged):
        OffsetIndex.from_bytes(TIMES.to_bytes())
