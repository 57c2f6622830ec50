"""A reader of ranges of an archive finds their files, and looks into each once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.pipeline.jobs.archive import extents
from quorate.pipeline.jobs.archive.extents import FileExtents, files_below
from quorate.pipeline.jobs.archive.merging import merge


def _file(
    root: Path, name: str, partition: int, offsets: range, *, topic: str = "orders", statistics: bool = True
) -> str:
    directory = root / "date=2026-01-31" / f"topic={topic}"
    directory.mkdir(parents=True, exist_ok=True)
    columns = {
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
    }
    pq.write_table(pa.table(columns), directory / name, write_statistics=statistics)
    return str(directory / name)


def test_a_range_is_in_the_files_whose_footers_say_so(tmp_path: Path) -> None:
    first = _file(tmp_path, "a.parquet", 0, range(10))
    second = _file(tmp_path, "b.parquet", 0, range(10, 20))
    other = _file(tmp_path, "c.parquet", 1, range(10))
    unknown = _file(tmp_path, "d.parquet", 7, range(5), statistics=False)
    _file(tmp_path, "e.parquet", 0, range(20), topic="payments")
    found = FileExtents("orders", lambda: files_below(str(tmp_path)))
    assert found.files_with({0: (0, 10)}) == [first, unknown]
    assert found.files_with({0: (9, 11)}) == [first, second, unknown]
    assert found.files_with({0: (20, 30), 1: (9, 10)}) == [other, unknown]
    assert found.files_with({}) == [unknown]


def test_what_is_not_committed_is_no_file_of_an_archive(tmp_path: Path) -> None:
    kept = _file(tmp_path, "a.parquet", 0, range(10))
    _file(tmp_path, ".b.parquet", 0, range(10))
    _file(tmp_path / "_archive" / "staging" / "x", "c.parquet", 0, range(10))
    assert files_below(str(tmp_path)) == [kept]


def test_a_file_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        _file(tmp_path, f"{n}.parquet", 0, range(n * 10, n * 10 + 10))
    looked: list[str] = []
    ranges_of = extents._ranges_of

    def seen(path: str) -> object:
        looked.append(path)
        return ranges_of(path)

    monkeypatch.setattr(extents, "_ranges_of", seen)
    found = FileExtents("orders", lambda: files_below(str(tmp_path)))
    for n in range(20):
        assert len(found.files_with({0: (n * 10, n * 10 + 10)})) == 1
    assert len(looked) == 20


def test_files_that_were_made_into_one_meanwhile_are_found_again(tmp_path: Path) -> None:
    small = [_file(tmp_path, f"{n}.parquet", 0, range(n * 10, n * 10 + 10)) for n in range(4)]
    found = FileExtents("orders", lambda: files_below(str(tmp_path)))
    assert found.files_with({0: (0, 20)}) == small[:2]
    large = str(Path(small[0]).with_name("compacted.parquet"))
    merge(small, large)
    for each in small:
        Path(each).unlink()
    assert found.files_with({0: (0, 20)}) == [large]
    shutil.rmtree(tmp_path / "date=2026-01-31")
    assert found.files_with({0: (0, 20)}) == []
