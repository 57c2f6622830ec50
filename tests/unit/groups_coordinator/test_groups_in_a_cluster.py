"""Groups in a whole cluster: three controllers and three brokers, and calls as any client makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorate.broker.groups import offset_decisions, shard
from quorate.broker.groups.loading import load
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.sim.patch import Patch
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import QuorateError
from quorate.v1.group_pb2 import CommitOffsetsRequest, FetchOffsetsRequest, FindCoordinatorsRequest
from tests.mutants import assert_story_notices
from tests.unit.groups_coordinator.group_cluster import (
    GROUP,
    GroupClient,
    TestMember,
    commit_request,
    coordinator_of,
    partition,
    settle_all,
    simulate,
)

#: what a coordinator that was replaced may say, and nothing else
REFUSALS = {"BROKER_FENCED", "NOT_COORDINATOR"}


@contextmanager
def slow_loading(cluster: SimCluster) -> Iterator[None]:
    """As of a partition with very much in it."""

    async def slowly(*arguments: Any) -> Any:
        await cluster.clock.sleep(1.0)
        return await load(*arguments)

    with Patch() as patch:
        patch.setattr(shard, "load", slowly)
        yield


async def outcome_of(call: Awaitable[Any]) -> Any:
    """The answer, or what was raised."""
    try:
        return await call
    except QuorateError as error:
        return error


async def until_taken(client: GroupClient, machine: SimMachine, request: CommitOffsetsRequest) -> Any:
    """By that broker, however long it is loading."""
    while True:
        try:
            return await client.ask(machine, "CommitOffsets", request)
        except QuorateError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_next_coordinator_goes_on_where_the_one_before_has_died(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        members = [TestMember(client, name) for name in ("a", "b")]
        await settle_all(members)
        assert sorted(len(each.owned) for each in members) == [2, 2]
        held = [each.owned for each in members]
        for each in members:
            offsets = dict.fromkeys(sorted(each.owned), 7)
            committed = await client.commit(offsets, member_id=each.name, member_epoch=each.epoch)
            assert committed == ["", ""]

        with slow_loading(cluster):
            coordinator_of(cluster).kill()
            refusals: list[str] = []
            fetched = await client.fetch(refusals=refusals)
        assert fetched == dict.fromkeys((partition(cluster, number) for number in range(4)), 7)
        # Never "nothing is committed" on the way.
        assert "COORDINATOR_LOAD_IN_PROGRESS" in refusals
        assert set(refusals) <= {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNAVAILABLE"}
        epochs = [each.epoch for each in members]
        await settle_all(members)
        assert [each.owned for each in members] == held
        assert [each.epoch for each in members] == epochs, "nobody notices anything"

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_commit_that_was_acknowledged_is_there_and_any_other_may_be(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        first = partition(cluster, 0)
        assert await client.commit({first: 3}) == [""]
        address = await client.find()
        coordinator = coordinator_of(cluster)
        lost = asyncio.create_task(client.ask(address, "CommitOffsets", commit_request({first: 5})))
        await asyncio.sleep(cluster.simulation.rng.uniform(0, 0.003))
        coordinator.kill()
        outcome = await outcome_of(lost)
        is_acknowledged = not isinstance(outcome, QuorateError)
        assert is_acknowledged or outcome.outcome_unknown
        fetched = (await client.fetch())[first]
        assert fetched == 5 if is_acknowledged else fetched in (3, 5)

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_coordinator_resumed_from_a_pause_answers_nothing_from_its_old_life(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        first = partition(cluster, 0)
        assert await client.commit({first: 3}) == [""]
        zombie = coordinator_of(cluster)
        # Connected, so that the call is under way while it stands still.
        await client.ask(zombie, "FetchOffsets", FetchOffsetsRequest(group=GROUP))
        zombie.pause()
        calls = [
            asyncio.create_task(client.ask(zombie, "FetchOffsets", FetchOffsetsRequest(group=GROUP))),
            asyncio.create_task(client.ask(zombie, "CommitOffsets", commit_request({first: 4}))),
        ]
        await cluster.until(lambda: coordinator_of(cluster) is not zombie)
        other = GroupClient(cluster)
        response = await until_taken(other, coordinator_of(cluster), commit_request({first: 9}))
        assert [result.error.code for result in response.results] == [""]
        zombie.resume()
        for call in calls:
            with pytest.raises(QuorateError) as raised:
                await call
            assert raised.value.code in REFUSALS or raised.value.outcome_unknown
        assert (await other.fetch())[first] == 9

    simulate(scenario, seed=seed)


def test_a_coordinator_that_lost_the_controllers_stops_answering_before_another_one_leads() -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        assert await client.commit({partition(cluster, 0): 3}) == [""]
        zombie = coordinator_of(cluster)
        cluster.network.partition([zombie.name], [each.name for each in cluster.controllers])
        refused_at = None
        while coordinator_of(cluster) is zombie:
            outcome = await outcome_of(client.ask(zombie, "FetchOffsets", FetchOffsetsRequest(group=GROUP)))
            if isinstance(outcome, QuorateError):
                assert outcome.code in REFUSALS
                refused_at = refused_at or cluster.simulation.loop.time()
            await asyncio.sleep(0.01)
        assert refused_at is not None
        assert refused_at < cluster.simulation.loop.time()

    simulate(scenario)


def test_many_who_ask_at_once_for_a_coordinator_make_the_topic_once() -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        request = FindCoordinatorsRequest(groups=["g1", "g2", "g3"])
        asked = [client.ask(each, "FindCoordinators", request) for each in cluster.brokers * 5]
        answers = await asyncio.gather(*asked)
        assert all(answer == answers[0] for answer in answers)
        assert not any(found.HasField("error") for found in answers[0].coordinators)
        topic = newest_image(cluster).topic_named(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 16
        assert all(len(each.replicas) == 3 for each in topic.partitions)
        assert topic.configs["cleanup.policy"] == "compact"

    simulate(scenario)


def test_a_stop_by_plan_hands_the_groups_over() -> None:
    async def scenario(cluster: SimCluster) -> None:
        client = GroupClient(cluster)
        member = TestMember(client, "a")
        await member.settle()
        running = asyncio.create_task(member.run())
        before = coordinator_of(cluster)
        await before.stop()
        assert coordinator_of(cluster) is not before
        began = cluster.simulation.loop.time()
        await cluster.until(lambda: cluster.simulation.loop.time() > began + 5)
        running.cancel()
        assert len(member.owned) == 4
        assert len(member.history) == 1, "nothing has moved"

    simulate(scenario)


def test_a_commit_of_a_member_that_the_group_has_given_up_comes_too_late() -> None:
    simulate(a_commit_of_a_member_that_the_group_has_given_up_comes_too_late)


def test_a_commit_that_is_not_fenced_would_be_found() -> None:
    """Rule 62."""

    def fence_nobody(patch: Patch) -> None:
        patch.setattr(offset_decisions, "check_commit", lambda *_: None)

    assert_story_notices(
        fence_nobody, lambda: simulate(a_commit_of_a_member_that_the_group_has_given_up_comes_too_late)
    )


async def a_commit_of_a_member_that_the_group_has_given_up_comes_too_late(cluster: SimCluster) -> None:
    # The network breaks a connection that is stuck; not this one.
    cluster.network.break_after_s = 1_000
    lost = TestMember(GroupClient(cluster), "lost")
    await lost.settle()
    coordinator = coordinator_of(cluster)
    cluster.network.block(lost.client.machine, coordinator.name)
    request = commit_request({partition(cluster, 0): 2}, member_id="lost", member_epoch=lost.epoch)
    late = asyncio.create_task(lost.client.ask(coordinator, "CommitOffsets", request))
    successor = TestMember(GroupClient(cluster), "successor")
    deadline = cluster.simulation.loop.time() + 60
    while len(successor.owned) < 4:
        assert cluster.simulation.loop.time() < deadline
        await successor.beat(max_wait_ms=1_000)
    client = successor.client
    committed = await client.commit(
        {partition(cluster, 0): 9}, member_id="successor", member_epoch=successor.epoch
    )
    assert committed == [""]
    cluster.network.heal()
    outcome = await outcome_of(late)
    assert isinstance(outcome, QuorateError)
    assert (await client.fetch())[partition(cluster, 0)] == 9
