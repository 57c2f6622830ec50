"""What the tests that run simulated seeds share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from quorate.chaos.campaign.failure_report import report_failure
from quorate.chaos.campaign.world import load_world

__all__ = ["run_seeds"]


def run_seeds(world_name: str, seeds: Iterable[int]) -> Counter[str]:
    """What happened in all of them together. The test fails with those that fail, and how to replay them."""
    world = load_world(world_name)
    total: Counter[str] = Counter()
    reports: list[str] = []
    for seed in seeds:
        outcome = world.run(world.draw(seed))
        total.update(outcome.counters)
        if outcome.failure is not None:
            reports += report_failure(outcome, world_name)
    if reports:
        pytest.fail("\n".join(reports), pytrace=False)
    return total
