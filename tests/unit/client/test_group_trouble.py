"""What happens to a member when the coordinator, the network or the application fails it."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import structlog

from quorate.chaos.sim.network import LinkFaults
from quorate.core.ids import TopicPartition
from quorate.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupFull,
    HeartbeatOvertaken,
    InvalidRequest,
    InvalidUpdateVersion,
    QuorateError,
    UnknownMember,
    UnreleasedInstance,
)
from quorate.v1 import group_pb2
from tests.unit.client.fake_coordinator import GroupCluster, simulate
from tests.unit.client.group_helpers import Application, until


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


def refill(cluster: GroupCluster, records: int) -> None:
    for partition in cluster.topics["t"].partitions:
        partition.fill(records)
    cluster.tell()


# -- the heartbeat as a long poll


def test_one_heartbeat_waits_and_nothing_is_asked_in_between() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 1)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: app.assignment)
        await cluster.sleep(1)
        before = len(cluster.heartbeats())
        await cluster.sleep(60)
        assert 18 <= len(cluster.heartbeats()) - before <= 22, "one every three seconds"
        assert all(each.max_wait_ms == 3000 for each in cluster.heartbeats()[-10:])
        await app.close()

    simulate(scenario)


def test_a_change_is_heard_of_within_a_round_trip_and_not_at_the_next_heartbeat() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.heartbeat_interval_ms = 60_000
        topic_of(cluster, 2, 1)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.start()
        await until(cluster, lambda: first.assignment)
        await cluster.sleep(20)
        before = cluster.now()
        second.start()
        await until(cluster, lambda: second.assignment)
        assert cluster.now() - before < 0.2
        await first.close()
        await second.close()

    simulate(scenario)


def test_a_coordinator_that_does_not_wait_is_not_called_without_a_pause() -> None:
    """It answers at once while something is to be given up; the application takes its time."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        slow, other = Application(cluster, "a"), Application(cluster, "b")
        slow.processing_s = 100
        slow.start()
        await until(cluster, lambda: slow.read)
        other.start()
        await cluster.sleep(1)
        before = len(cluster.heartbeats(slow.member_id))
        await cluster.sleep(60)
        assert 18 <= len(cluster.heartbeats(slow.member_id)) - before <= 22
        assert len(cluster.group().members) == 2
        await slow.close()
        await other.close()

    simulate(scenario)


# -- answers that get lost


def test_lost_answers_to_heartbeats_and_commits_change_nothing() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 50)
        cluster.lose_answers = {"GroupHeartbeat": 3, "FetchOffsets": 1, "CommitOffsets": 2}
        first = Application(cluster, "a", enable_auto_commit=True)
        second = Application(cluster, "b", enable_auto_commit=True)
        first.start()
        await until(cluster, lambda: first.assignment == [0, 1, 2, 3])
        cluster.lose_answers |= {"GroupHeartbeat": 4}
        second.start()
        await until(cluster, lambda: len(first.assignment) == len(second.assignment) == 2, within_s=120)
        await until(cluster, lambda: len(first.read) + len(second.read) >= 200)
        assert sorted(first.read + second.read) == [(n, o) for n in range(4) for o in range(50)]
        assert first.errors == second.errors == []
        await first.close()
        await second.close()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_network_that_loses_frames_costs_time_and_nothing_else(seed: int) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 200)
        cluster.network.break_after_s = 2.0
        apps = [Application(cluster, name, enable_auto_commit=True) for name in "ab"]
        for app in apps:
            for broker in ("b1", "b2", "b3"):
                faults = LinkFaults(drop_probability=0.03)
                cluster.network.set_faults(app.name, broker, faults)
                cluster.network.set_faults(broker, app.name, faults)
            app.max_records, app.processing_s = 20, 0.5
            app.start()
        await until(cluster, lambda: len({*apps[0].read, *apps[1].read}) == 800, within_s=600)
        await cluster.sleep(2)  # until it is processed, and the applications have come back
        for app in apps:
            for broker in ("b1", "b2", "b3"):
                cluster.network.set_faults(app.name, broker, None)
                cluster.network.set_faults(broker, app.name, None)
            await app.close()
        assert all(cluster.committed(number) == 200 for number in range(4))

    simulate(scenario, seed=seed)


