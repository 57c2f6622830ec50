"""Following a query: what is counted and told, what is tried again, and what a stop waits for."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, cast

import pytest

from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.running import run_query
from quorate.pipeline.jobs.stopping import Gate, StopRequest
from tests.unit.pipeline.archive_stand_in import Listener

errors = pytest.importorskip("pyspark.errors", reason="the extra spark is not installed")

_CONFIG = ArchiveConfig(topics=("t",), path="/p", progress_interval_ms=100)
_BUSY = "Python worker failed to connect back. SQLSTATE: XXKST"


def _report(batch: int, rows: int) -> dict[str, Any]:
    offsets = {"t": {"id": "x", "offsets": {"0": rows}}}
    sources = [{"endOffset": offsets, "latestOffset": offsets}]
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 1.0, "sources": sources}


class _Query:
    """Ends when its reports are told, with an error if it has one."""

    def __init__(self, *reports: dict[str, Any], error: str | None = None) -> None:
        self._left = list(reports)
        self._error = error
        self.recentProgress: list[dict[str, Any]] = []
        self.isActive = True
        self.was_stopped = False

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        if self._left:
            self.recentProgress.append(self._left.pop(0))
            return False
        self.isActive = False
        if self._error is not None:
            raise errors.StreamingQueryException(self._error)
        return True

    def stop(self) -> None:
        self.was_stopped = True
        self.isActive = False


def _behind(batch: int, rows: int, *, end: int, latest: int) -> dict[str, Any]:
    def offsets(offset: int) -> dict[str, Any]:
        return {"t": {"id": "x", "offsets": {"0": offset}}}

    sources = [{"endOffset": offsets(end), "latestOffset": offsets(latest)}]
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": rows / 2, "sources": sources}


def _run(job: Listener, *queries: _Query, gate: Gate | None = None) -> Any:
    left = iter(queries)
    return run_query(job, lambda: cast("Any", next(left)), _CONFIG, gate or Gate())


def test_rows_of_all_batches_are_counted_once_and_told() -> None:
    job = Listener()
    outcome = _run(job, _Query(_report(0, 10), _report(1, 5), _report(2, 0)))

    assert (outcome.rows, outcome.was_stopped) == (15, False)
    assert [each.rows_in_all for each in job.progress][-1] == 15


def test_news_that_comes_too_soon_for_a_line_is_told_when_it_is_time() -> None:
    job = Listener()
    config = replace(_CONFIG, progress_interval_ms=1000)
    reports = [
        _behind(0, 50, end=50, latest=120),
        _behind(1, 50, end=100, latest=120),
        _behind(2, 20, end=120, latest=120),
        # Nothing comes any more: Spark tells that now and then.
        *[_behind(3, 0, end=120, latest=120)] * 12,
    ]
    seen: list[list[str]] = []

    class Watched(_Query):
        def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
            seen.append([str(each) for each in job.progress])
            return super().awaitTermination(timeout)

    run_query(job, lambda: cast("Any", Watched(*reports)), config, Gate())
    first = "batch 0: 50 rows, 25/s, lag 70"
    assert seen[4] == [first], "a line a second at most"
    # Long before the end; and then nothing that is not news.
    assert seen[8] == seen[-1] == [first, "batch 2: 120 rows, 10/s, lag 0"]
    assert [str(each) for each in job.progress] == seen[-1]


def test_a_worker_that_could_not_start_in_time_is_no_reason_to_fail() -> None:
    job = Listener()
    outcome = _run(job, _Query(_report(0, 10), error=_BUSY), _Query(error=_BUSY), _Query(_report(1, 7)))

    assert outcome.rows == 17
    assert sum("too busy" in line for line in job.lines) == 2


def test_any_other_failure_is_told_and_so_is_a_machine_that_stays_busy() -> None:
    with pytest.raises(errors.StreamingQueryException, match="gone"):
        _run(Listener(), _Query(error="topic is gone"))
    with pytest.raises(errors.StreamingQueryException, match="connect back"):
        _run(Listener(), *(_Query(error=_BUSY) for _ in range(10)))


def test_asked_to_stop_it_closes_the_gate_before_it_stops_the_query() -> None:
    job, query = Listener(), _Query(_report(0, 10), _report(1, 10))
    seen: list[bool] = []

    class Watched(Gate):
        def close(self, stop: StopRequest) -> bool:
            seen.append(query.was_stopped)
            return super().close(stop)

    job.stop.ask()
    outcome = _run(job, query, gate=Watched())

    assert outcome.was_stopped
    assert seen == [False]
    assert query.was_stopped


def test_asked_to_stop_a_query_that_has_just_died_it_tells_what_of() -> None:
    job, query = Listener(), _Query(error="topic is gone")
    query.isActive = False
    job.stop.ask()
    with pytest.raises(errors.StreamingQueryException, match="gone"):
        _run(job, query)


def _failed_inside(gate: Gate) -> None:
    with gate.inside():
        raise OSError("the disk is full")


def test_a_batch_that_failed_while_it_was_waited_for_is_told() -> None:
    job, query, gate = Listener(), _Query(_report(0, 10), _report(1, 10)), Gate()
    with pytest.raises(OSError, match="disk is full"):
        _failed_inside(gate)
    job.stop.ask()
    with pytest.raises(OSError, match="disk is full"):
        _run(job, query, gate=gate)
    assert query.was_stopped


def test_of_a_failure_that_was_made_good_nothing_is_told() -> None:
    job, gate = Listener(), Gate()
    with pytest.raises(OSError, match="disk is full"):
        _failed_inside(gate)
    with gate.inside():
        pass
    job.stop.ask()
    assert _run(job, _Query(_report(0, 10)), gate=gate).was_stopped


def test_a_batch_that_a_second_request_interrupts_has_not_failed() -> None:
    job, gate = Listener(), Gate()
    job.stop.ask()
    job.stop.ask()
    with gate.inside():
        gate.failure = OSError("interrupted")
        assert _run(job, _Query(_report(0, 10)), gate=gate).was_stopped


def test_a_closed_gate_lets_no_batch_begin_and_waits_for_the_one_inside() -> None:
    gate, stop = Gate(), StopRequest()
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def batch() -> None:
        with gate.inside():
            began.set()
            may_end.wait()
            ended.set()

    writing = threading.Thread(target=batch)
    closing = threading.Thread(target=gate.close, args=[stop])
    writing.start()
    began.wait()
    closing.start()
    assert not ended.is_set()
    may_end.set()
    closing.join()
    writing.join()
    assert ended.is_set()
    with pytest.raises(RuntimeError, match="the next run does this batch"), gate.inside():
        pytest.fail("it was closed")


def test_asked_twice_it_waits_for_nobody() -> None:
    gate, stop = Gate(), StopRequest()
    stop.ask()
    stop.ask()
    with gate.inside():
        gate.close(stop)
