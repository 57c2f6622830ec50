"""Which files of an archive hold which offsets of one topic: whoever reads it range by range looks once.

What a file holds stands in its footer, as the least and the greatest partition and offset of each row group.
A file never changes, so what was found stays true for as long as all files of a range are there. Small files
may be made into one meanwhile: then they are gone, and it is looked for anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

__all__ = ["FileExtents", "files_below", "has_files_below"]

_FOOTERS_AT_ONCE: Final = 8
_LOOKS_MAX: Final = 10


class _Range(NamedTuple):
    """Of a row group; all of it inclusive."""

    partitions: tuple[int, int]
    offsets: tuple[int, int]

    def holds_some_of(self, spans: Mapping[int, tuple[int, int]]) -> bool:
        return any(
            self.partitions[0] <= partition <= self.partitions[1]
            and first <= self.offsets[1]
            and self.offsets[0] < end
            for partition, (first, end) in spans.items()
        )


class FileExtents:
    def __init__(self, topic: str, list_files: Callable[[], Sequence[str]]) -> None:
        """``list_files``: all of an archive, of one moment."""
        self._topic = topic
        self._list_files = list_files
        #: None for a file: its footer does not say
        self._ranges: dict[str, list[_Range] | None] | None = None

    def files_with(self, spans: Mapping[int, tuple[int, int]]) -> list[str]:
        """By partition: from where and up to where, exclusive. Files may hold other offsets as well."""
        for _ in range(_LOOKS_MAX):
            try:
                if self._ranges is None:
                    self._ranges = self._looked_up()
            except FileNotFoundError:
                continue
            found = [
                path
                for path, ranges in self._ranges.items()
                if ranges is None or any(each.holds_some_of(spans) for each in ranges)
            ]
            if all(map(os.path.exists, found)):
                return found
            self._ranges = None
        raise FileNotFoundError("files of the archive vanish as soon as they are found")

    def _looked_up(self) -> dict[str, list[_Range] | None]:
        paths = [path for path in self._list_files() if self._may_be_of_topic(path)]
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return dict(zip(paths, pool.map(_ranges_of, paths), strict=True))

    def _may_be_of_topic(self, path: str) -> bool:
        topics = [part for part in path.split("/") if part.startswith("topic=")]
        return not topics or topics[-1] == f"topic={self._topic}"


def files_below(path: str) -> list[str]:
    """As Spark finds them: without what begins with an underscore or a dot."""
    return sorted(_parquet_files(path))


def has_files_below(path: str) -> bool:
    return next(_parquet_files(path), None) is not None


def _parquet_files(path: str) -> Iterator[str]:
    for parent, directories, names in os.walk(path):
        directories[:] = [each for each in directories if not each.startswith(("_", "."))]
        yield from (
            f"{parent}/{name}"
            for name in names
            if name.endswith(".parquet") and not name.startswith(("_", "."))
        )


def _ranges_of(path: str) -> list[_Range] | None:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    footer = pq.read_metadata(path)
    found = [_range_of(footer.row_group(number)) for number in range(footer.num_row_groups)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _range_of(row_group: Any) -> _Range | None:
    columns = [row_group.column(index) for index in range(row_group.num_columns)]
    sides = [_sides(columns, name) for name in ("partition", "offset")]
    return None if sides[0] is None or sides[1] is None else _Range(sides[0], sides[1])


def _sides(columns: Iterable[Any], name: str) -> tuple[int, int] | None:
    for column in columns:
        if column.path_in_schema == name:
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max:
                return int(statistics.min), int(statistics.max)
    return None
