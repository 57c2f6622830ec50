"""When a broker is ready, and how its replicas are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from quorate.broker import census
from quorate.broker.census import ReplicaCensus
from quorate.broker.controller_link.lease import Lease
from quorate.broker.hosted import Hosted
from quorate.broker.metrics.broker import BrokerMetrics
from quorate.broker.readiness import Readiness
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER
from tests.unit.broker.broker_harness import (
    DATA_DIRECTORY,
    DEFAULT_CONFIG,
    LEASE_S,
    SECOND,
    SELF,
    THIRD,
    Replicas,
    World,
)

ALL = (SELF, SECOND, THIRD)


def simulate(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk()
        disk.make_directory(DATA_DIRECTORY)
        await scenario(World(simulation, disk, DEFAULT_CONFIG))

    run_simulation(main, seed=1)


async def missing(world: World) -> list[str]:
    return await Readiness(SELF, world.hosted, ReplicaCensus(SELF)).missing()


def change_self(world: World, **fields: Any) -> None:
    own = replace(world.image.brokers[SELF], **fields)
    world._set_image(brokers=world.image.brokers.set(SELF, own))


def test_a_broker_that_leads_and_follows_in_sync_is_ready() -> None:
    async def scenario(world: World) -> None:
        assert await missing(world) == []
        await world.create_topic("t", partitions=2, replicas=ALL)
        world.change(1, leader=SECOND)
        assert await missing(world) == []

    simulate(scenario)


def test_a_broker_that_is_out_of_one_isr_is_not_ready() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", partitions=3, replicas=ALL)
        world.change(1, leader=SECOND, isr=(SECOND, THIRD))
        assert await missing(world) == ["1 replica(s) not in sync: t-1"]
        world.change(1, isr=ALL)
        assert await missing(world) == []

    simulate(scenario)


def test_partitions_that_nobody_leads_do_not_count() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", partitions=2, replicas=ALL)
        world.change(0, leader=NO_LEADER, isr=(SECOND,))
        assert await missing(world) == []
        world.change(1, leader=SECOND, isr=(SECOND,))
        assert await missing(world) == ["1 replica(s) not in sync: t-1"]

    simulate(scenario)


def test_partitions_of_others_do_not_count() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", replicas=ALL)
        world.change(0, replicas=(SECOND, THIRD), leader=SECOND, isr=(SECOND,))
        assert await missing(world) == []

    simulate(scenario)


def test_a_replica_that_is_being_moved_here_counts() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", replicas=ALL)
        world.change(0, leader=SECOND, isr=(SECOND, THIRD), adding_replicas=(SELF,))
        assert await missing(world) == ["1 replica(s) not in sync: t-0"]

    simulate(scenario)


def test_not_all_of_many_replicas_are_named() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", partitions=12, replicas=ALL)
        for number in range(12):
            world.change(number, leader=SECOND, isr=(SECOND,))
        [told] = await missing(world)
        assert told.startswith("12 replica(s) not in sync: t-0, t-1, ")
        assert told.endswith(", t-9, and 2 more")

    simulate(scenario)


@pytest.mark.parametrize("fields", [{"is_fenced": True}, {"broker_id": BrokerId(9)}])
def test_a_broker_that_is_fenced_or_unknown_is_not_ready(fields: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        if "broker_id" in fields:
            world._set_image(brokers=world.image.brokers.delete(SELF))
        else:
            change_self(world, **fields)
        assert await missing(world) == ["the broker is fenced, or has lost touch with the active controller"]

    simulate(scenario)


def test_a_broker_that_lost_touch_with_the_controller_is_not_ready() -> None:
    """What it knows of the metadata may be old: nobody could tell it that it was fenced."""

    async def scenario(world: World) -> None:
        world.lease.revoke()
        assert await missing(world) == ["the broker is fenced, or has lost touch with the active controller"]

    simulate(scenario)


def test_a_broker_that_is_about_to_stop_is_not_ready() -> None:
    async def scenario(world: World) -> None:
        change_self(world, is_shutting_down=True)
        assert await missing(world) == ["the broker is about to stop: its leaders move to others"]

    simulate(scenario)


def test_a_broker_that_has_not_registered_yet_is_not_ready() -> None:
    async def scenario(world: World) -> None:
        lease = Lease(world.clock, duration_s=LEASE_S)
        hosted = Hosted(DEFAULT_CONFIG, SELF, Replicas(), lease)
        counting = ReplicaCensus(SELF)
        [told] = await Readiness(SELF, hosted, counting).missing()
        assert told.startswith("the broker is starting")
        metrics = BrokerMetrics(hosted, counting)
        await metrics.look()
        assert list(metrics.read()) == []

    simulate(scenario)


# -- counting


def test_replicas_are_counted() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("t", partitions=6, replicas=ALL, min_insync_replicas="2")
        world.change(1, isr=(SELF, SECOND))
        world.change(2, isr=(SELF,))
        world.change(3, leader=SECOND)
        world.change(4, leader=SECOND, isr=(SECOND,))
        world.change(5, leader=NO_LEADER, isr=(SELF,))
        metrics = BrokerMetrics(world.hosted, ReplicaCensus(SELF))
        await metrics.look()
        told = {reading.metric.name: [each.value for each in reading.samples] for reading in metrics.read()}
        assert told == {
            "quorate_broker_replicas": [6],
            "quorate_broker_leaders": [3],
            "quorate_broker_under_replicated_partitions": [2],
            "quorate_broker_under_min_isr_partitions": [1],
            "quorate_broker_leaderless_partitions": [1],
            "quorate_broker_out_of_sync_replicas": [1],
        }

    simulate(scenario)


def test_replicas_are_counted_again_when_partitions_or_defaults_change() -> None:
    async def scenario(world: World) -> None:
        counting = ReplicaCensus(SELF)
        await world.create_topic("t", replicas=ALL)
        first = await counting.take(world.image)
        change_self(world, cache_witness=17)
        assert await counting.take(world.image) is first, "nothing about partitions"
        world.change(0, isr=(SELF, SECOND))
        second = await counting.take(world.image)
        assert (second.under_replicated, second.under_min_isr) == (1, 0)
        world._set_image(cluster_configs=world.image.cluster_configs.set("min.insync.replicas", "3"))
        assert (await counting.take(world.image)).under_min_isr == 1

    simulate(scenario)


def test_other_work_goes_on_while_replicas_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "_PARTITIONS_PER_TURN", 2)

    async def scenario(world: World) -> None:
        await world.create_topic("t", partitions=10, replicas=ALL)
        counting = asyncio.create_task(ReplicaCensus(SELF).take(world.image))
        turns = 0
        while not counting.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 5

    simulate(scenario)
