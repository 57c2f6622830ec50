"""How a replay is cut: every row once, in order, in chunks of rows and not of offsets."""

from __future__ import annotations

import pytest

from quorate.pipeline.jobs.replay import spans
from quorate.pipeline.jobs.replay.notes import Chunk, Notes
from quorate.pipeline.jobs.replay.spans import ChunkSpans, Spans


class _Archive:
    """Offsets of rows by partition."""

    def __init__(self, rows: dict[str, list[int]]) -> None:
        self.rows = rows
        self.looks = 0
        self.marks_most = 0

    def marks(self, within: Spans, every: int, count: int) -> dict[str, list[int]]:
        self.looks += 1
        found = {
            partition: [each for each in self.rows[partition] if first <= each < end][every - 1 :: every][
                :count
            ]
            for partition, (first, end) in within.items()
        }
        self.marks_most = max(self.marks_most, sum(map(len, found.values())))
        # A partition that has fewer rows is not in Spark's answer.
        return {partition: marks for partition, marks in found.items() if marks}

    def notes(self) -> Notes:
        left = {partition: (rows[0], rows[-1] + 1) for partition, rows in self.rows.items()}
        rows = sum(map(len, self.rows.values()))
        return Notes({}, source_id=None, target_id="A" * 22, rows=rows, table_version=None, left=left)

    def replayed(self, rows_max: int) -> list[dict[str, list[int]]]:
        """Chunk by chunk, as the job does it."""
        cutting = ChunkSpans(rows_max, self.marks)
        notes, chunks = self.notes(), []
        while notes.left:
            chunk = Chunk(cutting.next(notes.left, notes.rows - notes.rows_done), {})
            chunks.append(
                {
                    partition: [each for each in self.rows[partition] if first <= each < end]
                    for partition, (first, end) in chunk.spans.items()
                }
            )
            notes = notes.begin(chunk).end(rows=sum(map(len, chunks[-1].values())))
        covered: dict[str, list[int]] = {partition: [] for partition in self.rows}
        for written in chunks:
            for partition, rows in written.items():
                covered[partition] += rows
        assert covered == self.rows
        assert notes.rows_done == notes.rows
        return chunks


def test_where_every_offset_has_a_row_chunks_are_equal_parts_and_nobody_is_asked() -> None:
    archive = _Archive({"0": list(range(5, 20)), "3": list(range(10))})
    assert [sum(map(len, chunk.values())) for chunk in archive.replayed(8)] == [8, 8, 6, 3]
    assert archive.looks == 0


def test_an_archive_with_wide_gaps_takes_as_many_chunks_as_its_rows_need() -> None:
    archive = _Archive({str(number): list(range(0, 100_000, 1_000)) for number in range(6)})
    chunks = archive.replayed(120)
    assert [sum(map(len, chunk.values())) for chunk in chunks] == [120] * 5
    assert archive.looks == 1


def test_chunks_stay_full_when_all_partitions_but_one_are_done() -> None:
    archive = _Archive({"0": list(range(0, 30, 3)), "1": list(range(0, 3_000, 3)), "2": [7]})
    sizes = [sum(map(len, chunk.values())) for chunk in archive.replayed(30)]
    assert max(sizes) <= 30
    assert len(sizes) <= 1_011 // 30 + 3


@pytest.mark.parametrize("rows_max", [1, 2, 3, 7, 50])
def test_what_is_kept_of_where_chunks_end_is_bounded(monkeypatch: pytest.MonkeyPatch, rows_max: int) -> None:
    monkeypatch.setattr(spans, "_MARKS_MAX", 10)
    archive = _Archive({"0": list(range(1, 800, 2)), "1": [0, 5, 1_000_000], "2": list(range(40))})
    chunks = archive.replayed(rows_max)
    assert archive.marks_most <= 10
    assert all(any(chunk.values()) for chunk in chunks), "none has nothing"


def test_with_rows_that_were_removed_by_hand_it_comes_to_an_end() -> None:
    """The job says then what is missing."""
    archive = _Archive({"0": [0, 4, 900, 5_000]})
    cutting = ChunkSpans(2, archive.marks)
    left, first = {"0": (0, 5_001)}, 0
    archive.rows = {"0": [0]}
    while left:
        ((_, end),) = cutting.next(left, 4).values()
        assert end > first
        first = end
        left = {"0": (first, 5_001)} if first < 5_001 else {}
