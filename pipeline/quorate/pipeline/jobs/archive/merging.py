"""Small files into a large one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

__all__ = ["merge", "small_files"]

_ROWS_PER_GROUP: Final = 1 << 18


def small_files(directory: str, files_min: int, bytes_max: int) -> list[str]:
    """Which to merge now, the oldest first, up to the size that one may have.

    None: it is not worth it yet.
    """
    if not os.path.isdir(directory):
        return []
    sizes = [(name, os.path.getsize(f"{directory}/{name}")) for name in sorted(os.listdir(directory))]
    small = [(name, size) for name, size in sizes if name.endswith(".parquet") and size < bytes_max // 2]
    if len(small) < max(files_min, 2):
        return []
    chosen: list[str] = []
    total = 0
    for name, size in small:
        if chosen and total + size > bytes_max:
            break
        chosen.append(name)
        total += size
    return chosen if len(chosen) > 1 else []


def merge(paths: Sequence[str], target: str) -> None:
    """In order of partition and offset, as readers of a range like it; the directory is made."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    tables = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            tables.append(file.read())
    merged = pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])
    os.makedirs(os.path.dirname(target), exist_ok=True)
    pq.write_table(merged, target, compression="zstd", row_group_size=_ROWS_PER_GROUP)
