"""Throughput, latency, processor time and memory as something grows, as plots in build/bench.

    python -m bench.growth                          everything, from the smallest size to the largest
    python -m bench.growth "idle connections"       one dimension
    python -m bench.growth --docs                   the plots of docs/performance.md, and what is behind them
    python -m bench.growth producers --sizes 1 2 --scale 0.1      only whether it runs

What is measured is kept in build/bench/growth.jsonl (with --docs: docs/evidence/growth.jsonl), and a run that
was interrupted goes on from there; ``--again`` forgets it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from pathlib import Path
from typing import Final

from bench.cluster.processes import ClientFailed
from bench.cluster.rounds import Rounds
from bench.ending import end_on_sigterm
from bench.growth.dimensions import DIMENSIONS, FIGURES, Dimension, measure
from bench.growth.plot import plot

_ROOT: Final = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="DIMENSION", help=", ".join(d.name for d in DIMENSIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", help="in place of the usual ones")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--docs", action="store_true", help="write the plots of docs/performance.md")
    arguments = parser.parse_args()
    chosen = [each for each in DIMENSIONS if not arguments.names or each.name in arguments.names]
    if len(chosen) < len(arguments.names):
        parser.error(f"there are: {', '.join(each.name for each in DIMENSIONS)}")
    end_on_sigterm()
    rounds, plots = _places(_ROOT, docs=arguments.docs)
    plots.mkdir(parents=True, exist_ok=True)
    if arguments.again:
        rounds.unlink(missing_ok=True)
    kept = Rounds(rounds)
    failures = 0
    for dimension in chosen:
        sizes = sorted(arguments.sizes or dimension.sizes)
        # Round by round: what the machine does meanwhile falls on all sizes alike.
        for number in range(arguments.rounds):
            for size in sizes:
                failures += _measure(dimension, size, number, arguments.scale, kept)
        _draw(dimension, sizes, kept, plots)
    return 1 if failures else 0


def _places(root: Path, *, docs: bool) -> tuple[Path, Path]:
    """The file of what was measured, and the folder of the plots."""
    if docs:
        return root / "docs" / "evidence" / "growth.jsonl", root / "docs" / "growth"
    return root / "build" / "bench" / "growth.jsonl", root / "build" / "bench"


def _measure(dimension: Dimension, size: int, number: int, scale: float, kept: Rounds) -> bool:
    """Whether it failed."""
    side = f"{dimension.name} {size}"
    if kept.has(side, number, dimension.name):
        return False
    try:
        found = asyncio.run(measure(dimension, size, scale))
    except (ClientFailed, TimeoutError) as error:
        print(f"{side}, round {number + 1}: {error}", file=sys.stderr)
        return True
    kept.add(side, number, dimension.name, found)
    told = ", ".join(f"{name} {values[0]:.4g} {FIGURES[name]}" for name, values in found.items())
    print(f"{side}, round {number + 1}: {told}", flush=True)
    return False


def _draw(dimension: Dimension, sizes: list[int], kept: Rounds, plots: Path) -> None:
    """What could not be measured at all is not drawn."""
    measured = kept.measures([f"{dimension.name} {size}" for size in sizes])
    drawn = [size for size in sizes if measured[f"{dimension.name} {size}"]]
    if not drawn:
        return
    figures = {
        name: [statistics.median(measured[f"{dimension.name} {size}"][name]) for size in drawn]
        for name in FIGURES
    }
    path = plots / f"growth-{dimension.name.replace(' ', '-')}.svg"
    path.write_text(plot(f"As the number of {dimension.name} grows", drawn, figures, FIGURES))
    print(f"written: {path}")


if __name__ == "__main__":
    sys.exit(main())
