"""``quorate sim mutants``: every safety rule switched off in turn, and found out."""

from __future__ import annotations

import click

from quorate.console.session import LocalCommand, Session, pass_session
from quorate.console.simulating.options import jobs_option
from quorate.console.source_checkout import source_checkout

__all__ = ["mutants"]


@click.command(cls=LocalCommand)
@click.option("--rule", type=click.IntRange(1, 66), help="Only mutations of this safety rule.")
@click.option("--name", "names", multiple=True, help="Only this mutation; can be given several times.")
@jobs_option
@click.option(
    "--seeds-max",
    type=click.IntRange(min=1),
    help="A mutation that is not noticed within so many seeds has survived (default: a bound for each).",
)
@click.option("--list", "lists_only", is_flag=True, help="List the mutations, and run none.")
@click.option(
    "--record",
    is_flag=True,
    help="Write docs/evidence/mutations.md of this checkout; with --name: what it says of these.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="With --record: only those that no recorded run has seen noticed, on the code as it is.",
)
@pass_session
def mutants(
    session: Session,
    *,
    rule: int | None,
    names: tuple[str, ...],
    jobs: int,
    seeds_max: int | None,
    lists_only: bool,
    record: bool,
    resume: bool,
) -> int:
    """Switch off safety rules, one at a time, and see who notices. Exits 1 if one is not noticed.

    A mutation changes the running code of this process and of those that it starts, and nothing else.
    """
    from quorate.console.simulating.mutants import (
        choose_mutations,
        list_mutations,
        record_by_themselves,
        run_mutations,
    )

    if record and (rule is not None or seeds_max is not None or (names and resume)):
        raise click.UsageError(
            "--record writes down a run of all mutations, or of some by --name: leave the other options out"
        )
    if resume and not record:
        raise click.UsageError("--resume goes on with a recorded run: --record --resume")
    chosen = choose_mutations(session, rule=rule, names=names)
    if lists_only:
        return list_mutations(session, chosen)
    root = source_checkout() if record else None
    if root is not None and names:
        return record_by_themselves(session, chosen, jobs=jobs, root=root)
    return run_mutations(session, chosen, jobs=jobs, seeds_max=seeds_max, record_to=root, is_resumed=resume)
