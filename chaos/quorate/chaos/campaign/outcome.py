"""How one simulated run ended; small enough to travel between processes as a line of JSON."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.sim.loop import SimulationStuck

__all__ = ["OUT_OF_TIME", "STUCK", "WORKER_DIED", "Failure", "RunOutcome", "failure_of"]

#: the simulated program waits for ever, spins, or is not done by its virtual time limit
STUCK: Final = "stuck"
#: the run took more real time than it may
OUT_OF_TIME: Final = "out-of-time"
#: the process that ran it ended in the middle of it
WORKER_DIED: Final = "worker-died"

_FRAMES: Final = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """``check``: by which of the promises it failed; two failures with the same one count as the same."""

    check: str
    message: str


@dataclass(frozen=True, slots=True)
class RunOutcome:
    seed: int
    #: None: everything held
    failure: Failure | None = None
    #: what happened in the run, by name, to show that something did
    counters: Mapping[str, int] = field(default_factory=dict)
    #: of all that the run did; the same wherever it is run again. Empty: it failed before there was one
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        failure = self.failure
        return {
            "seed": self.seed,
            "failure": failure and {"check": failure.check, "message": failure.message},
            "counters": dict(self.counters),
            "digest": self.digest,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> RunOutcome:
        failure = document["failure"]
        return RunOutcome(
            seed=document["seed"],
            failure=failure and Failure(failure["check"], failure["message"]),
            counters=document["counters"],
            digest=document["digest"],
        )


def failure_of(error: Exception) -> Failure:
    """A violation names its check and says all itself; anything else is named by what it is.

    The name is all that shrinking compares, so it must not contain what varies: numbers, offsets, times.
    """
    causes = list(_leaves(error))
    violation = next((cause for cause in causes if isinstance(cause, Violation)), None)
    if violation is not None:
        return Failure(violation.check, str(violation))
    if isinstance(causes[0], SimulationStuck):
        return Failure(STUCK, str(causes[0]))
    return Failure(type(causes[0]).__name__, _with_place(causes[0]))


def _leaves(error: Exception) -> Iterator[Exception]:
    """Task groups wrap what was raised in them, as often as they are nested."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _with_place(error: Exception) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
    return f"{type(error).__name__}: {error}\n{frames}".rstrip()
