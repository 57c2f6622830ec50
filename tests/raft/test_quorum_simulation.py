"""The real driver, journal and transport through storms of faults: nothing that was acknowledged is lost."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from quorate.chaos.models.quorum.quorum_storm import run_storm

SEEDS_PER_CHUNK = 15
CHUNKS = 2

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def _quiet_logs() -> Iterator[None]:
    """Every storm is full of news."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_acknowledged_changes_survive_reads_are_current_and_states_are_equal(chunk: int) -> None:
    counters: Counter[str] = Counter()
    for seed in range(1 + chunk * SEEDS_PER_CHUNK, 1 + (chunk + 1) * SEEDS_PER_CHUNK):
        try:
            counters += run_storm(seed)[0]
        except BaseException as error:
            error.add_note(f"seed {seed}: quorate.chaos.models.quorum.quorum_storm.run_storm({seed})")
            raise
    _check_that_it_happened(counters)


def _check_that_it_happened(counters: Counter[str]) -> None:
    floors = {
        "acknowledged": 800,
        "reads": 200,
        "restarts": 100,
        "terms": 50,
        "installs": 10,
        "crashes": 10,
        "power_losses": 10,
        "ambushes": 4,
        "partitions": 4,
        "sync_failures": 4,
        "damaged_tails": 4,
        "wipes": 4,
        "voters_added": 4,
        "repairs": 8,
    }
    missed = {name: counters[name] for name, floor in floors.items() if counters[name] < floor}
    assert not missed, f"too few of {missed} in {dict(counters)}"


def test_same_seed_gives_the_same_history_in_another_process() -> None:
    # Another hash seed orders sets and dicts of strings differently: nothing may depend on that.
    code = "from quorate.chaos.models.quorum.quorum_storm import run_storm; print(run_storm(4)[1])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()[-1]
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
