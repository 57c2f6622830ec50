"""What a query costs that has nothing to do, beside Spark's rate source: `python -m bench.pipeline.idle`.

Spark looks for work at every trigger. Three ways to say what that takes:

- the look itself, of a query without a trigger of its own, which looks, sleeps for 10 ms and looks again.
  Spark tells it in whole milliseconds (`durationMs.triggerExecution`), differences of two readings of a
  clock: each is wrong by up to one, but not on average, so the mean is finer than that.
- from one such look to the next, with everything around it: as whoever runs the query sees it.
- a whole trigger of a query that looks once a second, as idle ones should.

The rate source asks nobody: it reads the clock, in the JVM. But it never has nothing to do for longer than a
second: then there is a batch, here of no rows. Looks that found one are not in the first two figures; of the
third they are all there is. A source in Python that does nothing at all stands beside them: what Spark takes
to ask Python, and so the least that ours could. That alone is more than twice the rate source, so the bar of
the first figure is out of reach, and is held up all the same: it says how far.

    python -m bench.pipeline.idle [--record]      the rounds are added to docs/evidence/pipeline.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from bench.ending import end_on_sigterm
from bench.figure import Figure, show
from bench.pipeline import works
from bench.pipeline.nothing import NothingDataSource
from bench.pipeline.rounds import Rounds, recorded_rounds
from bench.pipeline.works import Side
from quorate.testing import AsyncLocalCluster

__all__ = ["idle_figures"]

_BAR: Final = 2.0
_ROUNDS: Final = 3
#: the first ones are the JVM's, which compiles what it runs
_WARM_UP: Final = 100
_LOOKS: Final = 300
_INTERVAL_WARM_UP: Final = 2
_INTERVALS: Final = 6
_TIMEOUT_S: Final = 60.0
#: some hundred readings of a clock of milliseconds tell no less
_TOLD_MS_MIN: Final = 0.01
_CHECK_EVERY_S: Final = 1


class _Idle(NamedTuple):
    looking_ms: float
    period_ms: float
    interval_ms: float


async def run(recorded: Rounds) -> list[Figure]:
    async with AsyncLocalCluster(3) as ours:
        async with ours.admin() as admin:
            await admin.create_topic("idle", partitions=works.PARTITIONS, replication_factor=3)
        return await asyncio.to_thread(_in_spark, Side("quorate", ours.bootstrap), recorded)


def _in_spark(side: Side, recorded: Rounds) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        spark = works.open_spark([], Path(directory))
        try:
            return idle_figures(spark, side, Path(directory), recorded)
        finally:
            spark.stop()


def idle_figures(spark: SparkSession, side: Side, directory: Path, recorded: Rounds) -> list[Figure]:
    """Of the topic `idle`; in turns, medians."""
    spark.dataSource.register(NothingDataSource)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).option("rampUpTime", "3600s")
    frames = {
        side.format: works.idle_frame(spark, side, "idle"),
        "rate": rate.load(),
        "nothing": spark.readStream.format("nothing").load(),
    }
    found: dict[str, list[_Idle]] = {name: [] for name in frames}
    for number in range(_ROUNDS):
        for name, frame in frames.items():
            checkpoint = directory / f"idle-{name}-{number}"
            measured = works.patiently(lambda frame=frame, at=checkpoint: _measure(frame, at))  # type: ignore[misc]
            found[name].append(measured)
            told = {figure: round(value, 3) for figure, value in measured._asdict().items()}
            recorded.add(round=number + 1, work="idle", side=name, **told)
    ours, rate_source, nothing = (
        _Idle(*map(statistics.median, zip(*each, strict=True))) for each in found.values()
    )

    def figure(name: str, which: str) -> Figure:
        ours_ms, rate_ms, nothing_ms = (float(getattr(each, which)) for each in (ours, rate_source, nothing))
        detail = (
            f"{ours_ms:.2f} ms beside {rate_ms:.2f} ms of the rate source; a source in Python that does "
            f"nothing: {nothing_ms:.2f} ms"
        )
        return Figure.at_most(name, ours_ms / max(rate_ms, _TOLD_MS_MIN), "x", _BAR, detail)

    return [
        figure("a look that finds nothing", "looking_ms"),
        figure("from such a look to the next", "period_ms"),
        figure("a trigger with nothing to do, one a second", "interval_ms"),
    ]


def _measure(frame: DataFrame, checkpoint: Path) -> _Idle:
    looks = _observe(frame, checkpoint / "looks", "0 seconds", _WARM_UP, _LOOKS)
    intervals = _observe(frame, checkpoint / "intervals", "1 second", _INTERVAL_WARM_UP, _INTERVALS)
    periods_ms = [
        (_began_s(after) - _began_s(before)) * 1000
        for before, after in itertools.pairwise(looks)
        if _is_look(before)
    ]
    return _Idle(
        looking_ms=_mean([_took_ms(each) for each in looks if _is_look(each)]),
        period_ms=_mean(periods_ms),
        interval_ms=statistics.median(_took_ms(each) for each in intervals),
    )


def _observe(
    frame: DataFrame, checkpoint: Path, interval: str, warm_up: int, wanted: int
) -> list[StreamingQueryProgress]:
    """Spark has to tell of every trigger, also of those without data."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=interval).start()
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while True:
            found = query.recentProgress[warm_up:]
            if len(found) >= wanted or time.monotonic() > deadline:
                assert len(found) > 1, f"no more than {warm_up} triggers in {_TIMEOUT_S:g} s"
                return found
            query.awaitTermination(_CHECK_EVERY_S)  # raises what has ended it
    finally:
        query.stop()


def _is_look(progress: StreamingQueryProgress) -> bool:
    """And nothing else: it has found no batch."""
    return "addBatch" not in progress.durationMs


def _took_ms(progress: StreamingQueryProgress) -> int:
    return progress.durationMs["triggerExecution"]


def _began_s(progress: StreamingQueryProgress) -> float:
    return datetime.fromisoformat(progress.timestamp).timestamp()


def _mean(found: Sequence[float]) -> float:
    """Without the twentieth at either end: the machine takes tens of milliseconds now and then.

    Not the middle half: of zeros and ones that would be zeros or ones.
    """
    cut = len(found) // 20
    return statistics.fmean(sorted(found)[cut : len(found) - cut])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.pipeline.idle", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="add the rounds to docs/evidence/pipeline.jsonl"
    )
    chosen = parser.parse_args()
    end_on_sigterm()
    figures = asyncio.run(run(recorded_rounds(is_recorded=chosen.record)))
    show("A query with nothing to do, beside Spark's rate source", figures)
    sys.exit(any(figure.passed is False for figure in figures))
