"""Leaders that are moved by plan, and do not hear of it, answer nothing with what they knew before (rule 37).

The old leader's heartbeats get through, so it is not fenced, and metadata does not reach it for a while. Then
another one leads and commits; and a client that still knows the old one asks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import pytest

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.run import compete_for_seed
from quorate.chaos.mutations.registry import find_mutation
from quorate.chaos.sim.patch import Patch
from quorate.client.admin import AsyncAdmin
from tests.simulation.one_topic import append_at, is_leading, keep_metadata_from, simulate

#: in some of them the old leader follows the metadata of a controller that it cannot hear
SEEDS: Final = range(1, 7)

_NAME: Final = ("t", 0)

#: (admin, the leader's id, the other replicas' ids, the ids of all other brokers)
Plan = Callable[[AsyncAdmin, int, Sequence[int], Sequence[int]], Awaitable[object]]


async def reassign(admin: AsyncAdmin, _leader: int, others: Sequence[int], free: Sequence[int]) -> None:
    await admin.reassign_partitions({_NAME: [*others, *free]})


async def shrink(admin: AsyncAdmin, _leader: int, others: Sequence[int], _free: Sequence[int]) -> None:
    await admin.reassign_partitions({_NAME: others})


async def drain(admin: AsyncAdmin, leader: int, _others: Sequence[int], _free: Sequence[int]) -> None:
    await admin.drain_broker(leader)


async def prefer_another(admin: AsyncAdmin, leader: int, others: Sequence[int], _free: Sequence[int]) -> None:
    await admin.reassign_partitions({_NAME: [*others, leader]})
    await admin.elect_preferred_leaders()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("plan", [reassign, shrink, drain, prefer_another])
def test_a_leader_that_has_not_heard_of_a_planned_move_refuses_nothing(plan: Plan, seed: int) -> None:
    assert _refusal_of_the_old_leader(plan, seed) in ("BROKER_FENCED", "NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize("seed", range(1, 4))
def test_competing_clients_cannot_tell_that_replicas_and_leaders_are_moved(seed: int) -> None:
    report = compete_for_seed(seed, faults=(Fault.MOVE_REPLICAS, Fault.DRAIN))
    assert report.appended > 0
    assert report.mismatches > 0


@pytest.mark.parametrize("plan", [reassign, shrink])
def test_a_move_that_drops_the_leader_in_one_step_would_be_found(plan: Plan) -> None:
    with Patch() as patch:
        find_mutation("move-completes-in-one-step").apply(patch)
        assert "OFFSET_MISMATCH" in {_refusal_of_the_old_leader(plan, seed) for seed in SEEDS}


def _refusal_of_the_old_leader(plan: Plan, seed: int) -> str:
    async def scenario(cluster: SimCluster) -> str:
        [old] = await _leaders(cluster)
        assert not (await append_at(cluster, old)).code
        await _move(cluster, old, plan)
        new = await _next_leader(cluster, old)
        # A new leader epoch can begin at any moment, and leave an outcome unknown.
        while (await append_at(cluster, new)).code:
            await asyncio.sleep(0.001)
            new = await _next_leader(cluster, old)
        return (await append_at(cluster, old, expected_offset=0)).code

    return simulate(scenario, seed=seed, brokers=4)


async def _move(cluster: SimCluster, old: SimMachine, plan: Plan) -> None:
    leader = old.config.node_id
    holders = [each.config.node_id for each in cluster.brokers if _replica(each) is not None]
    free = [each.config.node_id for each in cluster.brokers if each.config.node_id not in holders]
    async with cluster.admin() as admin:
        moving = asyncio.ensure_future(
            plan(admin, leader, [each for each in holders if each != leader], free)
        )
        if plan is reassign:
            # It has to hear whom it is to let catch up; and then no more.
            await cluster.until(lambda: _is_growing(old))
        keep_metadata_from(cluster, old)
        await moving


async def _leaders(cluster: SimCluster) -> list[SimMachine]:
    await cluster.until(lambda: any(map(is_leading, cluster.brokers)))
    return [each for each in cluster.brokers if is_leading(each)]


async def _next_leader(cluster: SimCluster, old: SimMachine) -> SimMachine:
    others = [each for each in cluster.brokers if each is not old]
    await cluster.until(lambda: any(map(is_leading, others)))
    return next(filter(is_leading, others))


def _replica(machine: SimMachine) -> Partition | None:
    return None if machine.broker is None else next(iter(machine.broker.replicas), None)


def _is_growing(machine: SimMachine) -> bool:
    replica = _replica(machine)
    return replica is None or replica.state is None or bool(replica.state.image.adding_replicas)
