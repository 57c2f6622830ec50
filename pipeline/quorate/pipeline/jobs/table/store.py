"""What a table has to be able to do, whatever its files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from quorate.pipeline.jobs.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TableStore"]


class TableStore(Protocol):
    """Used by one job at a time."""

    def open(self, topic_ids: dict[str, str]) -> None:
        """Undo what an earlier run left in the middle; refuse another topic than before."""

    @property
    def is_empty(self) -> bool:
        """Nothing was ever committed to it."""

    def end_of(self, partition: int) -> int:
        """How far the partition is in the table, exclusive; 0: not at all."""

    def apply(self, latest: DataFrame, ends: Mapping[int, int], batch: Batch) -> None:
        """All of it, and how far it reaches then, or nothing.

        ``latest`` has one row for each partition and key, newer than what the table has; its value is null
        where the key is deleted.
        """
