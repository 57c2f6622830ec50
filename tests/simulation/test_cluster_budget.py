"""Of a partition's replicas, MinISR - 1 may have lost something at the same time, and no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from quorate.chaos.cluster.budget import FaultBudget
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.faults.operations import create_topic
from quorate.chaos.cluster.plan import TopicPlan
from quorate.chaos.cluster.view import is_whole, newest_image
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.config import Durability

PLAIN: Final = TopicPlan("plain", 1, 3, 2, Durability.REPLICATED)
SYNCED: Final = TopicPlan("synced", 1, 3, 2, Durability.FSYNC)
STRICT: Final = TopicPlan("strict", 1, 3, 3, Durability.REPLICATED)
LAX: Final = TopicPlan("lax", 1, 3, 1, Durability.REPLICATED)


def simulate(topic: TopicPlan, scenario: Callable[[SimCluster, FaultBudget], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        async with cluster.admin() as admin:
            await create_topic(admin, topic)
        await cluster.until(lambda: is_whole(cluster))
        await scenario(cluster, FaultBudget(cluster, [topic], lambda: newest_image(cluster)))

    run_simulation(main, seed=1, time_limit_s=600)


def test_one_of_three_may_lose_something_until_it_is_in_sync_again() -> None:
    async def scenario(cluster: SimCluster, budget: FaultBudget) -> None:
        first, second, _ = cluster.brokers
        assert budget.spend_disk(first)
        assert budget.spend_disk(first), "what is lost cannot be lost again"
        assert not budget.spend_unsynced(second)
        first.kill()
        first.wipe()
        first.start()
        assert not budget.spend_unsynced(second)
        await cluster.until(lambda: budget.spend_unsynced(second))
        assert first.is_ready
        assert is_whole(cluster)

    simulate(PLAIN, scenario)


def test_with_min_isr_3_two_may_and_with_1_nobody() -> None:
    async def two(cluster: SimCluster, budget: FaultBudget) -> None:
        first, second, third = cluster.brokers
        assert [budget.spend_disk(each) for each in (first, second, third)] == [True, True, False]

    async def nobody(cluster: SimCluster, budget: FaultBudget) -> None:
        assert not budget.spend_unsynced(cluster.brokers[0])

    simulate(STRICT, two)
    simulate(LAX, nobody)


def test_what_is_synced_survives_every_loss_of_power_and_no_loss_of_disks() -> None:
    async def scenario(cluster: SimCluster, budget: FaultBudget) -> None:
        first, second, third = cluster.brokers
        assert budget.is_everything_synced
        assert all(budget.spend_unsynced(each) for each in cluster.brokers)
        assert budget.spend_disk(first)
        assert not budget.spend_disk(second)
        budget.no_longer_synced(SYNCED.name)
        assert not budget.is_everything_synced
        assert not budget.spend_unsynced(third)

    simulate(SYNCED, scenario)


def test_a_loss_that_nobody_can_see_repaired_lasts() -> None:
    async def scenario(cluster: SimCluster, budget: FaultBudget) -> None:
        first, second, _ = cluster.brokers
        assert budget.spend_disk(first, is_lasting=True)
        first.kill()
        first.start()
        await first.ready()
        await cluster.until(lambda: is_whole(cluster))
        assert not budget.spend_disk(second)

    simulate(PLAIN, scenario)


@pytest.mark.parametrize("has_harmed", [True, False])
def test_a_loss_of_a_disk_that_is_still_harmed_is_that_of_the_process_that_met_it_last(
    has_harmed: bool,
) -> None:
    async def scenario(cluster: SimCluster, budget: FaultBudget) -> None:
        first, second, _ = cluster.brokers
        assert budget.spend_disk(first)
        first.kill()
        with budget.harming(first, lambda: has_harmed):
            first.start()
            await cluster.until(lambda: first.is_ready and is_whole(cluster))
            assert not budget.spend_unsynced(second), "it may be told of an error at any moment"
        assert budget.spend_unsynced(second) != has_harmed, "it may have been told"
        if not has_harmed:
            return
        first.kill()
        first.start()
        await cluster.until(lambda: budget.spend_unsynced(second))
        assert first.is_ready

    simulate(PLAIN, scenario)
