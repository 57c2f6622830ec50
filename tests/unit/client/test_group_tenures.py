"""A partition that was lost and is held again is something new: nothing of the time before reaches into it.

Meanwhile somebody else has had it, and has gone further (rule 62). A coordinator cannot tell: whatever the
client sends is in the name of the member that holds the partition now.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.errors import FencedMemberEpoch, NotEnoughReplicas, QuorateError, UnknownMember
from tests.unit.client.fake_coordinator import GroupCluster, simulate
from tests.unit.client.group_helpers import Application, until

T0: Any = ("t", 0)
U0: Any = ("u", 0)


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


async def poll_offsets(consumer: AsyncConsumer, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in await consumer.poll(count - len(offsets), timeout=60)]
    return offsets


def remove(cluster: GroupCluster, consumer: AsyncConsumer) -> str:
    """As when its session is over; the one that is no member any more."""
    membership = consumer.membership()
    assert membership is not None
    cluster.group().remove(membership.member_id)
    return membership.member_id


async def lose_and_regain(cluster: GroupCluster, consumer: AsyncConsumer, *, committed: int) -> None:
    """Somebody else commits in between; the application has not polled since."""
    former_id = remove(cluster, consumer)
    cluster.commit(0, committed)

    def is_back() -> bool:
        membership = consumer.membership()
        return membership is not None and membership.member_id != former_id

    await until(cluster, is_back)
    await cluster.sleep(1)
    assert cluster.group().members, "it has come back by itself"


async def give_to(cluster: GroupCluster, number: int, app: Application) -> None:
    cluster.pinned_to["t", number] = app.member_id
    cluster.group().rebalance()
    await until(cluster, lambda: number in app.assignment)


# -- commits of the application


async def outcome_of(consumer: AsyncConsumer, way: str) -> QuorateError | None:
    """Of a commit of all that was handed out, which may be told in a later poll."""
    given = {T0: 15} if way.endswith("given") else None
    if way.startswith("waiting"):
        try:
            await consumer.commit(given)
        except QuorateError as error:
            return error
        return None
    told: list[QuorateError | None] = []
    consumer.commit_async(given, on_commit=lambda _, error: told.append(error))
    await asyncio.sleep(5)
    while not told:
        await consumer.poll(1, timeout=1)
    return told[0]


@pytest.mark.parametrize("way", ["waiting", "waiting, given", "later", "later, given"])
def test_what_was_handed_out_before_a_loss_is_not_committed_after_it(way: str) -> None:
    """The application is still at work on it, and has not heard that the partition was away."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 15)
            await lose_and_regain(cluster, consumer, committed=40)
            outcome = await outcome_of(consumer, way)
            assert cluster.committed() == 40, "the group was taken back"
            assert isinstance(outcome, FencedMemberEpoch)

    simulate(scenario)


@pytest.mark.parametrize("way", ["waiting", "waiting, given", "later", "later, given"])
def test_a_commit_of_what_is_lost_is_refused_and_not_left_out(way: str) -> None:
    """Who commits before processing, and hears nothing bad, processes what another processes, too."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 15)
            remove(cluster, consumer)
            cluster.group_errors["GroupHeartbeat"] = deque([UnknownMember("gone")] * 1000)
            await cluster.sleep(1)
            assert isinstance(await outcome_of(consumer, way), FencedMemberEpoch)
            assert cluster.commits() == []
            del cluster.group_errors["GroupHeartbeat"]

    simulate(scenario)


def test_nothing_is_refused_if_all_was_committed_before_the_loss() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 15)
            await consumer.commit()
            await lose_and_regain(cluster, consumer, committed=40)
            await consumer.commit()
            assert cluster.committed() == 40
            assert await poll_offsets(consumer, 1) == [40]
            await consumer.commit()
            assert cluster.committed() == 41

    simulate(scenario)


def test_what_the_application_was_not_told_of_cannot_be_committed() -> None:
    """In ``on_lost`` the partition is this member's again, and waits to be assigned."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        outcomes: list[QuorateError] = []
        consumer = cluster.member()

        async def commit(_: object) -> None:
            with pytest.raises(FencedMemberEpoch) as caught:
                await consumer.commit({T0: 15})
            outcomes.append(caught.value)

        consumer.subscribe(["t"], on_lost=commit)
        async with consumer:
            await poll_offsets(consumer, 15)
            await lose_and_regain(cluster, consumer, committed=40)
            assert await poll_offsets(consumer, 1) == [40]
            assert len(outcomes) == 1
            assert cluster.committed() == 40

    simulate(scenario)


