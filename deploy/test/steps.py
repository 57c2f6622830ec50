"""Steps of a test: each is told when it begins and ends, timed, and recorded, also the one that fails."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.test.commands import say
from deploy.test.run_records import RunRecord, StepRecord

__all__ = ["Steps", "conclude"]


class Steps:
    def __init__(self) -> None:
        self.done: list[StepRecord] = []

    @asynccontextmanager
    async def step(self, name: str, what: str) -> AsyncIterator[list[str]]:
        """Gives a list for what was seen. What is raised inside fails the step, and goes on."""
        say(name, f"{what} …")
        told: list[str] = []
        began = time.monotonic()
        trouble: str | None = None
        try:
            yield told
        except BaseException as error:
            trouble = str(error) or type(error).__name__
            raise
        finally:
            seconds = round(time.monotonic() - began, 1)
            self.done.append(StepRecord(name, what, trouble, seconds, "; ".join(told)))
            say("", _verdict(self.done[-1]))

    def ended_by(self, error: Exception) -> None:
        """It ends them all; noted as a step of its own if it came from none."""
        if not any(each.trouble for each in self.done):
            self.done.append(StepRecord("between", "what is done between the steps", str(error), 0.0, ""))
            say("", _verdict(self.done[-1]))


def _verdict(step: StepRecord) -> str:
    verdict = "passed" if step.trouble is None else f"FAILED: {step.trouble}"
    return f"{verdict} after {step.seconds:.0f} s" + (f": {step.told}" if step.told else "")


def conclude(test: str, run: RunRecord, *, proved: str = "nothing acknowledged was lost") -> int:
    """Says how it ended; gives the exit status. ``proved``: what it means that all passed."""
    if run.failed:
        sys.stderr.write(f"{test} failed: {', '.join(run.failed)}\n")
        return 1
    seconds = sum(each.seconds for each in run.steps)
    say("done", f"{len(run.steps)} steps passed in {seconds:.0f} s; {proved}")
    return 0
