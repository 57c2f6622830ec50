"""The process that runs plans: a job per line of standard input, an outcome per line of standard output.

    python -m quorate.chaos.campaign.worker WORLD SECONDS_MAX

A process of its own, because a run can spin for ever inside one callback, where nothing in Python can stop
it, or eat memory: then the process ends, and with it one seed and not the campaign. It guards itself, so
that it ends also when its parent was killed: a run beyond SECONDS_MAX prints where it stands and exits.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import resource
import sys
from typing import Final

from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.world import World, load_world

__all__ = ["main", "run_job"]

#: of private memory; far beyond any run that is in order
_MEMORY_BYTES_MAX: Final = 4 << 30
_GC_THRESHOLDS: Final = (20_000, 20, 20)


def main(world_name: str, seconds_max: float) -> None:
    """Until standard input ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    # Whatever else prints must not get between the outcomes.
    outcomes = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    world = load_world(world_name)
    # A twelfth of the time went into looking for garbage, mostly in what stays until the run is over.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    for line in sys.stdin:
        faulthandler.dump_traceback_later(seconds_max, exit=True)
        outcome = run_job(world, Job.from_json(json.loads(line)))
        faulthandler.cancel_dump_traceback_later()
        answer = {**outcome.to_json(), "memory_bytes": _memory_bytes()}
        outcomes.write(json.dumps(answer) + "\n")
        outcomes.flush()


def run_job(world: World, job: Job) -> RunOutcome:
    plan = world.draw(job.seed) if job.plan is None else job.plan
    if job.trace_path is None:
        return world.run(plan)
    with open(job.trace_path, "w", encoding="utf-8") as trace:
        return world.trace(plan, lambda line: trace.write(line + "\n"))


def _memory_bytes() -> int:
    """The most that the process ever had in memory.

    On Linux not by ``getrusage``: a process inherits the peak of whoever forked it, a test's that is full of
    libraries for instance, and would be worn out before its first run.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            peak = next(line for line in status if line.startswith("VmHWM:"))
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts in bytes
    return int(peak.split()[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
