"""Following a stream until it is done or somebody asks to stop, and saying how it goes.

Asked to stop (SIGTERM, Ctrl-C), a batch that is being written is finished, and no other is begun. Were it
interrupted, nothing would be lost either, but done again. A second request does not wait.

A batch runs on a thread of Spark's. Between two of them only Spark decides when the next one begins, so each
passes a gate: whoever stops closes the gate when nobody is inside, and a batch that comes too late ends with
an error that leaves it to the next run. Returning without an error would count it as done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.progress import Progress, progress_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from quorate.pipeline.jobs.config.base import StreamingConfig

__all__ = ["Gate", "Job", "Outcome", "StopRequest", "run_query", "run_stream", "stopping_on_signals"]

_LOOK_EVERY_S: Final = 0.2
#: A batch that is being written is waited for so long, and interrupted then.
_LAST_BATCH_WITHIN_S: Final = 120.0
#: Spark gives a worker of the source ten seconds to start, whatever else the machine has to do.
_TOO_BUSY: Final = "Python worker failed to connect back"
_STARTS_MAX: Final = 10


class StopRequest:
    """Made by a signal, seen by whoever works."""

    def __init__(self) -> None:
        self._count = 0
        self._event = threading.Event()

    def ask(self) -> None:
        self._count += 1
        self._event.set()

    @property
    def is_asked(self) -> bool:
        return self._event.is_set()

    @property
    def is_urgent(self) -> bool:
        """Asked twice."""
        return self._count > 1

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


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


@contextmanager
def stopping_on_signals(stop: StopRequest) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask; in another thread than the main one nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
            job.tell("the machine is too busy to start a worker in Spark's ten seconds: trying again")
    return Outcome(rows=telling.rows, was_stopped=was_stopped)


def _follow(job: Job, query: StreamingQuery, telling: _Telling, gate: Gate) -> bool:
    """To its end; whether it was stopped."""
    while not job.stop.is_asked and not _ends_within(query, _LOOK_EVERY_S):
        telling.look_at(query)
    was_stopped = query.isActive
    if was_stopped:
        job.tell("stopping: the batch that is being written is finished first")
        gate.close(job.stop)
        # From here on Spark would report the batch that came too late.
        _silence(query)
        query.stop()
    telling.look_at(query, is_last=True)
    return was_stopped


def _ends_within(query: StreamingQuery, seconds: float) -> bool | None:
    return query.awaitTermination(seconds)  # type: ignore[arg-type]  # says whole seconds, and takes parts


def _silence(query: StreamingQuery) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None and query.isActive:
        session.sparkContext.setLogLevel("OFF")


class _TooLate(RuntimeError):
    """The job is being stopped: this batch is the next run's."""


class Gate:
    """Who is inside is waited for; once it is closed, nobody comes in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise _TooLate("the job is being stopped: the next run does this batch")
            yield

    def close(self, stop: StopRequest) -> None:
        waited_s = 0.0
        while not self._lock.acquire(timeout=_LOOK_EVERY_S):
            waited_s += _LOOK_EVERY_S
            if stop.is_urgent or waited_s > _LAST_BATCH_WITHIN_S:
                return
        self._is_closed = True
        self._lock.release()


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
