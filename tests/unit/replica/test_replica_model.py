"""Random walks of leaders, followers and the controller: see ``replica_model``."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.chaos.models.replica_set.replica_model import walk


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_committed_records_are_on_every_replica_that_could_be_elected(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 20):
        counts += walk(seed, steps=300).counts
    for event in ("acknowledged", "truncated", "wiped disk", "process crash", "alter: done"):
        assert counts[event] > 0, f"the walks never got to: {event}"
