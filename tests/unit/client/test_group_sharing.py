"""Members of a group share partitions: one reader for each at a time, and what stays is not disturbed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.errors import InvalidRequest
from quorate.v1 import group_pb2
from tests.unit.client.fake_coordinator import GroupCluster, simulate
from tests.unit.client.group_helpers import Application, until


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


def everything(partitions: int, records: int) -> list[tuple[int, int]]:
    return [(number, offset) for number in range(partitions) for offset in range(records)]


def test_a_lone_member_reads_every_partition_from_its_beginning() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 30)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 120)
        assert sorted(app.read) == everything(4, 30)
        assert app.heard == [("assigned", [0, 1, 2, 3])]
        assert app.assignment == [0, 1, 2, 3]
        await app.close()

    simulate(scenario)


def test_a_member_that_has_not_polled_takes_no_partitions() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 1)
        async with cluster.member(topics=["t"]) as consumer:
            await cluster.sleep(30)
            assert cluster.heartbeats() == []
            assert consumer.assignment() == []

    simulate(scenario)


def test_a_second_member_gets_its_share_and_the_first_keeps_the_rest_without_a_pause() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 10)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.start()
        await until(cluster, lambda: len(first.read) == 40)
        second.start()
        await until(cluster, lambda: len(second.assignment) == 2)
        await until(cluster, lambda: len(first.assignment) == 2)
        assert sorted(first.assignment + second.assignment) == [0, 1, 2, 3]
        (_, revoked) = first.heard[1]
        assert first.heard[1:] == [("revoked", revoked)]
        assert second.heard == [("assigned", sorted(second.assignment))]
        # What stayed was fetched on from where it was: nothing is read twice.
        kept = first.assignment
        for number in kept:
            cluster.topics["t"].partitions[number].fill(20)
        cluster.tell()
        await until(cluster, lambda: len(first.read) == 60)
        assert sorted(first.read[40:]) == [(number, offset) for number in kept for offset in range(10, 20)]
        await first.close()
        await second.close()

    simulate(scenario)


@pytest.mark.parametrize("callbacks", [True, False])
def test_a_partition_is_given_up_only_when_the_application_has_come_back(callbacks: bool) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        slow = Application(cluster, "a", callbacks=callbacks)
        slow.processing_s, slow.max_records = 20, 10
        slow.start()
        await until(cluster, lambda: slow.read)
        came_at = cluster.now()
        other = Application(cluster, "b")
        other.start()
        await cluster.sleep(15)
        assert other.assignment == []
        assert len(cluster.group().members) == 2
        await until(cluster, lambda: other.assignment)
        assert cluster.now() - came_at < 21, "it waits for the application, and for nothing else"
        await slow.close()
        await other.close()

    simulate(scenario)


def test_nothing_of_a_partition_is_handed_out_once_it_is_to_be_given_up() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.processing_s, first.max_records = 5, 3
        first.start()
        await until(cluster, lambda: len(first.read) >= 6)
        second.start()
        await until(cluster, lambda: len(cluster.group().members) == 2)
        await cluster.sleep(0.1)
        cluster.fetches.clear()
        await cluster.sleep(4)
        fetched = {each.partition for _, fetch in cluster.fetches for each in fetch.partitions}
        assert len(fetched) == 1, "the other is not even fetched while the application is at work"
        await until(cluster, lambda: second.assignment)
        [moved] = second.assignment
        by_first = [offset for number, offset in first.read if number == moved]
        await until(cluster, lambda: len(second.read) == 100)
        await cluster.sleep(60)
        assert [offset for number, offset in first.read if number == moved] == by_first
        await first.close()
        await second.close()

    simulate(scenario)


def test_what_is_committed_when_a_partition_is_given_up_is_where_the_next_one_begins() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.processing_s, first.max_records = 1, 7

        async def commit(_: list[int]) -> None:
            await first.consumer.commit()

        first.on_revoked = commit
        first.start()
        await until(cluster, lambda: len(first.read) >= 20)
        second.start()
        await until(cluster, lambda: len(second.read) and len(first.assignment) == 1)
        [moved] = second.assignment
        await until(cluster, lambda: len(first.read) + len(second.read) >= 200)
        assert sorted(first.read + second.read) == everything(2, 100), "nothing twice, nothing left out"
        assert first.errors == second.errors == []
        assert moved not in first.assignment
        await first.close()
        await second.close()

    simulate(scenario)


def test_a_slow_member_does_not_stop_the_others() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 10)
        quick, slow = Application(cluster, "a"), Application(cluster, "b")
        slow.processing_s = 200
        quick.start()
        slow.start()
        await until(cluster, lambda: slow.read and len(quick.assignment) == 2, within_s=300)
        third = Application(cluster, "c")
        third.start()
        for number in quick.assignment:
            cluster.topics["t"].partitions[number].fill(20)
        cluster.tell()
        before = len(quick.read)
        await until(cluster, lambda: len(quick.read) > before, within_s=2)
        for app in (quick, slow, third):
            await app.close()

    simulate(scenario)


def test_a_pattern_takes_topics_that_are_created_later() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.add_topic("orders-eu").partitions[0].fill(3)
        cluster.add_topic("payments").partitions[0].fill(3)
        app = Application(cluster, "a", topics=(), pattern="orders-.*", auto_offset_reset="latest")
        app.start()
        await until(cluster, lambda: app.heard)
        cluster.add_topic("orders-us").partitions[0].fill(5)
        cluster.group().rebalance()
        await until(cluster, lambda: len(app.read) == 5)
        assert {each.topic for each in app.consumer.assignment()} == {"orders-eu", "orders-us"}
        await app.close()

    simulate(scenario)


def test_a_subscription_can_be_changed() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        for name in ("t", "u"):
            cluster.add_topic(name).partitions[0].fill(3)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 3)
        app.consumer.subscribe(["u"])
        await until(cluster, lambda: [each.topic for each in app.consumer.assignment()] == ["u"])
        await until(cluster, lambda: len(app.read) == 6)
        assert cluster.group().members[app.member_id].subscription.topics == ["u"]
        await app.close()

    simulate(scenario)


def test_a_topic_that_does_not_exist_yet_is_waited_for_without_an_error() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        app = Application(cluster, "a")
        app.start()
        await cluster.sleep(20)
        cluster.add_topic().partitions[0].fill(3)
        cluster.group().rebalance()
        await until(cluster, lambda: len(app.read) == 3)
        assert app.errors == []
        await app.close()

    simulate(scenario)


def test_iteration_stops_at_once_for_what_has_to_be_given_up() -> None:
    """It takes out many records at a time; those of a partition that has gone are not yielded."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        given_up: list[tuple[int, int]] = []
        consumer = cluster.member(node="a")

        async def on_revoked(partitions: list[Any]) -> None:
            given_up.extend([(each.partition, await consumer.position(each)) for each in partitions])
            await consumer.commit()

        consumer.subscribe(["t"], on_revoked=on_revoked)
        other = Application(cluster, "b")
        seen: list[tuple[int, int]] = []

        async def read() -> None:
            async for record in consumer:
                seen.append((record.partition, record.offset))
                await cluster.sleep(0.1)

        reading = asyncio.get_running_loop().create_task(read())
        await until(cluster, lambda: len(seen) == 20)
        other.start()
        await until(cluster, lambda: other.assignment, within_s=1)
        await until(cluster, lambda: len(seen) + len(other.read) >= 200)
        reading.cancel()
        [(moved, position)] = given_up
        assert other.assignment == [moved]
        assert [offset for number, offset in seen if number == moved] == list(range(position))
        assert sorted(seen + other.read) == everything(2, 100)
        await consumer.close()
        await other.close()

    simulate(scenario)


