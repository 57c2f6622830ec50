"""Following a stream until it is done or somebody asks to stop, and saying how it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.progress import Progress, progress_of
from quorate.pipeline.jobs.stopping import Gate, StopRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from quorate.pipeline.jobs.config.base import StreamingConfig

__all__ = ["Job", "Outcome", "run_query", "run_stream"]

_LOOK_EVERY_S: Final = 0.2
#: Spark gives a worker of the source ten seconds to start, whatever else the machine has to do.
_TOO_BUSY: Final = "Python worker failed to connect back"
_STARTS_MAX: Final = 10


class Job(Protocol):
    """Whoever runs a job: shows what it says, and may ask it to stop."""

    @property
    def stop(self) -> StopRequest: ...

    def tell(self, line: str) -> None:
        """Something worth knowing."""

    def show(self, progress: Progress) -> None:
        """How far it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: int
    #: the job was asked to stop, and there may be more to do
    was_stopped: bool


def run_stream(
    job: Job,
    frame: DataFrame,
    config: StreamingConfig,
    *,
    checkpoint: str,
    on_batch: Callable[[DataFrame, Batch], None],
    output_mode: str = "append",
) -> Outcome:
    """``on_batch`` may be called again with a batch that it has seen, after a kill."""
    gate = Gate()

    def pass_gate(batch_frame: DataFrame, number: int) -> None:
        with gate.inside():
            query_id = batch_frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            assert query_id is not None, "Spark tells every batch whose it is"
            on_batch(batch_frame, Batch(query_id, number))

    writer = frame.writeStream.outputMode(output_mode).option("checkpointLocation", checkpoint)
    writer = writer.foreachBatch(pass_gate)
    triggered = (
        writer.trigger(availableNow=True)
        if config.is_once
        else writer.trigger(processingTime=f"{config.trigger_ms} milliseconds")
    )
    return run_query(job, triggered.start, config, gate)


def run_query(job: Job, start: Callable[[], StreamingQuery], config: StreamingConfig, gate: Gate) -> Outcome:
    from pyspark.errors import StreamingQueryException

    telling = _Telling(job, config.progress_interval_ms / 1000)
    for starts_left in reversed(range(_STARTS_MAX)):
        try:
            was_stopped = _follow(job, start(), telling, gate)
            break
        except StreamingQueryException as error:
            if _TOO_BUSY not in str(error) or not starts_left:
                raise
            gate.failure = None
            job.tell("the machine is too busy to start a worker in Spark's ten seconds: trying again")
    return Outcome(rows=telling.rows, was_stopped=was_stopped)


def _follow(job: Job, query: StreamingQuery, telling: _Telling, gate: Gate) -> bool:
    """To its end; whether it was stopped."""
    while not job.stop.is_asked and not _ends_within(query, _LOOK_EVERY_S):
        telling.look_at(query)
    was_stopped = query.isActive
    if was_stopped:
        job.tell("stopping: the batch that is being written is finished first")
        is_finished = gate.close(job.stop)
        with _silence(query):
            query.stop()
        if is_finished and gate.failure is not None:
            # It was not the stop that ended this batch: the next run would fail the same way.
            raise gate.failure
    else:
        # Raises what it died of: if that was since the last look, nobody has asked.
        query.awaitTermination()
    telling.look_at(query, is_last=True)
    return was_stopped


def _ends_within(query: StreamingQuery, seconds: float) -> bool | None:
    return query.awaitTermination(seconds)  # type: ignore[arg-type]  # says whole seconds, and takes parts


@contextmanager
def _silence(query: StreamingQuery) -> Iterator[None]:
    """Spark would report the batch that came too late; the session may be somebody else's as well."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None or not query.isActive:
        yield
        return
    context = session.sparkContext
    jvm = context._jvm  # noqa: SLF001 - PySpark sets the level, and does not tell it
    assert jvm is not None
    before = jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    context.setLogLevel("OFF")
    try:
        yield
    finally:
        context.setLogLevel(before)


class _Telling:
    """Each batch counts once; lines come at most so often, and what came in between is in the next one."""

    def __init__(self, job: Job, every_s: float) -> None:
        self._job = job
        self._looks_between = max(1, round(every_s / _LOOK_EVERY_S))
        self._looks_left = 0
        #: of the last batch that had rows, with the lag that was told last
        self._newest: Progress | None = None
        self._shown: Progress | None = None
        #: rows of the batches that Spark still tells of
        self._counted: dict[int, int] = {}
        self.rows = 0

    def look_at(self, query: StreamingQuery, *, is_last: bool = False) -> None:
        self._hear([progress_of(each) for each in query.recentProgress])
        self._looks_left -= 1
        if self._newest is None or self._newest == self._shown:
            return
        if is_last or self._looks_left <= 0:
            self._looks_left = self._looks_between
            self._shown = self._newest
            self._job.show(self._newest)

    def _hear(self, told: Sequence[Progress]) -> None:
        for each in told:
            self.rows += each.rows - self._counted.get(each.batch, 0)
            self._counted[each.batch] = each.rows
            # One without rows says how far it is, not how fast.
            of_batch = each if each.rows or self._newest is None else self._newest
            self._newest = replace(of_batch, lag=each.lag)
        for batch in list(self._counted)[: -len(told) or None]:
            del self._counted[batch]
        if self._newest is not None:
            self._newest = self._newest.adding_up_to(self.rows)
