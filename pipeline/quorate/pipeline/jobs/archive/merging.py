"""Small files into a large one.

What a file decodes to may be hundreds of times its size, so nothing is loaded whole: rows pass through in
pieces of a bounded size, each sorted, each a row group of the large file. Row groups are taken in order of
their first partition and offset, so pieces overlap only where they did before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

__all__ = ["merge", "small_files"]

#: of a row group, and of what is in memory while it is made
_PIECE_ROWS_MAX: Final = 1 << 18
_PIECE_BYTES_MAX: Final = 64 << 20
#: What is decoded at once: a topic's largest records may be megabytes each.
_ROWS_DECODED_MAX: Final = 1 << 10


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
    """By partition and offset, as readers of a range like it; the directory is made.

    A column that only some of them have is null for the rows of the others.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    with ExitStack() as stack:
        files = [stack.enter_context(pq.ParquetFile(path)) for path in paths]
        # Without metadata: Spark's own would name the columns of the first file only, and count for more.
        schemas = [file.schema_arrow.remove_metadata() for file in files]
        schema = pa.unify_schemas(schemas, promote_options="default")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        writer = stack.enter_context(pq.ParquetWriter(target, schema, compression="zstd"))
        for piece in _pieces(_batches(files)):
            whole = pa.concat_tables([schema.empty_table(), *piece], promote_options="default")
            ordered = whole.sort_by([("partition", "ascending"), ("offset", "ascending")])
            writer.write_table(ordered, row_group_size=_PIECE_ROWS_MAX)


class _RowGroup(NamedTuple):
    partition: int
    offset: int
    file: int
    number: int


def _batches(files: Sequence[Any]) -> Iterator[Any]:
    groups = sorted(
        _RowGroup(_least(file, number, "partition"), _least(file, number, "offset"), index, number)
        for index, file in enumerate(files)
        for number in range(file.num_row_groups)
    )
    for group in groups:
        yield from files[group.file].iter_batches(_ROWS_DECODED_MAX, row_groups=[group.number])


def _least(file: Any, row_group: int, column: str) -> int:
    """As its statistics say; without them it is taken where it stands."""
    found = file.metadata.row_group(row_group)
    # By path: what is nested has several columns there.
    columns = (found.column(index) for index in range(found.num_columns))
    statistics = next(each.statistics for each in columns if each.path_in_schema == column)
    return int(statistics.min) if statistics is not None and statistics.has_min_max else 0


def _pieces(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """As tables, together so large as a row group may be; one that is larger is a piece of its own."""
    import pyarrow as pa

    piece: list[Any] = []
    rows = size = 0
    for batch in batches:
        if piece and (rows + batch.num_rows > _PIECE_ROWS_MAX or size + batch.nbytes > _PIECE_BYTES_MAX):
            yield piece
            piece, rows, size = [], 0, 0
        piece.append(pa.Table.from_batches([batch]))
        rows += batch.num_rows
        size += batch.nbytes
    if piece:
        yield piece
