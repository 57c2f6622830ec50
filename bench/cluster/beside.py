"""The whole comparison: runs it, shows the table, writes the plot."""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.cluster.comparison import Measures, Result, compare
from bench.cluster.lone_peers import NatsPeer, RedisPeer
from bench.cluster.plot import plot
from bench.cluster.quorate_peer import QuoratePeer
from bench.cluster.report import show_results
from bench.cluster.rounds import Rounds
from bench.cluster.table import markdown, write_into
from bench.cluster.turns import Side, take_turns
from bench.cluster.work import Work
from bench.cluster.works import WORKS, chosen_works
from bench.ending import end_on_sigterm
from bench.figure import Figure
from bench.peers.kafka import installation as kafka
from bench.peers.kafka.peer import KafkaPeer
from bench.peers.nats import installation as nats
from bench.peers.redis import installation as redis
from quorate.chaos.peers.peer import PeerUnavailable

__all__ = ["figures", "main", "run"]

ROUNDS: Final = 5
_ROOT: Final = Path(__file__).resolve().parents[2]
OUTPUT: Final = _ROOT / "build" / "bench"
PAGE: Final = _ROOT / "docs" / "performance.md"
_OURS: Final = "quorate"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster")
    parser.add_argument("works", nargs="*", metavar="WORK")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--without", nargs="+", default=[], choices=sorted(_OTHERS), metavar="SYSTEM")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the loads; 0.01 only shows that they run"
    )
    parser.add_argument("--resume", type=Path, help="a file: goes on from what it has, and adds to it")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/performance.md")
    chosen = parser.parse_args(arguments)
    end_on_sigterm()
    results, failures = run(
        chosen_works(chosen.works, chosen.scale),
        rounds=chosen.rounds,
        without=chosen.without,
        kept=Rounds(chosen.resume),
        page=PAGE if chosen.docs else None,
    )
    missed = [result.comparison.name for result in results if result.passed is False]
    return 1 if missed or failures else 0


def run(
    works: Sequence[Work],
    *,
    rounds: int = ROUNDS,
    without: Collection[str] = (),
    kept: Rounds | None = None,
    page: Path | None = None,
) -> tuple[list[Result], list[str]]:
    sides, versions = _sides(works, without)
    title = f"A cluster of three, {rounds} round{'s' if rounds > 1 else ''}"
    if versions:
        title += f", in turns with {', '.join(versions)}"
    measured, failures = asyncio.run(take_turns(sides, works, rounds, kept))
    results = [
        result
        for work in works
        for row in work.comparisons
        for result in compare([row], measured[_OURS], measured.get(row.against, {}))
    ]
    show_results(title, results, "theirs")
    for failure in failures:
        print(failure, file=sys.stderr)
    table = markdown(title, results, _OURS, measured)
    _write(title, results, measured, table)
    if page is not None:
        write_into(page, table)
    return results, failures


def _sides(works: Sequence[Work], without: Collection[str]) -> tuple[dict[str, Side], list[str]]:
    """Ours, and the others that can be had here and have something to do."""
    wanted = {row.against for work in works for row in work.comparisons}
    sides: dict[str, Side] = {_OURS: QuoratePeer}
    versions = []
    for name, (label, find) in _OTHERS.items():
        if name in without or name not in wanted:
            continue
        try:
            version, sides[name] = find()
        except PeerUnavailable as error:
            print(f"without {label}: {error}", file=sys.stderr)
        else:
            versions.append(f"{label} {version}")
    return sides, versions


def _kafka() -> tuple[str, Side]:
    found = kafka.install()
    return found.version, lambda: KafkaPeer(found)


def _nats() -> tuple[str, Side]:
    found = nats.install()
    return found.version, lambda: NatsPeer(found)


def _redis() -> tuple[str, Side]:
    found = redis.install()
    return found.version, lambda: RedisPeer(found)


_OTHERS: Final[Mapping[str, tuple[str, Callable[[], tuple[str, Side]]]]] = {
    "kafka": ("Apache Kafka", _kafka),
    "nats": ("NATS JetStream", _nats),
    "redis": ("Redis", _redis),
}


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


def _write(title: str, results: Sequence[Result], measured: Mapping[str, Measures], table: str) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = {"title": title, "machine": platform.platform(), "measured": measured}
    (OUTPUT / "cluster.json").write_text(json.dumps(document, indent=2) + "\n")
    (OUTPUT / "cluster.md").write_text(table)
    (OUTPUT / "cluster.svg").write_text(plot(title, results))
    print(f"written: {OUTPUT}/cluster.json, cluster.md and cluster.svg")
