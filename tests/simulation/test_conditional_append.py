"""Conditional append is a compare-and-set: linearizable, whatever fails. What is not, is seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from quorate.chaos.checks.final_state import FinalState
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.run import _Run, compete_for_seed
from quorate.chaos.mutations.registry import find_mutation
from quorate.errors import Unavailable
from tests.mutants import assert_is_noticed
from tests.simulation.one_topic import append, append_at, keep_metadata_from, leader_of, simulate

SEEDS: Final = range(1, 25)


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_that_compete_for_the_end_of_a_log_cannot_tell_that_it_is_replicated(seed: int) -> None:
    report = compete_for_seed(seed)
    assert report.appended > 0
    assert report.mismatches > 0


@pytest.mark.parametrize("check", ["split-brain", "replicas-differ", "unclean-election"])
def test_what_is_found_in_a_run_of_competitors_alone_ends_it(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their history is another one; logs and metadata are judged as ever."""
    verdicts = _Run._verdicts

    def find(run: _Run, final: FinalState) -> list[Verdict]:
        return [
            replace(each, findings=("found",)) if each.check == check and each.examined else each
            for each in verdicts(run, final)
        ]

    monkeypatch.setattr(_Run, "_verdicts", find)
    with pytest.raises(Violation) as found:
        compete_for_seed(1)
    assert found.value.check == check


# -- leaders that do not know that they were replaced


def test_a_leader_resumed_from_a_pause_refuses_nothing_with_what_it_knew_before() -> None:
    assert _refusal_of_a_paused_leader() in ("BROKER_FENCED", "NOT_LEADER_OR_FOLLOWER")


def _refusal_of_a_paused_leader() -> str:
    async def scenario(cluster: SimCluster) -> str:
        assert await append(cluster, b"before") == 0
        leader = leader_of(cluster)
        leader.pause()
        refusal = asyncio.create_task(append_at(cluster, leader, expected_offset=0))
        assert await append(cluster, b"after") == 1
        leader.resume()
        return (await refusal).code

    return simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_leader_that_stops_and_has_not_heard_of_the_next_one_refuses_nothing(seed: int) -> None:
    assert _refusal_of_a_stopping_leader(seed) in ("BROKER_FENCED", "NOT_LEADER_OR_FOLLOWER", "gone")


@pytest.mark.parametrize("name", ["refusals-need-no-lease", "lease-is-kept-while-stopping"])
def test_a_lease_that_is_not_looked_at_is_found(name: str) -> None:
    """Rule 37."""
    assert_is_noticed(find_mutation(name))


def _refusal_of_a_stopping_leader(seed: int) -> str:
    async def scenario(cluster: SimCluster) -> str:
        assert await append(cluster, b"before") == 0
        leader = leader_of(cluster)
        keep_metadata_from(cluster, leader)
        stopping = asyncio.create_task(leader.stop())
        assert await append(cluster, b"after") == 1
        if not leader.is_running:
            return "gone"
        try:
            code = (await append_at(cluster, leader, expected_offset=0)).code
        except Unavailable:
            code = "gone"
        cluster.network.heal()
        await stopping
        return code

    return simulate(scenario, seed=seed)
