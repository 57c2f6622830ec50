"""One run again, in this process, where a debugger and a patch reach it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from quorate.console.output import print_json
from quorate.console.output_paths import refuse_path
from quorate.console.session import Session

if TYPE_CHECKING:
    from quorate.chaos.campaign.outcome import RunOutcome
    from quorate.chaos.campaign.world import PlanDocument, World

__all__ = ["print_outcome", "replay_plan", "replay_seed"]

_STANDARD_OUTPUT: Final = Path("-")
_EVENT: Final = "event: "


def replay_seed(session: Session, seed: int, *, world: str, trace_path: Path | None) -> int:
    from quorate.chaos.campaign.world import load_world

    loaded = load_world(world)
    return _replay(session, loaded, loaded.draw(seed), trace_path)


def replay_plan(session: Session, path: Path, *, world: str, trace_path: Path | None) -> int:
    from quorate.chaos.campaign.failing_seed import read_plan
    from quorate.chaos.campaign.world import load_world

    try:
        plan = read_plan(path)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} is neither a seed nor a plan: {error}") from None
    return _replay(session, load_world(world), plan, trace_path)


def _replay(session: Session, world: World, plan: PlanDocument, trace_path: Path | None) -> int:
    if trace_path is None:
        outcome = world.run(plan)
    else:
        with _writing_to(trace_path) as write:
            outcome = world.trace(plan, write)
    # A trace on standard output says itself how it ended.
    if trace_path != _STANDARD_OUTPUT:
        print_outcome(session, outcome)
    return 0 if outcome.failure is None else 1


@contextmanager
def _writing_to(path: Path) -> Iterator[Callable[[str], object]]:
    if path == _STANDARD_OUTPUT:
        yield lambda line: sys.stdout.write(line + "\n")
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        refuse_path(path, error, option="--trace")
    with file:
        yield lambda line: file.write(line + "\n")


def print_outcome(session: Session, outcome: RunOutcome) -> None:
    if session.json:
        print_json(outcome.to_json())
        return
    failure = outcome.failure
    happened = {name: count for name, count in outcome.counters.items() if count}
    events = [name for name in happened if name.startswith(_EVENT)]
    for name, count in happened.items():
        if name not in events:
            click.echo(f"{name.replace('_', ' ')}: {count}")
    if events:
        # Dozens, most of them the same in every run.
        click.echo(f"kinds of log events: {len(events)} (--output json counts each)")
    click.echo(f"digest: {outcome.digest}")
    if failure is None:
        click.echo(f"seed {outcome.seed} passed")
    else:
        click.echo(f"seed {outcome.seed} failed: {failure.check}\n{failure.message}", err=True)