def test_a_call_that_was_overtaken_may_be_refused_without_harm() -> None:
    """It names a partition that was given up since, so the coordinator takes it for a liar's."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 1)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.on_revoked = lambda _: cluster.sleep(0.1)
        first.start()
        await until(cluster, lambda: len(first.assignment) == 2)
        # An answer that takes a partition away is followed by a call that still names it: it is held up.
        cluster.hold_back = lambda each: (
            each.member_id == first.member_id and len(each.owned[0].partitions) == 2
        )
        second.start()
        await until(cluster, lambda: cluster.held_back)
        await until(cluster, lambda: second.assignment)
        await cluster.sleep(20)
        assert [what for what, _ in first.heard] == ["assigned", "revoked"]
        await first.close()
        await second.close()

    simulate(scenario)


def test_a_join_that_names_an_old_departure_is_made_again_with_the_last_one() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        refusal = InvalidUpdateVersion("somebody has gone", departure_epoch=5)
        cluster.group_errors["GroupHeartbeat"] = deque([refusal])
        app = Application(cluster, "a")
        began = cluster.now()
        app.start()
        await until(cluster, lambda: app.assignment)
        assert cluster.now() - began < 0.5
        await until(cluster, lambda: len(app.read) == 10)
        assert app.errors == []
        first, second = cluster.heartbeats()[:2]
        assert (first.departure_epoch, second.departure_epoch) == (0, 5)
        assert second.call_number > first.call_number
        await app.close()

    simulate(scenario)


def test_a_call_whose_copy_was_faster_is_followed_by_another_at_once() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.group_errors["GroupHeartbeat"] = deque([HeartbeatOvertaken("a later one was heard")])
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 10)
        assert app.errors == []
        cluster.group_errors["GroupHeartbeat"] = deque([HeartbeatOvertaken("a later one was heard")])
        asked = len(cluster.heartbeats())
        await until(cluster, lambda: len(cluster.heartbeats()) == asked + 2)
        assert app.errors == []
        assert [what for what, _ in app.heard] == ["assigned"]
        await app.close()

    simulate(scenario)


# -- coordinators that come and go


@pytest.mark.parametrize("gap_s", [0, 5])
def test_a_coordinator_that_dies_is_replaced_and_nobody_moves(gap_s: int) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 10)
        apps = [Application(cluster, name, enable_auto_commit=True) for name in "ab"]
        for app in apps:
            app.start()
        await until(cluster, lambda: all(len(app.assignment) == 2 for app in apps))
        await until(cluster, lambda: sum(len(app.read) for app in apps) == 40)
        heard = [list(app.heard) for app in apps]
        cluster.kill_coordinator(None if gap_s else 2)
        if gap_s:
            await cluster.sleep(gap_s)
            for partition in cluster.topics["t"].partitions:
                partition.elect(2)
            cluster.elect_coordinator(2)
            cluster.tell()
        cluster.is_loading = True
        await cluster.sleep(2)
        cluster.is_loading = False
        refill(cluster, 20)
        await until(cluster, lambda: sum(len(app.read) for app in apps) == 80)
        assert [app.heard for app in apps] == heard
        await until(cluster, lambda: all(cluster.committed(number) == 20 for number in range(4)))
        assert all(app.errors == [] for app in apps)
        for app in apps:
            await app.close()

    simulate(scenario)


def test_a_broker_that_is_not_the_coordinator_names_it() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 10)
        searches = len(cluster.requests(group_pb2.FindCoordinatorsRequest))
        cluster.elect_coordinator(3)
        await app.consumer.commit()
        assert cluster.committed() == 10
        assert len(cluster.requests(group_pb2.FindCoordinatorsRequest)) == searches
        await app.close()

    simulate(scenario)


def test_trouble_with_coordinators_is_bounded_for_who_waits_for_a_commit() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 10)
        cluster.elect_coordinator(None)
        before, asked = cluster.now(), len(cluster.heard)
        with pytest.raises(CoordinatorNotAvailable):
            await app.consumer.commit(timeout=10)
        assert 5 < cluster.now() - before < 12
        assert len(cluster.heard) - asked < 200, "with pauses that grow"
        await app.close()

    simulate(scenario)


# -- members that are removed


@pytest.mark.parametrize("error", [UnknownMember("gone"), FencedMemberEpoch("an old one")])
@pytest.mark.parametrize("method", ["GroupHeartbeat", "CommitOffsets"])
def test_a_member_that_was_removed_loses_everything_and_comes_back(method: str, error: QuorateError) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.read) == 20)
        await app.consumer.commit({("t", 0): 10})
        was = app.member_id
        cluster.group_errors[method] = deque([error])
        if method == "CommitOffsets":
            with pytest.raises(type(error)):
                await app.consumer.commit()
        else:
            cluster.group().remove(was)
        await until(cluster, lambda: len(app.heard) == 3)
        assert app.heard == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert app.member_id != was
        await until(cluster, lambda: len(app.read) == 30)
        assert sorted(app.read[20:]) == [(1, offset) for offset in range(10)], "only what was not committed"
        await app.close()

    simulate(scenario)


def test_nothing_is_handed_out_after_the_group_has_gone_on_without_the_member() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        app = Application(cluster, "a")
        app.max_records, app.processing_s = 5, 10
        app.start()
        await until(cluster, lambda: app.read)
        cluster.group_errors["GroupHeartbeat"] = deque([UnknownMember("gone")] * 1000)
        cluster.group().remove(app.member_id)
        await cluster.sleep(5)
        assert app.consumer.statistics().bytes_buffered == 0
        fetches = len(cluster.fetches)
        await cluster.sleep(20)
        assert len(cluster.fetches) == fetches, "and nothing is fetched"
        assert app.heard[-1] == ("lost", [0])
        assert len(app.read) == 5
        assert app.assignment == []
        await app.close()

    simulate(scenario)


def test_without_on_lost_on_revoked_is_called() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 1)
        told: list[Any] = []
        async with cluster.member() as consumer:
            consumer.subscribe(["t"], on_revoked=told.append)
            await consumer.poll(timeout=10)
            [member_id] = cluster.group().members
            cluster.group().remove(member_id)
            await cluster.sleep(1)
            await consumer.poll(timeout=1)
            assert told == [[("t", 0)]]

    simulate(scenario)


# -- applications that do not come back


def test_an_application_that_does_not_poll_leaves_so_that_others_can_go_on() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        stuck, other = (Application(cluster, name, max_poll_interval_ms=30_000) for name in "ab")
        stuck.processing_s = 100
        stuck.start()
        await until(cluster, lambda: stuck.read)
        began = cluster.now()
        other.start()
        await until(cluster, lambda: other.assignment == [0, 1])
        assert 29 < cluster.now() - began < 35
        with pytest.raises(FencedMemberEpoch, match="not this consumer's"):
            await stuck.consumer.commit({("t", 0): 1})
        await until(cluster, lambda: len(stuck.assignment) == len(other.assignment) == 1, within_s=200)
        assert [what for what, _ in stuck.heard] == ["assigned", "lost", "assigned"]
        await stuck.close()
        await other.close()

    simulate(scenario)


@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_an_application_that_comes_back_in_time_stays(way: str) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"], max_poll_interval_ms=30_000) as consumer:
            for _ in range(20):
                if way == "poll":
                    assert len(await consumer.poll(1, timeout=10)) == 1
                else:
                    await anext(consumer)
                await cluster.sleep(25)
            assert len({each.member_id for each in cluster.heartbeats()}) == 1
            await cluster.sleep(40)
            assert cluster.group().members == {}
            assert (await anext(consumer)).offset == 0, "nothing was committed"

    simulate(scenario)


def test_an_application_that_waits_in_a_poll_is_there() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 0)
        async with cluster.member(topics=["t"], max_poll_interval_ms=5_000) as consumer:
            assert await consumer.poll(timeout=120) == []
            assert len(cluster.group().members) == 1
            assert len({each.member_id for each in cluster.heartbeats()}) == 1

    simulate(scenario)


# -- static members


def test_a_static_member_that_restarts_gets_what_it_had_and_nobody_else_notices() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 4, 10)
        first = Application(cluster, "a", group_instance_id="one")
        second = Application(cluster, "b", group_instance_id="two")
        first.start()
        second.start()
        await until(cluster, lambda: len(first.assignment) == len(second.assignment) == 2)
        had, heard = first.assignment, list(second.heard)
        await first.close()
        assert cluster.heartbeats()[-1].member_epoch == -2
        await cluster.sleep(5)
        again = Application(cluster, "c", group_instance_id="one")
        again.start()
        await until(cluster, lambda: again.assignment)
        assert again.assignment == had
        assert second.heard == heard
        await second.close()
        await again.close()

    simulate(scenario)


def test_a_static_member_that_is_stuck_leaves_for_good() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a", group_instance_id="one", max_poll_interval_ms=10_000)
        app.processing_s = 60
        app.start()
        await until(cluster, lambda: app.read)
        await cluster.sleep(15)
        assert cluster.heartbeats()[-1].member_epoch == -1
        await app.close()

    simulate(scenario)


def test_an_instance_that_is_in_use_is_waited_for_and_then_told() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.group_errors["GroupHeartbeat"] = deque([UnreleasedInstance("in use")] * 8)
        app = Application(cluster, "a", group_instance_id="one")
        app.start()
        await until(cluster, lambda: app.read)
        assert app.errors == [], "as after a restart: it is let go of in time"
        await app.close()
        cluster.group_errors["GroupHeartbeat"] = deque([UnreleasedInstance("in use")] * 40)
        other = Application(cluster, "b", group_instance_id="one")
        other.start()
        await until(cluster, lambda: other.errors, within_s=120)
        assert isinstance(other.errors[0], UnreleasedInstance)
        await until(cluster, lambda: other.assignment, within_s=300)
        await other.close()

    simulate(scenario)


def in_use(*, silent_ms: int) -> UnreleasedInstance:
    return UnreleasedInstance(
        "in use", silent_ms=silent_ms, heartbeat_interval_ms=3_000, session_timeout_ms=45_000
    )


def test_an_instance_whose_owner_is_heard_of_again_is_anothers_and_that_is_told_soon() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.group_errors["GroupHeartbeat"] = deque([in_use(silent_ms=1_000)] * 40)
        app = Application(cluster, "a", group_instance_id="one")
        app.start()
        began = cluster.now()
        await until(cluster, lambda: app.errors)
        assert isinstance(app.errors[0], UnreleasedInstance)
        assert 4 < cluster.now() - began < 20, "not while its last call may be waiting, nor a session later"
        await app.close()

    simulate(scenario)


def test_an_instance_whose_owner_is_silent_is_waited_for_until_its_session_is_over() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.group_errors["GroupHeartbeat"] = deque([in_use(silent_ms=60_000)] * 40)
        app = Application(cluster, "a", group_instance_id="one")
        app.start()
        began = cluster.now()
        await until(cluster, lambda: app.errors, within_s=120)
        assert 45 < cluster.now() - began < 60
        await app.close()

    simulate(scenario)


# -- refusals


@pytest.mark.parametrize("error", [GroupFull("no room"), InvalidRequest("what is that?")])
def test_what_a_coordinator_refuses_is_told_in_polls_and_tried_again(error: QuorateError) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.group_errors["GroupHeartbeat"] = deque([error] * 3)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: len(app.errors) == 3)
        assert all(type(each) is type(error) for each in app.errors)
        await until(cluster, lambda: len(app.read) == 10)
        await app.close()

    simulate(scenario)


def test_close_does_not_wait_long_for_a_coordinator_that_is_gone() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a", enable_auto_commit=True)
        app.start()
        await until(cluster, lambda: len(app.read) == 10)
        cluster.kill_coordinator(None)
        before = cluster.now()
        await app.close()
        assert cluster.now() - before < 15

    simulate(scenario)


def test_a_topic_that_is_made_anew_is_another_one_and_begins_anew() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a", enable_auto_commit=True, auto_offset_reset="latest")
        app.start()
        await until(cluster, lambda: app.assignment)
        refill(cluster, 20)
        await until(cluster, lambda: len(app.read) == 10)
        cluster.delete_topic("t")
        await cluster.sleep(1)
        topic_of(cluster, 1, 5)
        cluster.group().rebalance()
        await until(cluster, lambda: len(app.read) == 15)
        assert app.read[10:] == [(0, offset) for offset in range(5)]
        assert [what for what, _ in app.heard] == ["assigned", "revoked", "assigned"]
        assert app.errors == []
        await until(cluster, lambda: cluster.committed() == 5)
        await app.close()

    simulate(scenario)


def test_positions_of_partitions_that_are_held_are_told_and_others_are_not() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            assert len(await consumer.poll(timeout=10)) == 10
            assert consumer.lag() == {TopicPartition("t", 0): 0}  # type: ignore[arg-type]
            assert await consumer.position(("t", 0)) == 10
            with pytest.raises(InvalidRequest, match="t-1 is not assigned"):
                await consumer.position(("t", 1))

    simulate(scenario)


# -- nobody there


def test_a_cluster_that_nobody_answers_for_is_told_as_that_and_not_as_a_topic_that_is_missing() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.add_topic()
        app = Application(cluster, "a")
        for broker in range(1, 4):
            cluster.network.block("a", f"b{broker}")
        with structlog.testing.capture_logs() as told:
            app.start()
            await cluster.sleep(90)
        events = [each["event"] for each in told if each["log_level"] == "warning"]
        assert events == ["cluster_unreachable"]
        assert app.errors == [], "polls bring nothing, and the member goes on trying"
        cluster.network.heal()
        await until(cluster, lambda: app.assignment)
        await app.close()

    simulate(scenario)
