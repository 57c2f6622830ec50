"""``quorate drill``: failures on purpose, on real processes, with a verdict for each promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.console.option_types import LOCAL_BROKERS, FiniteRange
from quorate.console.option_values import settings_option
from quorate.console.output import print_json, print_table
from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.chaos.faults.network import NetworkKind

__all__ = ["drill"]

_SECONDS_PER_MINUTE = 60.0


@click.group(cls=QuorateGroup)
def drill() -> None:
    """Break a real cluster under load, and check what it promised."""


@drill.command("list")
@pass_session
def list_drills(session: Session) -> None:
    """List the drills, what each shows and what it needs."""
    from quorate.chaos.drills.catalogue import STORIES
    from quorate.chaos.drills.control import CONTROL_NAME, CONTROL_SHOWS

    listed = [(each.name, each.shows, sorted(each.needs)) for each in STORIES]
    listed.append((CONTROL_NAME, CONTROL_SHOWS, []))
    if session.json:
        print_json([{"name": name, "shows": shows, "needs": needs} for name, shows, needs in listed])
        return
    rows = [(name, shows, ", ".join(needs) or None) for name, shows, needs in listed]
    print_table(("NAME", "SHOWS", "NEEDS A WAY TO"), rows)


@drill.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False), metavar="DIR")
@click.option(
    "--live",
    is_flag=True,
    help="Ask the cluster at --bootstrap what it holds: for a drill that was killed before it could.",
)
@pass_session
def check(session: Session, *, directory: str, live: bool) -> int:
    """Run the checks again over the history in a report's directory. Exits 1 if a promise was broken."""
    from quorate.console.drilling.runs import check_again

    return check_again(session, directory, is_live=live)


@drill.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option(
    "--seed", type=click.IntRange(min=0), help="Decides all that is left to chance; default: a new one."
)
@click.option(
    "--minutes",
    type=FiniteRange(min=0),
    default=1.0,
    show_default=True,
    help="How long each drill lasts. A round of faults that has begun is ended, and there is at least one.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where report.html, verdicts.json and history.jsonl go; default: a new folder in drill-reports.",
)
@click.option(
    "--agent",
    "agent_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Use your own cluster: the file says how its nodes are killed and started (examples/drill-agents).",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Use the local cluster in this folder, which `quorate up` runs; default: one made for the drill.",
)
@click.option(
    "--brokers",
    type=LOCAL_BROKERS,
    metavar="N",
    help="How many a cluster made for the drill has.",
)
@click.option(
    "--network",
    type=click.Choice(["namespaces", "proxy"]),
    help="How links are cut on this machine; default: namespaces where they are allowed (root).",
)
@click.option(
    "--rate",
    type=FiniteRange(min=1),
    default=500.0,
    show_default=True,
    metavar="PER_SECOND",
    help="How many records are written.",
)
@click.option("--record", is_flag=True, help="Add the result to docs/evidence, in a source checkout.")
@settings_option
@pass_session
def run(
    session: Session,
    *,
    names: tuple[str, ...],
    seed: int | None,
    minutes: float,
    report: str | None,
    agent_file: str | None,
    directory: str | None,
    brokers: int | None,
    network: NetworkKind | None,
    rate: float,
    record: bool,
    settings: dict[str, str],
) -> int:
    """Run drills, one after the other. Exits 1 if a promise was broken, and says which.

    Each has a cluster of its own on this machine, unless --dir or --agent names one. `quorate drill list`
    tells the names.
    """
    if agent_file is not None and directory is not None:
        raise click.UsageError("--agent and --dir exclude each other")
    if (agent_file or directory) and (brokers or settings or network):
        raise click.UsageError("--brokers, --set and --network are for a cluster that is made for the drill")
    from quorate.console.drilling.runs import RunOptions, run_drills

    options = RunOptions(
        seed=seed,
        seconds=minutes * _SECONDS_PER_MINUTE,
        report=report,
        agent_file=agent_file,
        directory=directory,
        brokers=brokers,
        network=network,
        records_per_s=rate,
        is_recorded=record,
        settings=settings,
    )
    return run_drills(session, names, options)
