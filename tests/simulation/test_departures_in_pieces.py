"""A broker with many partitions goes, and the controllers take its partitions away in pieces."""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.core.ids import TopicName
from quorate.metadata.image import NO_LEADER, BrokerImage, PartitionImage
from quorate.v1 import admin_pb2
from tests.simulation.controller_world import FakeBroker, World, run_world

_PARTITIONS: Final = 600
#: every broker is in sync for all partitions: 60 pieces each
_CHANGES_MAX: Final = 10


async def _start(world: World, brokers: int = 3) -> list[FakeBroker]:
    started = [FakeBroker(world, 100 + number) for number in range(brokers)]
    await asyncio.gather(*(broker.start() for broker in started))
    request = admin_pb2.CreateTopicRequest(name="orders", partition_count=_PARTITIONS)
    await world.call("CreateTopic", request)
    await world.until(lambda: all(each.image.topics for each in world.running))
    return started


def _partitions(world: World) -> tuple[PartitionImage, ...]:
    image = max((each.image for each in world.running), key=lambda image: image.offset)
    topic = image.topic_named(TopicName("orders"))
    assert topic is not None
    return topic.partitions


def _registered(world: World, broker: FakeBroker) -> BrokerImage:
    image = max((each.image for each in world.running), key=lambda image: image.offset)
    return image.brokers[broker.broker_id]


def _memberships(world: World, broker: FakeBroker) -> int:
    return sum(broker.broker_id in each.isr for each in _partitions(world))


def _has_begun(world: World, broker: FakeBroker) -> bool:
    return _memberships(world, broker) < _PARTITIONS


def test_leaders_move_in_pieces_and_everything_else_goes_on_in_between() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        active = await world.active_controller()
        await brokers[0].kill()
        await world.until(lambda: _has_begun(world, brokers[0]))
        await world.call("CreateTopic", admin_pb2.CreateTopicRequest(name="meanwhile", partition_count=1))
        assert 0 < _memberships(world, brokers[0]) < _PARTITIONS
        assert not _registered(world, brokers[0]).is_fenced
        await world.until(lambda: _registered(world, brokers[0]).is_fenced)
        assert _memberships(world, brokers[0]) == 0
        assert all(each.leader != NO_LEADER for each in _partitions(world))
        assert not any(broker.is_fenced for broker in brokers[1:])
        assert active.is_active, "the controller was deposed"

    run_world(scenario, changes_max=_CHANGES_MAX)


def test_a_controller_that_dies_between_two_pieces_leaves_the_rest_to_the_next_one() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        active = await world.active_controller()
        await brokers[0].kill()
        await world.until(lambda: _has_begun(world, brokers[0]))
        await active.kill()
        assert _memberships(world, brokers[0]) > 0
        assert not _registered(world, brokers[0]).is_fenced
        await world.until(lambda: _registered(world, brokers[0]).is_fenced)
        assert _memberships(world, brokers[0]) == 0
        assert all(each.leader != NO_LEADER for each in _partitions(world))

    run_world(scenario, changes_max=_CHANGES_MAX)


def test_all_brokers_die_at_once_and_come_back_to_all_their_partitions() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        await asyncio.gather(*(broker.kill() for broker in brokers))
        await world.until(lambda: all(_registered(world, broker).is_fenced for broker in brokers))
        assert all(each.leader == NO_LEADER and len(each.isr) == 1 for each in _partitions(world))
        await asyncio.gather(*(broker.start() for broker in brokers))
        await world.until(lambda: all(each.leader != NO_LEADER for each in _partitions(world)))
        assert not any(each.unclean_leader_epochs for each in _partitions(world))

    run_world(scenario, changes_max=_CHANGES_MAX)


def test_a_restart_before_the_fencing_settles_the_process_before_in_pieces() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        before = brokers[0].broker_epoch
        await brokers[0].kill()
        await world.until(lambda: _has_begun(world, brokers[0]))
        await brokers[0].start()
        assert _registered(world, brokers[0]).broker_epoch > before
        assert _memberships(world, brokers[0]) == 0

    run_world(scenario, changes_max=_CHANGES_MAX)


def test_all_brokers_stop_in_order_at_once() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        for broker in brokers:
            broker.wants_shutdown = True
        await world.until(lambda: all(broker.may_shut_down for broker in brokers), within_s=60)
        assert all(each.leader == NO_LEADER and len(each.isr) == 1 for each in _partitions(world))

    run_world(scenario, changes_max=_CHANGES_MAX)
