"""So many rows a second, evenly: not a burst and a pause.

Each task lets its rows pass one by one, when they are due. One that comes late is not made up for by a burst:
from then on it is counted anew. Spark passes rows from one process to the next in batches, which have to be
as small as what may go out at once.

The rows are let pass by a filter in Python that is always true, to which one column is shown: what works on
whole Arrow batches (`mapInArrow`) needs pandas, which nothing else here does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Pacing", "even", "small_batches", "tasks_for"]

#: Of a batch from one process to the next: into the filter, and into the sink.
_BATCH_ROWS: Final = (
    "spark.sql.execution.python.udf.maxRecordsPerBatch",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
)
#: what may go out at once, and what is not worth a sleep
_AT_ONCE_S: Final = 0.05
#: what one task surely writes in a second
_ROWS_PER_TASK: Final = 50_000


class Pacing:
    """Of one task, in whose process it is made anew."""

    def __init__(
        self,
        rows_per_s: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = 1 / rows_per_s
        self._now_s = now_s
        self._sleep = sleep
        self._due_s: float | None = None

    def __call__(self, _row: object) -> bool:
        """Returns when the row may pass."""
        now_s = self._now_s()
        if self._due_s is None:
            self._due_s = now_s
        early_s = self._due_s - now_s
        if early_s > min(_AT_ONCE_S, self._interval_s / 2):
            self._sleep(early_s)
        self._due_s = max(self._due_s, now_s - _AT_ONCE_S) + self._interval_s
        return True


def tasks_for(rows_per_s: int, partitions: int) -> int:
    """As few as can keep up: where rows are spread unevenly, each has its own share and no more."""
    return max(1, min(partitions, -(-rows_per_s // _ROWS_PER_TASK)))


def even(frame: DataFrame, *, rows_per_s: float) -> DataFrame:
    """``rows_per_s``: of each task."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType

    # Not deterministic: Spark asks it for each row, once, and where it stands.
    passes = f.udf(Pacing(rows_per_s), BooleanType(), useArrow=False).asNondeterministic()
    return frame.where(passes("timestamp"))


@contextmanager
def small_batches(spark: SparkSession, rows_per_s: int | None) -> Iterator[None]:
    """``rows_per_s``: None: as Spark has them."""
    usual: dict[str, str] = {}
    for name in () if rows_per_s is None else _BATCH_ROWS:
        # Not every version knows both.
        if found := spark.conf.get(name, None):
            usual[name] = found
    try:
        for name, rows in usual.items():
            assert rows_per_s is not None
            spark.conf.set(name, str(max(1, min(int(rows_per_s * _AT_ONCE_S), int(rows)))))
        yield
    finally:
        for name, rows in usual.items():
            spark.conf.set(name, rows)
