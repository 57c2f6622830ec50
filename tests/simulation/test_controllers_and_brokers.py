"""Controllers of a whole quorum, and the brokers that they look after, on simulated time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from quorate.core.ids import TopicName
from quorate.errors import NoController, QuorateError, TopicAlreadyExists, VoterChangeRefused
from quorate.metadata.image import NO_LEADER, PartitionImage
from quorate.v1 import admin_pb2
from tests.simulation.controller_world import FakeBroker, World, run_world


async def _start_brokers(world: World, count: int = 3) -> list[FakeBroker]:
    brokers = [FakeBroker(world, 100 + number) for number in range(count)]
    await asyncio.gather(*(broker.start() for broker in brokers))
    return brokers


async def _create(world: World, name: str, *, partitions: int = 3, through: int = 0) -> None:
    request = admin_pb2.CreateTopicRequest(name=name, partition_count=partitions)
    await world.call("CreateTopic", request, through=world.running[through])


def _partitions(world: World, name: str) -> tuple[PartitionImage, ...]:
    """As the controller with the newest image has them."""
    image = max((each.image for each in world.running), key=lambda image: image.offset)
    topic = image.topic_named(TopicName(name))
    assert topic is not None
    return topic.partitions


def _leads_nothing(world: World, broker: FakeBroker) -> bool:
    """False also where no controller knows of the topic yet: commits are learned with the next heartbeat."""
    if not any(each.image.topics for each in world.running):
        return False
    return not any(each.leader == broker.broker_id for each in _partitions(world, "orders"))


async def _converged(world: World) -> None:
    await world.until(lambda: len({each.image.offset for each in world.running}) == 1)
    assert len({each.image.digest for each in world.running}) == 1


def test_any_controller_passes_a_change_on_to_the_active_one() -> None:
    async def scenario(world: World) -> None:
        await _start_brokers(world)
        for number in range(3):
            await _create(world, f"topic-{number}", through=number)
        await _converged(world)
        assert len(world.controllers[0].image.topics) == 3

    run_world(scenario)


def test_a_dead_broker_is_fenced_as_soon_as_its_address_refuses() -> None:
    async def scenario(world: World) -> float:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        await brokers[0].kill()
        return await world.until(lambda: _leads_nothing(world, brokers[0]))

    assert run_world(scenario) < 0.5


def test_a_silent_broker_is_fenced_only_when_its_session_has_lapsed() -> None:
    async def scenario(world: World) -> float:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        brokers[0].hang()
        return await world.until(lambda: _leads_nothing(world, brokers[0]))

    assert 2.5 < run_world(scenario) < 3.5


def test_a_new_controller_starts_every_session_afresh() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        await (await world.active_controller()).kill()
        await world.active_controller()
        await asyncio.sleep(10)
        assert not any(broker.is_fenced for broker in brokers)
        assert all(each.leader != NO_LEADER for each in _partitions(world, "orders"))

    run_world(scenario)


def test_a_broker_that_died_with_the_controller_is_found_by_the_next_one() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        active = await world.active_controller()
        await asyncio.gather(active.kill(), brokers[0].kill())
        await world.until(lambda: _leads_nothing(world, brokers[0]), within_s=3.0)

    run_world(scenario)


def test_a_restarted_broker_comes_back_with_a_new_epoch_and_leads_again() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        epochs = {each.partition: each.leader_epoch for each in _partitions(world, "orders")}
        before = brokers[0].broker_epoch
        await brokers[0].kill()
        await world.until(lambda: _leads_nothing(world, brokers[0]))
        await brokers[0].start()
        assert brokers[0].broker_epoch > before
        assert all(each.leader_epoch >= epochs[each.partition] for each in _partitions(world, "orders"))

    run_world(scenario)


def test_all_brokers_die_and_every_partition_comes_back_without_an_unclean_election() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start_brokers(world)
        await _create(world, "orders")
        await asyncio.gather(*(broker.kill() for broker in brokers))
        await world.until(lambda: all(each.leader == NO_LEADER for each in _partitions(world, "orders")))
        await asyncio.gather(*(broker.start() for broker in brokers))
        await world.until(lambda: all(each.leader != NO_LEADER for each in _partitions(world, "orders")))
        assert not any(each.unclean_leader_epochs for each in _partitions(world, "orders"))

    run_world(scenario)


def test_a_controlled_shutdown_moves_leaders_and_lets_the_broker_go() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start_brokers(world)
        await _create(world, "orders", partitions=6)
        brokers[0].wants_shutdown = True
        await world.until(lambda: brokers[0].may_shut_down)
        assert _leads_nothing(world, brokers[0])

    run_world(scenario)


def test_a_cut_off_controller_ends_its_streams_and_does_not_answer() -> None:
    async def scenario(world: World) -> None:
        active = await world.active_controller()
        others = [each.name for each in world.controllers if each is not active]
        ended = asyncio.Event()

        async def follow() -> None:
            with suppress(NoController):
                async for _ in world.follow(active, 1):
                    pass
            ended.set()

        follower = asyncio.create_task(follow())
        await asyncio.sleep(1)
        world.network.partition([active.name], others)
        await asyncio.wait_for(ended.wait(), 5)
        await follower
        with pytest.raises(QuorateError):
            await world.call("ListTopics", admin_pb2.ListTopicsRequest(), through=active)
        world.network.heal()
        await _converged(world)

    run_world(scenario)


def test_a_change_whose_controller_dies_is_done_once_by_the_retry() -> None:
    async def scenario(world: World) -> None:
        await _start_brokers(world)
        active = await world.active_controller()
        through = next(number for number, each in enumerate(world.running) if each is not active)
        creations = [
            asyncio.create_task(_create(world, f"topic-{number}", through=through)) for number in range(20)
        ]
        await asyncio.sleep(0.004)
        await active.kill()
        await asyncio.gather(*creations)
        await _converged(world)
        assert len(world.running[0].image.topics) == 20
        with pytest.raises(TopicAlreadyExists):
            await _create(world, "topic-0")

    run_world(scenario)


def test_restarted_controllers_come_to_the_same_image() -> None:
    async def scenario(world: World) -> None:
        await _start_brokers(world)
        for number in range(5):
            await _create(world, f"topic-{number}")
        await asyncio.gather(*(each.kill() for each in world.controllers))
        await asyncio.gather(*(each.start() for each in world.controllers))
        await world.active_controller()
        await _converged(world)
        assert len(world.running[0].image.topics) == 5

    run_world(scenario)


def test_leadership_is_handed_over_once_for_one_request() -> None:
    async def scenario(world: World) -> None:
        before = await world.active_controller()
        follower = next(each for each in world.running if each is not before)
        term = follower.term
        answer = await world.call(
            "TransferController", admin_pb2.TransferControllerRequest(), through=follower
        )
        after = await world.active_controller()
        assert after is not before
        assert answer.controller in (-1, after.node_id)
        assert after.term == term + 1

    run_world(scenario)


def test_a_voter_that_nobody_answers_for_is_refused_at_once() -> None:
    async def scenario(world: World) -> None:
        request = admin_pb2.AddVoterRequest(node_id=9, address="c9:9093")
        with pytest.raises(VoterChangeRefused, match="no controller answers at c9:9093"):
            await world.call("AddVoter", request)
        # A broker's address is none of a controller.
        [broker] = await _start_brokers(world, 1)
        request = admin_pb2.AddVoterRequest(node_id=broker.broker_id, address=broker.address)
        with pytest.raises(VoterChangeRefused, match=f"no controller answers at {broker.address}"):
            await world.call("AddVoter", request)

    run_world(scenario)
