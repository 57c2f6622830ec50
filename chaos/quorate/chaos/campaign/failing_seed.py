"""What is kept of a seed that failed: a directory that somebody can look into, or send to somebody.

    plan.json     the run as its seed drew it
    failure.txt   what broke, and how to run it again
    shrunk.json   the same with as few events as it takes to fail
    trace.txt     what every node did in it, line by line, and how it ended

The first two are written as soon as the seed has failed, so that an interrupt does not lose them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from quorate.chaos.campaign.failure_report import replay_command, report_failure
from quorate.chaos.campaign.outcome import Failure, RunOutcome
from quorate.chaos.campaign.shrinking import Shrinking
from quorate.chaos.campaign.world import PlanDocument, World

__all__ = ["FailingSeed", "read_plan"]

_PLAN: Final = "plan.json"
_SHRUNK: Final = "shrunk.json"
_FAILURE: Final = "failure.txt"
_TRACE: Final = "trace.txt"


class FailingSeed:
    """Made when it has failed; writes at once."""

    def __init__(self, outcome: RunOutcome, world: World, *, world_name: str, under: Path) -> None:
        assert outcome.failure is not None
        self.seed = outcome.seed
        self.failure: Failure = outcome.failure
        self.directory = under / f"{world_name}-{outcome.seed}"
        self.plan = world.draw(outcome.seed)
        self.shrinking = Shrinking(world.events(self.plan))
        self._outcome = outcome
        self._world = world
        self._world_name = world_name
        self._last_run: RunOutcome | None = None
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in (_SHRUNK, _TRACE):
            (self.directory / name).unlink(missing_ok=True)  # of an earlier run
        _write_plan(self.directory / _PLAN, self.plan)
        self._tell()

    @property
    def trace_path(self) -> Path:
        return self.directory / _TRACE

    @property
    def candidate(self) -> PlanDocument | None:
        """What to run next, to see whether it fails too; None: it cannot be made smaller."""
        kept = self.shrinking.candidate
        return None if kept is None else self._only(kept)

    def judge(self, outcome: RunOutcome) -> None:
        """What came of the candidate."""
        failure = outcome.failure
        self.shrinking.judge(still_fails=failure is not None and failure.check == self.failure.check)

    @property
    def smallest(self) -> PlanDocument:
        """The smallest plan that is known to fail."""
        return self._only(self.shrinking.smallest)

    @property
    def _is_shrunk(self) -> bool:
        return len(self.shrinking.smallest) < len(self._world.events(self.plan))

    def keep_smallest(self) -> None:
        """As far as it was made smaller."""
        if self._is_shrunk:
            _write_plan(self.directory / _SHRUNK, self.smallest)
        self._tell()

    def keep_trace(self, outcome: RunOutcome) -> None:
        """It was written to ``trace_path``, and ended so."""
        self._last_run = outcome
        self._tell()

    def report(self) -> list[str]:
        """For people: what broke, and where to look."""
        events = len(self._world.events(self.plan))
        lines = report_failure(self._outcome, self._world_name)
        if self._is_shrunk:
            kept = len(self.shrinking.smallest)
            command = replay_command(self._path(_SHRUNK), self._world_name)
            lines.append(f"  with {kept} of its {events} events: {command}")
            lines += [f"    {line}" for line in self._world.describe(self.smallest)]
        if self._last_run is not None:
            lines += self._report_trace(self._last_run)
        return lines

    def _report_trace(self, outcome: RunOutcome) -> list[str]:
        lines = [f"  what every node did: {self._path(_TRACE)}"]
        check = None if outcome.failure is None else outcome.failure.check
        if check != self.failure.check:
            lines.append(
                f"  run again it ended otherwise ({check or 'everything held'}): something that the seed "
                "does not decide has leaked into the simulation, which is a bug of its own"
            )
        return lines

    def _path(self, name: str) -> str:
        return str(self.directory / name)

    def _only(self, kept: tuple[int, ...]) -> PlanDocument:
        left_out = [number for number in self._world.events(self.plan) if number not in kept]
        return self._world.without(self.plan, left_out)

    def _tell(self) -> None:
        (self.directory / _FAILURE).write_text("\n".join(self.report()) + "\n", encoding="utf-8")


def _write_plan(path: Path, plan: PlanDocument) -> None:
    path.write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")


def read_plan(path: Path) -> PlanDocument:
    """``ValueError`` if it is not one, whatever else is in the file."""
    plan = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(plan, dict) or not isinstance(plan.get("seed"), int):
        raise ValueError("not a plan: it has no seed")
    return plan
