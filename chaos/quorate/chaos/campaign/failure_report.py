"""What people are told of a run that failed, and how they see it again."""

from __future__ import annotations

import shlex

from quorate.chaos.campaign.outcome import RunOutcome

__all__ = ["replay_command", "report_failure"]


def replay_command(argument: str, world_name: str) -> str:
    """``argument``: a seed, or the path of a plan."""
    world = "" if world_name == "cluster" else f" --world {world_name}"
    return f"quorate sim replay {shlex.quote(argument)}{world}"


def report_failure(outcome: RunOutcome, world_name: str) -> list[str]:
    assert outcome.failure is not None
    return [
        f"seed {outcome.seed} of the {world_name} world failed: {outcome.failure.check}",
        *(f"  {line}" for line in outcome.failure.message.splitlines()),
        f"  replay it: {replay_command(str(outcome.seed), world_name)}",
    ]
