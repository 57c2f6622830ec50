"""Following a stream until it is done or somebody asks to stop, and saying how it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        # From here on Spark would report the batch that came too late.
        _silence(query)
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


def _silence(query: StreamingQuery) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None and query.isActive:
        session.sparkContext.setLogLevel("OFF")


class _Telling:
    """Each batch counts once; lines come at most so often."""

    def __init__(self, job: Job, every_s: float) -> None:
        self._job = job
        self._looks_between = max(1, round(every_s / _LOOK_EVERY_S))
        self._looks_left = 0
        self._shown: Progress | None = None
        #: rows of the batches that Spark still tells of
        self._counted: dict[int, int] = {}
        self.rows = 0

    def look_at(self, query: StreamingQuery, *, is_last: bool = False) -> None:
        news = [progress_of(each) for each in query.recentProgress]
        before = self.rows
        for each in news:
            self.rows += each.rows - self._counted.get(each.batch, 0)
            self._counted[each.batch] = each.rows
        for batch in list(self._counted)[: -len(news) or None]:
            del self._counted[batch]
        self._looks_left -= 1
        if not news or not (is_last or (self.rows > before and self._looks_left <= 0)):
            return
        self._looks_left = self._looks_between
        newest = news[-1].adding_up_to(self.rows)
        if newest != self._shown:
            self._shown = newest
            self._job.show(newest)
