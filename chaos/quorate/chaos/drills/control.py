"""The control: the same kind of drill on a system that is known to lose what it acknowledged.

A drill that nothing fails proves nothing. Stock pysyncobj, three voters with journals on disk, killed all at
once under load again and again, has to be caught; a control that is not caught has found a drill gone blind.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Progress
from quorate.chaos.raft_control.kill_all import Losses, kill_all_repeatedly
from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj
from quorate.chaos.report.availability import availability_of
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.files import write_report
from quorate.chaos.report.this_machine import this_machine
from quorate.errors import MissingExtra

__all__ = ["CONTROL_NAME", "CONTROL_SHOWS", "misfit_of_control", "run_control"]

CONTROL_NAME: Final = "control-pysyncobj"
CONTROL_SHOWS: Final = "the control: stock pysyncobj under kill -9 of all voters has to be caught losing"

#: less says nothing: what is lost needs a compaction under way
_SECONDS_MIN: Final = 60.0
#: then it is looked whether anything is lost
_ATTEMPT_S: Final = 15.0


def misfit_of_control() -> str | None:
    """Why it cannot be run; None: it can."""
    try:
        load_pysyncobj()
    except MissingExtra as error:
        return error.message
    return None


async def run_control(
    options: DrillOptions, progress: Progress, *, attempt_s: float = _ATTEMPT_S
) -> DrillReport:
    """It ends as soon as it is caught, and the report says when that was."""
    began, began_s = datetime.now(UTC), time.monotonic()
    seconds_max = max(options.seconds, _SECONDS_MIN)
    progress.tell(
        f"{CONTROL_NAME}: kill -9 of three voters at once, until it is caught or {seconds_max:.0f} s are over"
    )
    losses = await _until_caught(options.seed, seconds_max, attempt_s)
    seconds = time.monotonic() - began_s
    report = DrillReport(
        drill=CONTROL_NAME,
        shows=CONTROL_SHOWS,
        seed=options.seed,
        command=options.command,
        began=began.strftime("%Y-%m-%d %H:%M:%S UTC"),
        seconds=seconds,
        rounds=losses.kills,
        verdicts=[_verdict(losses)],
        availability=availability_of((), began_s=0.0, ended_s=seconds),
        faults=(),
        marks=(),
        lanes=(),
        outcomes={"acknowledged": losses.acknowledged},
        records_read=losses.acknowledged - losses.lost,
        figures={
            "kill -9 of all voters": f"{losses.kills} times",
            "acknowledged and lost": f"{losses.lost:,} of {losses.acknowledged:,}",
            "voters that differ from the leader": f"{losses.diverged} of 3",
        },
        surroundings={
            "pysyncobj": version("pysyncobj"),
            **this_machine(),
        },
        # Its clients are processes of another system, which keep no ledger.
        has_history=False,
    )
    os.makedirs(options.directory, exist_ok=True)
    write_report(report, options.directory)
    return report


async def _until_caught(seed: int, seconds: float, attempt_s: float) -> Losses:
    """Again and again from nothing, for that long; kills are few where the machine is busy."""
    end = time.monotonic() + seconds
    found = Losses(0, 0, 0, 0)
    while not found.is_caught and time.monotonic() < end:
        more = await kill_all_repeatedly(for_s=min(attempt_s, end - time.monotonic()), seed=seed)
        found = Losses(
            found.kills + more.kills,
            found.acknowledged + more.acknowledged,
            found.lost + more.lost,
            max(found.diverged, more.diverged),
        )
        seed += 1
    return found


def _verdict(losses: Losses) -> Verdict:
    blind = "it lost nothing that it acknowledged, so this drill has shown nothing"
    return Verdict(
        "control",
        "lost-write",
        () if losses.is_caught else (blind,),
        losses.acknowledged,
        found=0 if losses.is_caught else 1,
        figures={"lost": losses.lost, "diverged": losses.diverged},
    )
