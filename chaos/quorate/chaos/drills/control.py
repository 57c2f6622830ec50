"""The control: the same kind of drill on a system that is known to lose what it acknowledged.

A drill that nothing fails proves nothing. Stock pysyncobj, three voters with journals on disk, killed all at
once under load again and again, has to be caught; a control that is not caught has found a drill gone blind.

It goes on for as long as it is given, caught or not: how many of its attempts are caught says how sharp the
drill is, which the first of them does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Progress
from quorate.chaos.raft_control.kill_all import Losses, kill_all_repeatedly
from quorate.chaos.raft_control.processes import VOTERS
from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj
from quorate.chaos.report.availability import availability_of
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.files import write_report
from quorate.chaos.report.this_machine import this_machine
from quorate.chaos.report.this_quorate import this_quorate
from quorate.errors import MissingExtra

__all__ = ["CONTROL_NAME", "CONTROL_SHOWS", "misfit_of_control", "run_control"]

CONTROL_NAME: Final = "control-pysyncobj"
CONTROL_SHOWS: Final = "the control: stock pysyncobj under kill -9 of all voters has to be caught losing"

#: while nothing is lost: what is needs a compaction under way, and that may take a while to meet
_UNCAUGHT_S_MIN: Final = 60.0
#: then it is looked whether anything is lost
_ATTEMPT_S: Final = 15.0
_FAULT: Final = "kill -9 of all voters of stock pysyncobj, the control"


def misfit_of_control() -> str | None:
    """Why it cannot be run; None: it can."""
    try:
        load_pysyncobj()
    except MissingExtra as error:
        return error.message
    return None


async def run_control(
    options: DrillOptions,
    progress: Progress,
    *,
    attempt_s: float = _ATTEMPT_S,
    now_s: Callable[[], float] = time.monotonic,
) -> DrillReport:
    """Attempt after attempt for the time that is given, and beyond it for a while if none was caught."""
    began, began_s = datetime.now(UTC), now_s()
    progress.tell(
        f"{CONTROL_NAME}: kill -9 of three voters, for {options.seconds:.0f} s and until it is caught"
    )
    attempts = await _attempts(options, progress, attempt_s, now_s)
    report = _report(options, began.strftime("%Y-%m-%d %H:%M:%S UTC"), now_s() - began_s, attempts)
    os.makedirs(options.directory, exist_ok=True)
    write_report(report, options.directory)
    return report


async def _attempts(
    options: DrillOptions, progress: Progress, attempt_s: float, now_s: Callable[[], float]
) -> list[Losses]:
    """Each from nothing; kills are few where the machine is busy."""
    began_s = now_s()
    found: list[Losses] = []
    while True:
        is_caught = any(each.is_caught for each in found)
        seconds = options.seconds if is_caught else max(options.seconds, _UNCAUGHT_S_MIN)
        left_s = began_s + seconds - now_s()
        if left_s <= 0:
            return found
        found.append(await kill_all_repeatedly(for_s=min(attempt_s, left_s), seed=options.seed + len(found)))
        progress.tell(f"attempt {len(found)}: {_told(found[-1])}")


def _told(losses: Losses) -> str:
    return f"{losses.kills} kills, {losses.lost:,} of {losses.acknowledged:,} acknowledged commands lost"


def _report(options: DrillOptions, began: str, seconds: float, attempts: Sequence[Losses]) -> DrillReport:
    kills = sum(each.kills for each in attempts)
    acknowledged = sum(each.acknowledged for each in attempts)
    lost = sum(each.lost for each in attempts)
    diverged = sum(each.diverged for each in attempts)
    return DrillReport(
        drill=CONTROL_NAME,
        shows=CONTROL_SHOWS,
        seed=options.seed,
        command=options.command,
        began=began,
        seconds=seconds,
        rounds=kills,
        verdicts=[_verdict(attempts)],
        availability=availability_of((), began_s=0.0, ended_s=seconds),
        faults=(),
        untimed_faults={_FAULT: kills},
        marks=(),
        lanes=(),
        outcomes={"acknowledged": acknowledged},
        records_read=acknowledged - lost,
        figures={
            "attempts, each from nothing": f"{len(attempts)}",
            "attempts that were caught": f"{sum(each.is_caught for each in attempts)}",
            "kill -9 of all voters": f"{kills} times",
            "acknowledged and lost": f"{lost:,} of {acknowledged:,}",
            "voters that differ from the leader": f"{diverged} of {VOTERS * len(attempts)}",
        },
        surroundings={
            "pysyncobj": version("pysyncobj"),
            "quorate": this_quorate(),
            **this_machine(),
        },
        # Its clients are processes of another system, which keep no ledger.
        has_history=False,
    )


def _verdict(attempts: Sequence[Losses]) -> Verdict:
    is_caught = any(each.is_caught for each in attempts)
    blind = "it lost nothing that it acknowledged, so this drill has shown nothing"
    return Verdict(
        "control",
        "lost-write",
        () if is_caught else (blind,),
        sum(each.acknowledged for each in attempts),
        found=0 if is_caught else 1,
        figures={
            "lost": sum(each.lost for each in attempts),
            "diverged": sum(each.diverged for each in attempts),
        },
    )
