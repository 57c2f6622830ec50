"""Real controllers, brokers and clients on simulated time, disks and network, under faults from a seed."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.cluster.run import run_seed

SEEDS: Final = range(1, 151)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_whatever_fails(seed: int) -> None:
    report = run_seed(seed)
    assert report.acknowledged > 0
    assert report.read >= report.acknowledged
