"""``quorate sim``: the real code under simulated faults, as many seeds as asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from quorate.console.commands.sim_mutants import mutants
from quorate.console.option_types import FiniteRange
from quorate.console.session import LocalGroup, Session, pass_session
from quorate.console.simulating.options import jobs_option, parse_seeds_option, world_option
from quorate.console.source_checkout import source_checkout

__all__ = ["sim"]


@click.group(cls=LocalGroup)
def sim() -> None:
    """Run the real code in a simulated world, from a seed that replays."""


@sim.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run this one seed.")
@click.option(
    "--seeds", metavar="FIRST..LAST", callback=parse_seeds_option, help="Run all of these (default 1..200)."
)
@jobs_option
@world_option
@click.option(
    "--failures-max",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Begin no more seeds when so many have failed.",
)
@click.option(
    "--failures-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("sim-failures"),
    show_default=True,
    help="Where each failing seed gets a folder: its plan, the plan shrunk, and a trace.",
)
@click.option(
    "--seed-seconds-max",
    type=FiniteRange(min=0, min_open=True),
    default=180.0,
    show_default=True,
    help="A seed that takes longer has failed.",
)
@click.option(
    "--shrink-seconds-max",
    type=FiniteRange(min=0),
    default=120.0,
    show_default=True,
    help="How long a failing plan is shrunk, by leaving out events; 0: not at all.",
)
@click.option("--record", is_flag=True, help="Append the result to docs/evidence of this checkout.")
@click.option(
    "--resume",
    is_flag=True,
    help="Run the first seeds that do not stand yet; with --target.",
)
@click.option("--target", type=click.IntRange(min=1), help="With --resume: until so many seeds stand.")
@click.option("--trace", "with_trace", is_flag=True, help="Print every event of --seed.")
@pass_session
def run(
    session: Session,
    *,
    seed: int | None,
    seeds: range | None,
    jobs: int,
    world: str,
    failures_max: int,
    failures_dir: Path,
    seed_seconds_max: float,
    shrink_seconds_max: float,
    record: bool,
    resume: bool,
    target: int | None,
    with_trace: bool,
) -> int:
    """Run seeds. Exits 1 if one fails, and says what failed and how to see it again.

    The cluster world: real controllers, brokers and clients on simulated time, disks and network, under the
    faults and operations that the seed draws. A failing plan is shrunk to the events that it takes to fail.

    The quorum world: the metadata quorum's Raft core alone, three or five voters.
    """
    from quorate.chaos.campaign.campaign import CampaignSettings
    from quorate.console.output_paths import check_directory
    from quorate.console.simulating.run_campaign import missing_seeds, run_campaign

    _check_usage(seed=seed, seeds=seeds, resume=resume, target=target, with_trace=with_trace)
    if with_trace:
        assert seed is not None
        from quorate.console.simulating.replaying import replay_seed

        return replay_seed(session, seed, world=world, trace_path=Path("-"))
    check_directory(failures_dir, option="--failures-dir")
    root = source_checkout() if record or resume else None
    chosen: Sequence[int] = seeds or (range(1, 201) if seed is None else range(seed, seed + 1))
    if target is not None:
        assert root is not None
        chosen = missing_seeds(root, world=world, target=target)
    settings = CampaignSettings(
        world=world,
        seeds=chosen,
        jobs=jobs,
        failures_max=failures_max,
        seed_seconds_max=seed_seconds_max,
        shrink_seconds_max=shrink_seconds_max,
        failures_dir=failures_dir,
    )
    return run_campaign(session, settings, record_to=root if record else None)


def _check_usage(
    *, seed: int | None, seeds: range | None, resume: bool, target: int | None, with_trace: bool
) -> None:
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if resume != (target is not None):
        raise click.UsageError("--resume and --target belong together: --resume --target 20000")
    if resume and (seed is not None or seeds is not None):
        raise click.UsageError("--resume chooses the seeds itself, without --seed and --seeds")
    if with_trace and seed is None:
        raise click.UsageError("--trace needs --seed: it prints every event")


@sim.command()
@click.argument("what", metavar="SEED|PLAN.json")
@world_option
@click.option(
    "--trace",
    "trace_path",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    help="Write what every node did to this file; - is standard output.",
)
@pass_session
def replay(session: Session, *, what: str, world: str, trace_path: Path | None) -> int:
    """Run one seed again, or a plan from a file, in this process. Exits 1 if it fails."""
    from quorate.console.simulating.replaying import replay_plan, replay_seed

    if what.isdecimal():
        return replay_seed(session, int(what), world=world, trace_path=trace_path)
    return replay_plan(session, Path(what), world=world, trace_path=trace_path)


@sim.command()
@world_option
@click.option("--target", type=click.IntRange(min=1), help="Exit 1 if fewer seeds stand.")
@click.option("--write", is_flag=True, help="Write docs/evidence/simulation.md anew from the records.")
@pass_session
def status(session: Session, *, world: str, target: int | None, write: bool) -> int:
    """Count the seeds that stand for these sources.

    A seed stands if its last recorded run on exactly these sources passed.
    """
    from quorate.console.simulating.standing import print_standing, write_page

    root = source_checkout()
    if write:
        write_page(root)
    return print_standing(session, root, world=world, target=target)


sim.add_command(mutants)
