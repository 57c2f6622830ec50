"""Spark on Quorate and on Kafka, in turns, on the same records: `python -m bench.pipeline`.

Both clusters have three nodes on this machine, and topics with six partitions and three replicas; Spark is
local[2]. Within every round each side does each work once; a figure is the ratio of the medians, so that
what else the machine does disturbs both; beside it stands the processor time of Spark, JVM and Python, which
that disturbs little. The first round warms up, and is not counted. Needs Java 17, and
Maven for Kafka and for Spark's Kafka source.

    python -m bench.pipeline [--rounds 3] [--share 1.0] [--record]

``--share 0.1`` takes a tenth of the records: less to wait for, and more of what a query costs by itself.
``--record`` adds what each round took to docs/evidence/pipeline.jsonl; round 0 is the one that warms up.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

try:
    from pyspark.sql import SparkSession
except ModuleNotFoundError:
    sys.exit("bench.pipeline needs Spark, which is not installed: `make spark` installs it")

from bench.ending import end_on_sigterm
from bench.figure import Figure, show
from bench.peers.kafka.installation import install as install_kafka
from bench.peers.kafka.peer import KafkaPeer
from bench.peers.spark_kafka.installation import install as install_spark_kafka
from bench.pipeline import works
from bench.pipeline.idle import idle_figures
from bench.pipeline.rounds import Rounds, recorded_rounds
from bench.pipeline.took import Took
from bench.pipeline.works import PARTITIONS, Load, Side
from quorate.testing import AsyncLocalCluster

LOADS: Final = (Load("100 B", 2_000_000, 100), Load("1 KB", 500_000, 1_000))
READ_BAR: Final = 1.0
WRITE_BAR: Final = 0.7

#: of each round, by work, load and format
Measured = dict[tuple[str, str, str], list[Took]]


async def run(rounds: int = 3, share: float = 1.0, recorded: Rounds | None = None) -> list[Figure]:
    loads = [each._replace(records=max(1, int(each.records * share))) for each in LOADS]
    installation, jars = install_kafka(), install_spark_kafka()
    async with KafkaPeer(installation) as kafka, AsyncLocalCluster(3) as ours:
        await kafka.start()
        async with ours.admin() as admin:
            for topic in [f"{load.records}-{n}" for load in loads for n in range(rounds + 1)] + ["idle"]:
                await kafka.create_topic(topic, PARTITIONS)
                await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        sides = (Side("quorate", ours.bootstrap), Side("kafka", kafka.bootstrap))
        return await asyncio.to_thread(_in_spark, jars, sides, loads, rounds, recorded or Rounds())


def _in_spark(
    jars: list[Path], sides: tuple[Side, Side], loads: list[Load], rounds: int, recorded: Rounds
) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        # In the thread that uses it: sources in Python are found by the session, and that by its thread.
        spark = works.open_spark(jars, Path(directory))
        try:
            return _measure(spark, sides, loads, rounds, Path(directory), recorded)
        finally:
            spark.stop()


def _measure(
    spark: SparkSession,
    sides: tuple[Side, Side],
    loads: list[Load],
    rounds: int,
    directory: Path,
    recorded: Rounds,
) -> list[Figure]:
    measured: Measured = defaultdict(list)
    for number in range(rounds + 1):
        for load in loads:
            found = _one_round(spark, sides, load, number, directory)
            for key, took in found.items():
                _record(recorded, number, load, key, took)
                if number:  # the first one warms up
                    measured[key].append(took)
    figures = [each for load in loads for each in _figures(measured, load)]
    return [*figures, *idle_figures(spark, sides[0], directory, recorded)]


def _record(recorded: Rounds, number: int, load: Load, key: tuple[str, str, str], took: Took) -> None:
    work, _, side = key
    recorded.add(
        round=number,
        work=work,
        records=load.records,
        value_bytes=load.value_bytes,
        side=side,
        seconds=round(took.seconds, 6),
        processor_s=round(took.processor_s, 2),
    )


def _one_round(
    spark: SparkSession, sides: tuple[Side, Side], load: Load, number: int, directory: Path
) -> dict[tuple[str, str, str], Took]:
    topic = f"{load.records}-{number}"
    # Who is first may find the machine in another state: they take turns.
    in_turn = sides if number % 2 else sides[::-1]
    found = {}
    for side in in_turn:
        found["write", load.name, side.format] = works.write_batch(spark, side, load, topic)
    assert works.check_same(spark, sides, topic) == load.records
    for side in in_turn:
        found["batch read", load.name, side.format] = works.read_batch(spark, side, topic)
    for side in in_turn:
        checkpoint = directory / f"{topic}-{side.format}"
        found["stream", load.name, side.format] = works.patiently(
            lambda side=side, checkpoint=checkpoint: works.read_stream(spark, side, topic, checkpoint)  # type: ignore[misc]
        )
    return found


def _figures(measured: Measured, load: Load) -> list[Figure]:
    figures = []
    for work, bar in (("batch read", READ_BAR), ("stream", READ_BAR), ("write", WRITE_BAR)):
        both = [measured[work, load.name, name] for name in ("quorate", "kafka")]
        ours, theirs = ([each.seconds for each in found] for found in both)
        rates = [f"{load.records / statistics.median(each):,.0f}/s" for each in (ours, theirs)]
        costs = [
            f"{statistics.median(each.processor_s for each in found) / load.records * 1e6:.1f}"
            for found in both
        ]
        spread = ", ".join(f"{b / a:.2f}" for a, b in zip(ours, theirs, strict=True))
        detail = (
            f"{' beside '.join(rates)}; rounds {spread}; Spark's processor {' beside '.join(costs)} us/row"
        )
        ratio = statistics.median(theirs) / statistics.median(ours)
        figures.append(Figure.against(f"{work}, {load.records:,} x {load.name}", ratio, "x", bar, detail))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument(
        "--record", action="store_true", help="add the rounds to docs/evidence/pipeline.jsonl"
    )
    chosen = parser.parse_args()
    end_on_sigterm()
    recorded = recorded_rounds(is_recorded=chosen.record)
    figures = asyncio.run(run(chosen.rounds, chosen.share, recorded))
    show("Spark on Quorate, beside Spark on Kafka", figures)
    sys.exit(any(figure.passed is False for figure in figures))
