"""Every benchmark, or those that are named: `make bench`, `make bench ARGS=codec`.

Exit status 1 when a bar is missed. On a busy machine that says little: the figures are ratios taken in turns
within one run, which noise disturbs less than rates, but it disturbs them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Final

from bench import codec, image, log, metrics, quorum
from bench.cluster import beside
from bench.ending import end_on_sigterm
from bench.figure import Figure, show
from bench.groups import works as groups
from quorate.core.records import CODEC


def _shown(title: str, run: Callable[[], list[Figure]]) -> Callable[[], list[Figure]]:
    def run_and_show() -> list[Figure]:
        measured = run()
        show(title, measured)
        return measured

    return run_and_show


#: each shows what it measured
BENCHMARKS: Final[dict[str, Callable[[], list[Figure]]]] = {
    "codec": _shown(f"The record batch ({CODEC} codec)", codec.run),
    "log": _shown("The partition log", lambda: asyncio.run(log.run())),
    "quorum": _shown("The metadata quorum", lambda: asyncio.run(quorum.run())),
    "image": _shown("A hundred thousand partitions", lambda: asyncio.run(image.run())),
    "cluster": beside.figures,
    "groups": groups.figures,
    "metrics": _shown("Metrics of a thousand groups", lambda: asyncio.run(metrics.run())),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of: {', '.join(BENCHMARKS)}; default: all"
    )
    names = parser.parse_args(arguments).names or list(BENCHMARKS)
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    end_on_sigterm()
    figures: list[Figure] = []
    for name in names:
        figures += BENCHMARKS[name]()
    return conclude(figures)


def conclude(figures: Sequence[Figure]) -> int:
    with_bar = [figure for figure in figures if figure.passed is not None]
    missed = [figure.name for figure in with_bar if not figure.passed]
    print(f"bench: {len(with_bar) - len(missed)} of {len(with_bar)} bars met")
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
