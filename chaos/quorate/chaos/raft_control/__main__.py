"""Shows what the control measures: python -m quorate.chaos.raft_control [PART] --help."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Sequence

import click

from quorate.chaos.raft_control.damage import flip_bits_of_a_journal, start_on_a_torn_dump
from quorate.chaos.raft_control.kill_all import kill_all_repeatedly
from quorate.chaos.raft_control.latency import measure_commit_latencies
from quorate.chaos.raft_control.scenarios import SCENARIOS
from quorate.chaos.raft_control.syncs import SYNC_CALLS, count_syncs, is_strace_here
from quorate.chaos.raft_control.world import Verdict, run_own, run_stock


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Stock pysyncobj, caught. Without a part: all of them, about two minutes."""
    if context.invoked_subcommand is None:
        for part in (seeds, damage, syncs, kill, latency):
            context.invoke(part)


@main.command()
@click.option("--count", default=60, show_default=True, help="Seeds of each scenario.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
def seeds(count: int, first: int) -> None:
    """In simulation: pysyncobj and our own core in the same stories, under the same invariants."""
    for scenario in SCENARIOS:
        click.echo(f"{scenario.name}: {scenario.about}")
        for name, run in (("pysyncobj", run_stock), ("our core", run_own)):
            _show_verdicts(name, [run(seed, scenario) for seed in range(first, first + count)])


def _show_verdicts(name: str, verdicts: Sequence[Verdict]) -> None:
    red = sum(verdict.is_red for verdict in verdicts)
    broken = sum(verdict.is_broken for verdict in verdicts)
    lost = sum(verdict.lost for verdict in verdicts)
    acknowledged = sum(verdict.acknowledged for verdict in verdicts)
    click.echo(
        f"  {name}: {red} of {len(verdicts)} seeds break an invariant, {broken} lose or split what clients "
        f"see; {lost:,} of {acknowledged:,} acknowledged commands lost"
    )
    invariants = Counter(verdict.violation.invariant for verdict in verdicts if verdict.violation is not None)
    for invariant, count in invariants.most_common():
        click.echo(f"    {count:4}  {invariant}")


@main.command()
def damage() -> None:
    """A bit flipped in the journal; half a dump."""
    flips = flip_bits_of_a_journal()
    click.echo(
        f"journal: {flips.flips:,} bits flipped, one at a time: {flips.believed:,} times other entries are "
        f"read than were written, without a word; {flips.refused:,} times it does not open"
    )
    torn = start_on_a_torn_dump()
    click.echo(
        f"dump cut in half: the voter starts, knows {torn.known_to_the_voter} of {torn.acknowledged} "
        f"acknowledged commands, and {'leads' if torn.has_led else 'follows'}"
    )


@main.command()
@click.option("--commands", default=200, show_default=True)
def syncs(commands: int) -> None:
    """System calls that make anything durable."""
    if not is_strace_here():
        click.echo("syncs: strace is not installed, so nobody can count them")
        return
    acknowledged, calls = asyncio.run(count_syncs(commands))
    counted = ", ".join(f"{calls[name]} {name}" for name in SYNC_CALLS)
    click.echo(f"syncs: {acknowledged} commands acknowledged by 3 voters with journals: {counted}")


@main.command()
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--seed", default=1, show_default=True)
def kill(seconds: float, seed: int) -> None:
    """Real processes under load, killed with SIGKILL all at once, again and again."""
    losses = asyncio.run(kill_all_repeatedly(for_s=seconds, seed=seed))
    click.echo(
        f"kill -9 of all, {losses.kills} times in {seconds:g} s: {losses.lost:,} of {losses.acknowledged:,} "
        f"acknowledged commands lost, {losses.diverged} of 3 voters with another state than the leader's"
    )


@main.command()
def latency() -> None:
    """Commit latency when it is tuned, without any sync."""
    latencies = asyncio.run(measure_commit_latencies())
    p50, p99 = statistics.median(latencies), statistics.quantiles(latencies, n=100)[98]
    click.echo(f"commit latency, tuned, nothing synced: p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms")


if __name__ == "__main__":
    main(prog_name="python -m quorate.chaos.raft_control")
