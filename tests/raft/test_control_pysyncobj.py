"""The control: the simulator's invariants catch stock pysyncobj, and pass our own core in the same stories.

If the first half fails, the checks have become blind, however green everything else is.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

import pytest

from quorate.chaos.raft_control import pysyncobj_package
from quorate.chaos.raft_control.damage import flip_bits_of_a_journal, start_on_a_torn_dump
from quorate.chaos.raft_control.latency import measure_commit_latencies
from quorate.chaos.raft_control.scenarios import SCENARIOS, Scenario
from quorate.chaos.raft_control.world import Verdict, run_own, run_stock, stock_world
from quorate.errors import MissingExtra

pytest.importorskip("pysyncobj", reason="the control needs the extra chaos")

# It leaves files open for the garbage collector to find.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SEEDS = range(6)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def names_of_invariants(verdicts: list[Verdict]) -> Counter[str]:
    return Counter(verdict.violation.invariant for verdict in verdicts if verdict.violation is not None)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_stock_pysyncobj_is_caught_by_the_invariants(scenario: Scenario) -> None:
    verdicts = [run_stock(seed, scenario) for seed in SEEDS]

    assert sum(verdict.violation is not None for verdict in verdicts) >= 5, names_of_invariants(verdicts)
    assert all(verdict.violation is not None for verdict in verdicts if verdict.is_broken)
    # Not for a detail: clients lose what they were promised, or read two truths.
    assert sum(verdict.is_broken for verdict in verdicts) >= 1
    assert sum(verdict.acknowledged for verdict in verdicts) > 200


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_our_own_core_stays_green_in_the_same_stories(scenario: Scenario) -> None:
    verdicts = [run_own(seed, scenario) for seed in SEEDS]

    assert [str(verdict.violation) for verdict in verdicts if verdict.violation is not None] == []
    assert [verdict for verdict in verdicts if verdict.is_broken] == []
    assert sum(verdict.acknowledged for verdict in verdicts) > 200


def test_a_seed_of_the_control_decides_everything() -> None:
    first, second = (run_stock(3, BY_NAME["reconnect"]) for _ in range(2))

    assert str(first.violation) == str(second.violation)
    assert (first.acknowledged, first.lost) == (second.acknowledged, second.lost)


def test_stock_pysyncobj_acknowledges_without_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *_arguments, name=name: synced.append(name))
    journal = pysyncobj_package.load_pysyncobj().journal
    monkeypatch.setattr(journal.ResizableFile, "flush", lambda _file: synced.append("msync"))

    with stock_world(0, has_files=True) as (world, _observer, _files):
        for voter in world.voters.values():
            voter.start()
        world.time.run_until(3.0)
        world.write(200)
        world.time.run_until(30.0)
        acknowledged = len(world.acknowledged)

    assert acknowledged == 200
    assert synced == []


def test_stock_pysyncobj_believes_a_damaged_journal() -> None:
    flips = flip_bits_of_a_journal(every=11)

    assert flips.believed > flips.flips // 2


def test_stock_pysyncobj_leads_on_half_a_snapshot_without_any_of_its_state() -> None:
    torn = start_on_a_torn_dump()

    assert torn.acknowledged == 20
    assert torn.known_to_the_voter == 0
    assert torn.has_led


async def test_real_processes_of_stock_pysyncobj_commit_when_asked_to() -> None:
    """What the benchmarks measure, and what is killed by hand, still runs."""
    assert len(await measure_commit_latencies(commands=20)) == 20


def test_without_pysyncobj_the_control_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "pysyncobj", None)
    pysyncobj_package.load_pysyncobj.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"quorate\[chaos\]"):
            pysyncobj_package.load_pysyncobj()
    finally:
        pysyncobj_package.load_pysyncobj.cache_clear()
