"""``quorate sim``: the system under simulated faults, as many seeds as asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.chaos.raft.counters import Counters
    from quorate.chaos.raft.runs import SeedResult

__all__ = ["sim"]


def _parse_seeds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> range | None:
    """``1..20000``, both inclusive."""
    if value is None:
        return None
    bounds = re.fullmatch(r"(\d+)\.\.(\d+)", value)
    if bounds is None or int(bounds[1]) > int(bounds[2]):
        raise click.BadParameter(f"{value!r} is not a range of seeds such as 1..1000")
    return range(int(bounds[1]), int(bounds[2]) + 1)


@click.group(cls=QuorateGroup)
def sim() -> None:
    """Run the real code in a simulated world, from a seed that replays."""


@sim.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run this one seed.")
@click.option(
    "--seeds", metavar="FIRST..LAST", callback=_parse_seeds, help="Run all of these (default 1..1000)."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    help="Processes that share them.",
)
@click.option("--trace", "with_trace", is_flag=True, help="Print every event of --seed.")
@click.option("--world", type=click.Choice(["quorum"]), default="quorum", help="What is simulated.")
@pass_session
def run(
    session: Session, *, seed: int | None, seeds: range | None, jobs: int, with_trace: bool, world: str
) -> int:
    """Run seeds until one fails. Exits 1 then, and says what failed and how to see it again.

    The quorum world: the metadata quorum's Raft core, three or five voters, on disks that lose what is not
    synced, links that drop, double and reorder, and processes that crash and pause.
    """
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if with_trace and seed is None:
        raise click.UsageError("--trace needs --seed: it prints every event")
    if with_trace:
        assert seed is not None
        return _print_trace(seed)
    chosen = seeds or (range(1, 1001) if seed is None else range(seed, seed + 1))
    return _run_all(session, chosen, jobs=min(jobs, len(chosen)), world=world)


def _run_all(session: Session, seeds: range, *, jobs: int, world: str) -> int:
    from quorate.chaos.raft.counters import Counters
    from quorate.chaos.raft.runs import failure_report, run_seeds

    total, passed = Counters(), 0
    failed: SeedResult | None = None
    is_interrupted = False
    try:
        with _progress(session, len(seeds)) as advance:
            for result in run_seeds(seeds, jobs=jobs):
                total.add(result.counters)
                if result.failure is not None:
                    failed = result
                    break
                passed += 1
                advance()
    except KeyboardInterrupt:
        is_interrupted = True
    _print_summary(session, total, passed=passed, failed=failed, is_interrupted=is_interrupted, world=world)
    if is_interrupted:
        return 130
    if failed is None:
        return 0
    click.echo(failure_report(failed), err=True)
    return 1


def _print_trace(seed: int) -> int:
    from quorate.chaos.raft.runs import replay

    replayed = replay(seed)
    for line in replayed.lines:
        click.echo(line)
    return 0 if replayed.failure is None else 1


def _print_summary(
    session: Session,
    total: Counters,
    *,
    passed: int,
    failed: SeedResult | None,
    is_interrupted: bool,
    world: str,
) -> None:
    if session.json:
        from quorate.console.output import print_json

        failure = None if failed is None else {"seed": failed.seed, "failure": failed.failure}
        counters = {name.replace(" ", "_"): count for name, count in total.rows()}
        print_json(
            {
                "world": world,
                "seeds_passed": passed,
                "failed": failure,
                "interrupted": is_interrupted,
                "counters": counters,
            }
        )
        return
    from quorate.console.output import print_table

    print_table(("COUNTER", "TOTAL"), total.rows())
    end = ", then it was interrupted" if is_interrupted else "" if failed is None else ", one failed"
    click.echo(f"{passed} seeds of the {world} world passed{end}")


@contextmanager
def _progress(session: Session, total: int) -> Iterator[Callable[[], None]]:
    if not session.shows_progress:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("seeds", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("seeds", total=total)
        yield lambda: progress.advance(task)
