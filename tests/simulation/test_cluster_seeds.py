"""Real controllers, brokers and clients on simulated time, disks and network, under faults from a seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quorate.chaos.cluster.run import run_seed

SEEDS = range(1, 55)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_whatever_fails(seed: int) -> None:
    report = run_seed(seed)
    assert report.acknowledged > 0
    assert report.read >= report.acknowledged


def test_a_seed_replays_in_another_process_with_another_hash_seed() -> None:
    code = "from quorate.chaos.cluster.run import run_seed; print(run_seed(3))"
    reports = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert reports[0] == reports[1]
    assert "digest" in reports[0]