def test_a_commit_that_waits_for_the_name_of_a_topic_is_of_when_it_was_called() -> None:
    """Both partitions are the application's when the name is known, but one was lost on the way."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.add_topic("u")
        other = Application(cluster, "b", topics=["u"])
        other.start()
        await until(cluster, lambda: other.assignment)
        cluster.pinned_to["u", 0] = other.member_id
        consumer = cluster.member(pattern="[tu]")
        await poll_offsets(consumer, 15)
        is_known = asyncio.Event()
        cluster_view = consumer._engine._cluster
        find = cluster_view.topic

        async def find_later(name: str, *, timeout_s: float) -> Any:
            await is_known.wait()
            return await find(name, timeout_s=timeout_s)

        cluster_view.topic = find_later  # type: ignore[method-assign]
        committing = asyncio.ensure_future(consumer.commit({T0: 15, U0: 0}))
        await lose_and_regain(cluster, consumer, committed=40)
        del cluster.pinned_to["u", 0]
        await other.close()
        while len(consumer.assignment()) < 2 or await consumer.position(T0) < 41:
            await consumer.poll(1, timeout=1)
        is_known.set()
        with pytest.raises(FencedMemberEpoch):
            await committing
        assert cluster.committed() == 40
        await consumer.close()

    simulate(scenario)


# -- a partition that is given up while it is lost


def test_what_was_lost_and_regained_while_it_was_given_up_is_neither_committed_nor_given_up_again() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        first, second = Application(cluster, "a", enable_auto_commit=True), Application(cluster, "b")
        is_done = asyncio.Event()
        first.on_revoked = lambda _: is_done.wait()
        first.max_records, first.processing_s = 10, 1.0
        first.start()
        await until(cluster, lambda: first.read)
        second.start()
        await until(cluster, lambda: len(cluster.group().members) == 2)
        cluster.pinned_to["t", 0] = second.member_id
        cluster.group().rebalance()
        await until(cluster, lambda: ("revoked", [0]) in first.heard)
        former_id = first.member_id
        cluster.group().remove(former_id)
        await until(cluster, lambda: second.assignment == [0])
        await until(cluster, lambda: first.member_id in cluster.group().members)
        second.crash()
        cluster.group().remove(second.member_id)
        cluster.commit(0, 40)
        del cluster.pinned_to["t", 0]
        cluster.group().rebalance()
        await until(cluster, lambda: cluster.group().members[first.member_id].assigned)
        await cluster.sleep(1)
        read, commits = len(first.read), len(cluster.commits())
        is_done.set()
        await cluster.sleep(0.5)
        assert first.errors == []
        assert cluster.commits()[commits:] == []
        await until(cluster, lambda: len(first.read) > read)
        assert first.read[read] == (0, 40)
        assert first.heard == [("assigned", [0]), ("revoked", [0]), ("assigned", [0])]
        first.on_revoked = None
        await first.close()

    simulate(scenario)


def test_a_member_that_is_removed_between_the_last_steps_of_its_farewell_can_come_back() -> None:
    """Nothing is read any more, but the group still takes it for the owner."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        consumer = cluster.member()

        async def be_removed(*_: object) -> None:
            remove(cluster, consumer)
            await cluster.sleep(5)

        def commit(_: object) -> None:
            consumer.commit_async(on_commit=be_removed)

        heard: list[str] = []
        consumer.subscribe(["t"], on_revoked=commit, on_lost=lambda _: heard.append("lost"))
        async with consumer:
            await poll_offsets(consumer, 15)
            await consumer.unsubscribe()
            assert heard == [], "it has heard that they are given up"
            consumer.subscribe(["t"])
            assert await poll_offsets(consumer, 1) == [15]

    simulate(scenario)


# -- where to begin


