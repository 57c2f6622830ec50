"""The whole comparison: runs it, shows the table, writes the plot."""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.cluster.comparison import Measures, Result, compare
from bench.cluster.plot import plot
from bench.cluster.quorate_peer import QuoratePeer
from bench.cluster.report import show_results
from bench.cluster.turns import Side, take_turns
from bench.cluster.works import WORKS, Work, chosen_works
from bench.ending import end_on_sigterm
from bench.figure import Figure
from bench.peers.kafka.installation import install
from bench.peers.kafka.peer import KafkaPeer
from quorate.chaos.peers.peer import PeerUnavailable

__all__ = ["figures", "main", "run"]

ROUNDS: Final = 3
OUTPUT: Final = Path(__file__).resolve().parents[2] / "build" / "bench"
_OURS: Final = "quorate"
_KAFKA: Final = "kafka"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster")
    parser.add_argument("works", nargs="*", metavar="WORK")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--without-kafka", action="store_true")
    chosen = parser.parse_args(arguments)
    end_on_sigterm()
    results, failures = run(
        chosen_works(chosen.works), rounds=chosen.rounds, without_kafka=chosen.without_kafka
    )
    missed = [result.comparison.name for result in results if result.passed is False]
    return 1 if missed or failures else 0


def run(
    works: Sequence[Work], *, rounds: int = ROUNDS, without_kafka: bool = False
) -> tuple[list[Result], list[str]]:
    sides: dict[str, Side] = {_OURS: QuoratePeer}
    title = f"A cluster of three, {rounds} round{'s' if rounds > 1 else ''}"
    if not without_kafka:
        try:
            installation = install()
        except PeerUnavailable as error:
            print(f"without Kafka: {error}", file=sys.stderr)
        else:
            sides[_KAFKA] = lambda: KafkaPeer(installation)
            title += f", in turns with Apache Kafka {installation.version}"
    measured, failures = asyncio.run(take_turns(sides, works, rounds))
    comparisons = [row for work in works for row in work.comparisons]
    results = compare(comparisons, measured[_OURS], measured.get(_KAFKA, {}))
    show_results(title, results, "Kafka")
    for failure in failures:
        print(failure, file=sys.stderr)
    _write(title, results, measured)
    return results, failures


def figures() -> list[Figure]:
    """Every work, as the benchmarks that have no other system beside them tell theirs."""
    results, failures = run(WORKS)
    return [
        *(_figure(result) for result in results),
        *(Figure(failure.partition("\n")[0], 0, "", None, False, "failed") for failure in failures),
    ]


def _figure(result: Result) -> Figure:
    row = result.comparison
    value = result.ours if row.is_absolute else result.ratio
    unit = row.unit if row.is_absolute else "x"
    return Figure(row.name, value or 0, unit, row.bar, result.passed, f"{result.ours} : {result.theirs}")


def _write(title: str, results: Sequence[Result], measured: Mapping[str, Measures]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = {"title": title, "machine": platform.platform(), "measured": measured}
    (OUTPUT / "cluster.json").write_text(json.dumps(document, indent=2) + "\n")
    (OUTPUT / "cluster.svg").write_text(plot(title, results))
    print(f"written: {OUTPUT}/cluster.json and cluster.svg")
