"""What a worker is given to do, and how it travels there: a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.chaos.campaign.world import PlanDocument

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """A run of ``plan``, or of the one that ``seed`` draws; ``trace_path``: where to write what happens."""

    seed: int
    plan: PlanDocument | None = None
    trace_path: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "plan": self.plan, "trace_path": self.trace_path}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Job:
        return Job(**document)
