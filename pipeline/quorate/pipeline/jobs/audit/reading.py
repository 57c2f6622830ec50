"""Reading a table whole, and saying how far that is.

Spark tells of tasks, not of rows, until all are there. So on the way the lag is what the tasks that are not
done have of it, in equal parts.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

__all__ = ["Teller", "rows_of", "words"]

_LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Teller:
    """Whoever hears how an audit goes."""

    tell: Callable[[str], None]
    #: a line at most so often
    every_s: float = 10.0


def rows_of(
    frame: DataFrame, what: str, teller: Teller | None, *, here: int | None, later: int | None
) -> int:
    """All of it, which is read for that; how many rows it has.

    ``here``: how many there should be, about; ``later``: how many are read after it; None: not known.
    """
    if teller is None:
        return frame.count()
    began_s = time.monotonic()
    with _telling_of_tasks(frame.sparkSession.sparkContext, what, teller, here=here, later=later):
        rows = frame.count()
    teller.tell(words(what, rows, time.monotonic() - began_s, lag=later))
    return rows


def words(what: str, rows: int, took_s: float, *, lag: int | None) -> str:
    left = "lag unknown" if lag is None else f"lag {lag:,}"
    return f"{what}: {rows:,} rows, {rows / max(took_s, 1e-3):,.0f}/s, {left}"


@contextmanager
def _telling_of_tasks(
    context: SparkContext, what: str, teller: Teller, *, here: int | None, later: int | None
) -> Iterator[None]:
    group = f"audit-{uuid.uuid4().hex}"
    ended = threading.Event()

    def look() -> None:
        began_s = told_s = time.monotonic()
        while not ended.wait(_LOOK_EVERY_S):
            now_s = time.monotonic()
            if now_s - told_s < teller.every_s:
                continue
            done, tasks = _tasks_of(context, group)
            if done == tasks:
                # Nothing has begun, or what comes next is not known yet.
                continue
            told_s = now_s
            if here is None or later is None:
                teller.tell(f"{what}: {done} of {tasks} tasks done, lag unknown")
                continue
            rows = here * done // tasks
            teller.tell(f"about {words(what, rows, now_s - began_s, lag=here - rows + later)}")

    watching = threading.Thread(target=look, name=f"audit of {what}", daemon=True)
    context.setJobGroup(group, f"audit: {what}")
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # this is how it is unset


def _tasks_of(context: SparkContext, group: str) -> tuple[int, int]:
    """How many are done, and how many there are, of the stage that reads: the largest one."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(each) for job in jobs if job is not None for each in job.stageIds]
    # The next job of a query has the same stage again, to leave it out: of that nothing is done.
    known = [(each.numTasks, each.numCompletedTasks) for each in stages if each is not None]
    tasks, done = max(known, default=(0, 0))
    return done, tasks
