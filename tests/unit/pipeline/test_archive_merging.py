"""Small files become one, whatever they decode to, and whatever columns they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

from quorate.pipeline.jobs.archive.merging import merge


def _write(path: Path, partition: int, offsets: range, **more: Any) -> str:
    count = len(offsets)
    columns: dict[str, Any] = {
        "value": pa.array([b"v"] * count),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        **more,
    }
    pq.write_table(pa.table(columns), path)
    return str(path)


def _places(path: Path) -> list[tuple[int, int]]:
    rows = pq.read_table(path, columns=["partition", "offset"]).to_pylist()
    return [(row["partition"], row["offset"]) for row in rows]


def test_rows_are_in_order_of_partition_and_offset(tmp_path: Path) -> None:
    paths = [
        _write(tmp_path / "a.parquet", 1, range(10, 20)),
        _write(tmp_path / "b.parquet", 0, range(10)),
        _write(tmp_path / "c.parquet", 1, range(10)),
    ]
    merge(paths, str(tmp_path / "made" / "all.parquet"))
    assert _places(tmp_path / "made" / "all.parquet") == [
        *((0, n) for n in range(10)),
        *((1, n) for n in range(20)),
    ]


def test_files_that_decode_to_more_than_two_gib_are_merged_in_little_memory(tmp_path: Path) -> None:
    value = bytes(range(256)) * 400
    per_file, files = 800, 28
    assert len(value) * per_file * files > 1 << 31
    values = pa.array([value] * per_file)
    paths = [
        _write(tmp_path / f"{n}.parquet", 0, range(n * per_file, (n + 1) * per_file), value=values)
        for n in range(files)
    ]
    before, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        merge(paths, str(tmp_path / "all.parquet"))
    finally:
        pa.set_memory_pool(before)
    assert _places(tmp_path / "all.parquet") == [(0, n) for n in range(per_file * files)]
    assert counted.max_memory() < 1 << 29


def test_a_column_that_came_later_is_null_in_the_rows_from_before(tmp_path: Path) -> None:
    paths = [
        _write(tmp_path / "a.parquet", 0, range(2)),
        _write(tmp_path / "b.parquet", 0, range(2, 4), customer=pa.array(["c", "d"])),
    ]
    merge(paths, str(tmp_path / "all.parquet"))
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["customer"] for row in rows] == [None, None, "c", "d"]
