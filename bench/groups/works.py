"""The works by name, and all of them as `make bench` runs them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.figure import Figure
from bench.groups import commits, failover, rebalance

__all__ = ["WORKS", "Work", "figures", "parser"]


class Work(NamedTuple):
    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    #: shows what it measured, too
    run: Callable[[argparse.Namespace], list[Figure]]


WORKS: Final = {
    "rebalance": Work(rebalance.__doc__ or "", rebalance.add_arguments, rebalance.run),
    "commits": Work(commits.__doc__ or "", commits.add_arguments, commits.run),
    "failover": Work(failover.__doc__ or "", failover.add_arguments, failover.run),
}
#: with nothing to load, and with a thousand groups of ten partitions
_ALL: Final[Sequence[Sequence[str]]] = (
    ["rebalance"],
    ["commits"],
    ["failover"],
    ["failover", "--groups", "1000"],
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.groups")
    works = made.add_subparsers(dest="work", required=True)
    for name, work in WORKS.items():
        work.add_arguments(
            works.add_parser(
                name, description=work.about, formatter_class=argparse.RawDescriptionHelpFormatter
            )
        )
    return made


def figures() -> list[Figure]:
    found = []
    for words in _ALL:
        chosen = parser().parse_args(words)
        found += WORKS[chosen.work].run(chosen)
    return found
