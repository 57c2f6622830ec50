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

from bench import codec, image, log, quorum
from bench.figure import Figure, show
from quorate.core.records import CODEC

BENCHMARKS: Final[dict[str, tuple[str, Callable[[], list[Figure]]]]] = {
    "codec": (f"The record batch ({CODEC} codec)", codec.run),
    "log": ("The partition log", lambda: asyncio.run(log.run())),
    "quorum": ("The metadata quorum", lambda: asyncio.run(quorum.run())),
    "image": ("A hundred thousand partitions", lambda: asyncio.run(image.run())),
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
    figures = []
    for name in names:
        title, run = BENCHMARKS[name]
        measured = run()
        show(title, measured)
        figures += measured
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