async def start_beginning_slowly(cluster: GroupCluster, app: Application, *before: float) -> None:
    """It is told where the group stands 4 seconds late; ``before``: answers to what it asks before."""
    delays = cluster.delay_answers["FetchOffsets"] = deque([*before, 4.0])
    app.start()
    await until(cluster, lambda: not delays)


def test_an_answer_from_before_a_partition_was_away_does_not_say_where_to_begin() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 10)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        await start_beginning_slowly(cluster, first)
        second.start()
        await until(cluster, lambda: len(cluster.group().members) == 2)
        await give_to(cluster, 0, second)
        await until(cluster, lambda: len(second.read) >= 20)
        await second.consumer.commit()
        committed = cluster.committed()
        assert committed is not None
        assert committed > 10
        cluster.topics["t"].partitions[0].fill(200)
        cluster.tell()
        second.stop()
        del cluster.pinned_to["t", 0]
        second.crash()
        cluster.group().remove(second.member_id)
        await until(cluster, lambda: first.read)
        assert first.read[0] == (0, committed)
        await first.close()

    simulate(scenario)


def test_an_answer_from_before_a_partition_was_away_does_not_say_that_nothing_is_committed() -> None:
    """Else all that came in since would be skipped: the group would begin at the end once more."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        first, second = Application(cluster, "a", auto_offset_reset="latest"), Application(cluster, "b")
        # Before it joins it looks what there is.
        await start_beginning_slowly(cluster, first, 0.0)
        second.start()
        await until(cluster, lambda: len(cluster.group().members) == 2)
        await give_to(cluster, 0, second)
        await second.consumer.commit({T0: 100})
        cluster.topics["t"].partitions[0].fill(150)
        cluster.tell()
        del cluster.pinned_to["t", 0]
        second.crash()
        cluster.group().remove(second.member_id)
        await until(cluster, lambda: len(first.read) == 50)
        assert first.read[0] == (0, 100)
        await first.close()

    simulate(scenario)


def test_a_partition_that_goes_while_its_end_is_written_down_is_no_error_of_the_others() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        cluster.group_errors["CommitOffsets"] = deque([NotEnoughReplicas("too few")] * 1000)
        first = Application(cluster, "a", auto_offset_reset="latest")
        first.start()
        await until(cluster, lambda: cluster.commits())
        second = Application(cluster, "b", auto_offset_reset="latest")
        second.start()
        await until(cluster, lambda: len(cluster.group().members) == 2)
        await cluster.sleep(5)
        del cluster.group_errors["CommitOffsets"]
        await until(cluster, lambda: len(first.assignment) == len(second.assignment) == 1)
        assert first.errors == second.errors == []
        await first.close()
        await second.close()

    simulate(scenario)


# -- what is known to be committed


async def assert_really_commits(cluster: GroupCluster, consumer: AsyncConsumer, offset: int) -> None:
    consumer.seek(T0, offset)
    await consumer.commit()
    assert cluster.committed() == offset, "what another has committed since is not known"


def test_a_commit_from_before_a_loss_that_is_answered_after_it_says_nothing_of_what_is_committed_now() -> (
    None
):
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 15)
            cluster.delay_answers["CommitOffsets"] = deque([4.0])
            consumer.commit_async()
            await until(cluster, lambda: cluster.committed() == 15)
            await lose_and_regain(cluster, consumer, committed=40)
            assert await poll_offsets(consumer, 1) == [40]
            await cluster.sleep(5)
            await assert_really_commits(cluster, consumer, 15)

    simulate(scenario)


def test_an_end_that_was_written_down_before_the_partition_went_away_is_not_known_to_stand() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            await consumer.poll(timeout=0)
            await until(cluster, lambda: cluster.committed() == 100)
            await cluster.sleep(1)
            assert consumer.assignment() == [], "it was never told of it"
            other = Application(cluster, "b")
            other.start()
            await until(cluster, lambda: len(cluster.group().members) == 2)
            await give_to(cluster, 0, other)
            cluster.topics["t"].partitions[0].fill(150)
            cluster.tell()
            del cluster.pinned_to["t", 0]
            other.crash()
            cluster.group().remove(other.member_id)
            cluster.commit(0, 140)
            assert await poll_offsets(consumer, 1) == [140]
            await assert_really_commits(cluster, consumer, 100)

    simulate(scenario)