def test_a_member_that_closes_leaves_at_once() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.start()
        second.start()
        await until(cluster, lambda: len(first.assignment) == len(second.assignment) == 1)
        before = cluster.now()
        await first.close()
        await until(cluster, lambda: second.assignment == [0, 1])
        assert cluster.now() - before < 0.5
        assert first.heard[-1][0] == "revoked"
        await second.close()
        assert cluster.group().members == {}

    simulate(scenario)


def test_unsubscribe_leaves_and_subscribe_comes_back() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            assert len(await consumer.poll(timeout=10)) == 10
            await consumer.commit()
            await consumer.unsubscribe()
            assert consumer.assignment() == []
            assert cluster.group().members == {}
            with pytest.raises(InvalidRequest, match="no topics"):
                await consumer.poll()
            cluster.topics["t"].partitions[0].fill(15)
            consumer.subscribe(["t"])
            assert [each.offset for each in await consumer.poll(timeout=10)] == [10, 11, 12, 13, 14]

    simulate(scenario)


def test_a_callback_must_not_poll() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member() as consumer:

            async def poll(_: Any) -> None:
                await consumer.poll()

            consumer.subscribe(["t"], on_assigned=poll)
            with pytest.raises(InvalidRequest, match="must not poll"):
                await consumer.poll(timeout=10)
            assert len(await consumer.poll(timeout=10)) == 10

    simulate(scenario)


def test_an_error_in_a_callback_is_the_polls_and_the_partitions_are_given_up_all_the_same() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        first, second = Application(cluster, "a", enable_auto_commit=True), Application(cluster, "b")

        async def fail(_: list[int]) -> None:
            raise OSError("the application's own")

        first.on_revoked = fail
        first.start()
        await until(cluster, lambda: len(first.read) == 20)
        second.start()
        await until(cluster, lambda: second.assignment)
        [error] = first.errors
        assert isinstance(error, OSError)
        assert cluster.committed(second.assignment[0]) is None, "what it could not finish is not committed"
        first.on_revoked = None
        await first.close()
        await second.close()

    simulate(scenario)


def test_seeking_in_on_assigned_counts_more_than_what_is_committed() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 50)
        async with cluster.member() as consumer:
            consumer.subscribe(["t"], on_assigned=lambda each: consumer.seek(each[0], 90))
            assert [each.offset for each in await consumer.poll(timeout=10)] == list(range(90, 100))

    simulate(scenario)


def test_what_the_member_tells_of_itself() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 1)
        options = {"client_id": "billing-1", "client_rack": "rack-2", "group_remote_assignor": "range"}
        async with cluster.member(topics=["t"], max_poll_interval_ms=60_000, **options) as consumer:
            await consumer.poll(timeout=10)
            [first, *later] = cluster.heartbeats()
            assert first.subscription == group_pb2.GroupSubscription(
                topics=["t"],
                assignor="range",
                rack="rack-2",
                client_id="billing-1",
                rebalance_timeout_ms=60_000,
            )
            assert first.member_epoch == 0
            assert not first.owned
            assert not any(each.HasField("subscription") for each in later)

    simulate(scenario)


def test_calls_of_groups_need_one() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 1)
        async with cluster.consumer(topics=["t"]) as consumer:
            with pytest.raises(InvalidRequest, match="not in a group"):
                consumer.subscribe(["t"])
            with pytest.raises(InvalidRequest, match="not in a group"):
                await consumer.commit()
            with pytest.raises(InvalidRequest, match="not in a group"):
                await consumer.committed(("t", 0))
        async with cluster.member(topics=["t"]) as consumer:
            with pytest.raises(InvalidRequest, match="the group assigns"):
                consumer.assign([("t", 0)])

    simulate(scenario)
