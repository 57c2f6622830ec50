"""How far followers are behind, as their leader knows it: of one that has not asked yet it knows nothing."""

from __future__ import annotations

from typing import cast

from quorate.broker.replicas import Replicas
from quorate.core.ids import LeaderEpoch
from quorate.node.metrics.replica import ReplicaMetrics
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD, World, simulate

TOPIC = "t"


async def lag_records(world: World) -> float:
    replicas = cast(Replicas, [world.partition()])
    metrics = ReplicaMetrics(replicas, world.clock, topics_max=10)
    await metrics.look()
    [reading] = [each for each in metrics.read() if each.metric.name == "quorate_replica_lag_records"]
    [sample] = reading.samples
    assert sample.labels == (TOPIC,)
    return sample.value


async def five_records_on_three_brokers(world: World) -> None:
    await world.create_topic(TOPIC, replicas=(SELF, SECOND, THIRD))
    await world.produce(*"abcde", acks=broker_pb2.ACKS_LEADER)


def test_lag_is_that_of_the_last_follower() -> None:
    async def scenario(world: World) -> None:
        await five_records_on_three_brokers(world)
        world.follower_fetches(SECOND, 5)
        world.follower_fetches(THIRD, 2)
        assert await lag_records(world) == 3

    simulate(scenario)


def test_follower_that_a_new_leader_has_not_heard_from_does_not_lack_the_whole_log() -> None:
    """It lasts until its first fetch, and for ever where it is dead: that shows in the ISR."""

    async def scenario(world: World) -> None:
        await five_records_on_three_brokers(world)
        world.follower_fetches(SECOND, 5)
        assert await lag_records(world) == 0
        world.follower_fetches(THIRD, 5)
        world.change(leader_epoch=LeaderEpoch(1))
        assert await lag_records(world) == 0
        world.follower_fetches(THIRD, 4)
        assert await lag_records(world) == 1

    simulate(scenario)
