"""The quorum drills, one after the other, and a table: python -m quorate.chaos.quorum_drills [--help]."""

from __future__ import annotations

import sys
import time
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from quorate.chaos.quorum_drills.quorum_drill import QuorumDrillReport, QuorumFault, run_quorum_drill
from quorate.chaos.quorum_drills.quorum_faults import FAULTS
from quorate.node.interruption import INTERRUPTED_STATUS, run_interruptible

_CLIENTS: Final = 8
#: several are run with three voters and again with five
_NAMES: Final = tuple(dict.fromkeys(fault.name for fault in FAULTS))


def _choose(_context: click.Context, _parameter: click.Parameter, only: str) -> list[QuorumFault]:
    chosen = [fault for fault in FAULTS if only in fault.name]
    if not chosen:
        raise click.BadParameter(f"no drill's name contains {only!r}; there are: {', '.join(_NAMES)}")
    return chosen


@click.command(epilog=f"The drills: {', '.join(_NAMES)}.")
@click.option("--seconds", default=30.0, show_default=True, help="How long each drill lasts.")
@click.option("--seed", default=1, show_default=True, help="Of what the clients choose to do.")
@click.option("--only", "chosen", default="", callback=_choose, help="Only drills whose name contains this.")
def main(seconds: float, seed: int, chosen: list[QuorumFault]) -> None:
    """Real quorums of three and five voters under load, and all that must not make them forget anything."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        reports = [_drill(console, fault, seconds=seconds, seed=seed) for fault in chosen]
    except KeyboardInterrupt:
        console.print("interrupted; nothing of the drill is left behind", highlight=False)
        sys.exit(INTERRUPTED_STATUS)
    console.print(_table(reports))
    failed = [report for report in reports if not report.passed]
    for report in failed:
        console.print(str(report), highlight=False, markup=False)
    sys.exit(1 if failed else 0)


def _drill(console: Console, fault: QuorumFault, *, seconds: float, seed: int) -> QuorumDrillReport:
    name = f"{fault.name}, {fault.voters} voters"
    began = time.monotonic()
    with console.status(name) as status:
        report = run_interruptible(
            run_quorum_drill(
                [fault],
                seconds=seconds,
                clients=_CLIENTS,
                seed=seed,
                on_strike=lambda count: status.update(f"{name}: {count}"),
            )
        )
    verdict = "passed" if report.passed else "FAILED"
    console.print(f"{verdict}  {name}: {report.strikes} times in {time.monotonic() - began:.0f} s")
    return report


def _table(reports: list[QuorumDrillReport]) -> Table:
    checks = list(dict.fromkeys(check for report in reports for check in report.findings))
    table = Table(title="Quorum drills", title_justify="left")
    table.add_column("fault")
    for column in ("voters", "times", "changes", "unknown", "reads", "longest gap", *checks):
        table.add_column(column, justify="right")
    for report in reports:
        numbers = (report.voters, report.strikes, report.acknowledged, report.unknown, report.reads)
        verdicts = ("passed" if not report.findings[check] else "FAILED" for check in checks)
        counted = (f"{number:,}" for number in numbers)
        table.add_row(report.faults, *counted, f"{report.longest_gap_s:.2f} s", *verdicts)
    return table


if __name__ == "__main__":
    main(prog_name="python -m quorate.chaos.quorum_drills")
