"""The lag of groups for metrics: who is asked, when, how much, and what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.broker.groups import lag_watch
from quorate.broker.groups.lag_watch import GroupSnapshot, LagWatch
from quorate.broker.metrics.group import GroupMetrics
from quorate.core.config import MetricsConfig
from quorate.core.ids import TopicName
from quorate.core.records import Record, encode_batch
from quorate.errors import OffsetNotAvailable, Unavailable
from quorate.v1.group_pb2 import DescribeGroupsRequest
from tests.unit.broker.broker_harness import SECOND, THIRD
from tests.unit.groups_coordinator.fake_leaders import FakeLeader
from tests.unit.groups_coordinator.group_world import GROUP, GroupWorld, settle, simulate

INTERVAL_S = 15.0
#: somebody who reads once in this time is a reader
WATCHED_S = 180.0


def groups_of(world: GroupWorld) -> dict[str, GroupSnapshot]:
    snapshot = world.groups.lag_watch.latest()
    assert snapshot is not None
    return {each.name: each for each in snapshot.groups()}


def lags_of(world: GroupWorld, group: str = GROUP) -> dict[tuple[str, int], int | None]:
    return {
        (each.topic, each.partition): None if each.lag is None else each.lag.records
        for each in groups_of(world)[group].partitions
    }


async def read(world: GroupWorld) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    """As a collector does."""
    source = GroupMetrics(world.groups.coordinator, world.groups.lag_watch)
    await source.look()
    return {
        reading.metric.name: [(sample.labels, sample.value) for sample in reading.samples]
        for reading in source.read()
    }


async def append(world: GroupWorld, topic: str, *ages_ms: int) -> None:
    leadership = world.partition(0, topic=topic).leadership
    assert leadership is not None
    now = world.clock.wall_ms()
    leadership.append(encode_batch([Record(0, now - age, None, b"v") for age in ages_ms]), acks_all=True)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    looks: list[None] = []
    look = LagWatch._look

    async def counted(watch: LagWatch) -> Any:
        looks.append(None)
        return await look(watch)

    monkeypatch.setattr(LagWatch, "_look", counted)
    return looks


# -- when


def test_nobody_is_asked_while_nobody_reads() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        leader = FakeLeader(world, SECOND, {1: 10})
        await leader.serve()
        leader.lead(1)
        await world.clock.sleep(3600)
        assert leader.questions == []
        assert world.groups.lag_watch.latest() is None

    simulate(scenario)


def test_the_first_reader_gets_what_the_first_look_finds() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        await world.groups.lag_watch.want()
        assert lags_of(world) == {("t", 0): 7, ("t", 1): 10, ("t", 2): 10, ("t", 3): 10}

    simulate(scenario)


def test_the_first_reader_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        leader = FakeLeader(world, SECOND, {})
        leader.may_answer.clear()
        await leader.serve()
        leader.lead(0)
        # Longer than a question may take, so that no answer can be what ends the wait.
        monkeypatch.setattr(world.groups.lag_watch._calls, "ask", never)
        before = world.clock.monotonic()
        told = await read(world)
        assert world.clock.monotonic() - before == pytest.approx(3.0)
        assert told.keys() == {"quorate_group_coordinated_groups"}

    simulate(scenario)


async def never(*_: Any) -> Any:
    await asyncio.Event().wait()


def test_a_reader_of_a_broker_that_does_not_run_yet_does_not_wait() -> None:
    async def scenario(world: GroupWorld) -> None:
        before = world.clock.monotonic()
        await world.groups.lag_watch.want()
        assert world.clock.monotonic() == before

    simulate(scenario)


def test_looks_are_taken_at_the_interval_however_often_somebody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = count_looks(monkeypatch)

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        for _ in range(59):
            await read(world)
            await world.clock.sleep(1.0)
        assert len(looks) == 4

    simulate(scenario)


def test_a_look_finds_what_was_committed_since() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        await read(world)
        await world.commit({world.at(0): 9})
        assert lags_of(world)["t", 0] == 7
        await world.clock.sleep(INTERVAL_S + 1)
        assert lags_of(world)["t", 0] == 1

    simulate(scenario)


def test_looks_end_when_nobody_has_read_for_long_and_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count_looks(monkeypatch)

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        await read(world)
        await world.clock.sleep(WATCHED_S + 2 * INTERVAL_S)
        count = len(looks)
        await world.clock.sleep(3600)
        assert len(looks) == count
        assert world.groups.lag_watch.latest() is None, "old numbers are not told"
        assert world.groups.lag_watch._latest is None, "nor kept"
        await world.commit({world.at(0): 10})
        await read(world)
        assert lags_of(world)["t", 0] == 0

    simulate(scenario)


def test_what_is_too_old_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        await read(world)
        # The next look does not end.
        monkeypatch.setattr(world.groups.lag_watch._calls, "ask", never)
        await world.clock.sleep(2 * INTERVAL_S)
        assert "quorate_group_lag_records" in await read(world)
        await world.clock.sleep(2 * INTERVAL_S)
        assert "quorate_group_lag_records" not in await read(world)

    simulate(scenario)


def test_a_mistake_of_ours_does_not_end_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        with monkeypatch.context() as broken:
            broken.setattr(LagWatch, "_find", lambda *_: 1 // 0)
            told = await read(world)
            assert "quorate_group_lag_records" not in told
        await world.clock.sleep(INTERVAL_S)
        await read(world)
        assert lags_of(world)["t", 0] == 7

    simulate(scenario)


# -- who is asked


def test_a_leader_is_asked_once_about_all_groups() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leaders = [FakeLeader(world, SECOND, {0: 10, 1: 10}), FakeLeader(world, THIRD, {2: 10, 3: 10})]
        for leader, numbers in zip(leaders, ((0, 1), (2, 3)), strict=True):
            await leader.serve()
            leader.lead(*numbers)
        for number in range(10):
            await world.commit({world.at(0): number}, group=f"g{number}")
        for leader in leaders:
            leader.questions.clear()
        await read(world)
        [of_second], [of_third] = (leader.questions for leader in leaders)
        assert sorted(of_second) == [0] * 10 + [1], "ten groups at ten places, and one where none has begun"
        assert sorted(of_third) == [2, 3]

    simulate(scenario)


def test_a_look_goes_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "_PARTITIONS_PER_TURN", 20)

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, dict.fromkeys(range(4), 10))
        await leader.serve()
        leader.lead(0, 1, 2, 3)
        for number in range(20):
            offsets = {world.at(each): number % 10 for each in range(4)}
            await world.commit(offsets, group=f"g{number:02}")
        leader.questions.clear()
        await read(world)
        assert len(groups_of(world)) == 20
        assert len(leader.questions) == 5
        assert max(map(len, leader.questions)) <= 16

    simulate(scenario)


def test_a_leader_that_does_not_answer_costs_its_own_partitions_their_lag() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3, world.at(1): 3})
        FakeLeader(world, SECOND, {}).lead(1)
        leader = FakeLeader(world, THIRD, {2: OffsetNotAvailable("not yet")})
        await leader.serve()
        leader.lead(2)
        told = await read(world)
        assert lags_of(world) == {("t", 0): 7, ("t", 1): None, ("t", 2): None, ("t", 3): 10}
        assert told["quorate_group_lag_unknown_partitions"] == [((), 2)]
        assert [labels for labels, _ in told["quorate_group_lag_records"]] == [
            (GROUP, "t", "0"),
            (GROUP, "t", "3"),
        ]

    simulate(scenario)


def test_a_leader_that_hangs_costs_a_look_its_time_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "_PARTITIONS_PER_TURN", 1)

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: 10})
        await leader.serve()
        leader.lead(0)
        for number in range(20):
            await world.commit({world.at(0): number % 10}, group=f"g{number:02}")
        leader.questions.clear()
        leader.may_answer.clear()
        before = world.clock.monotonic()
        told = await read(world)
        assert world.clock.monotonic() - before < 3.0
        assert len(leader.questions) == 1
        assert told["quorate_group_lag_unknown_partitions"] == [((), 20)]
        assert len(told["quorate_group_lag_records"]) == 60, "the others are told"
        leader.may_answer.set()
        await world.clock.sleep(INTERVAL_S + 1)
        assert (await read(world))["quorate_group_lag_unknown_partitions"] == [((), 0)], "it is asked again"

    simulate(scenario)


def test_what_a_leader_says_of_one_partition_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "_PARTITIONS_PER_TURN", 1)

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: Unavailable("not this one"), 1: 10})
        await leader.serve()
        leader.lead(0, 1)
        await world.commit({world.at(2): 3}, group="a")
        await world.commit({world.at(2): 3}, group="b")
        told = await read(world)
        assert told["quorate_group_lag_unknown_partitions"] == [((), 2)]
        assert dict(told["quorate_group_lag_records"])["b", "t", "1"] == 10

    simulate(scenario)


# -- what is told


def test_lag_is_what_a_description_says() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="100000")
        world.tell()
        await append(world, "l", 50_000, 40_000)
        await world.commit({world.at(0, "l"): 1, world.at(0): 2})
        told = await read(world)
        [description] = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[GROUP]))).groups
        progress = {(GROUP, each.topic, str(each.partition)): each for each in description.progress}
        assert dict(told["quorate_group_lag_records"]) == {key: each.lag for key, each in progress.items()}
        assert dict(told["quorate_group_lag_seconds"]) == {
            key: each.lag_ms / 1000 for key, each in progress.items()
        }
        assert dict(told["quorate_group_lag_retention_ratio"]) == {
            key: pytest.approx(each.lag_of_retention) for key, each in progress.items()
        }
        assert dict(told["quorate_group_lag_seconds"])[GROUP, "l", "0"] == 40.0
        assert dict(told["quorate_group_lag_retention_ratio"])[GROUP, "l", "0"] == 0.4

    simulate(scenario)


def test_topics_that_keep_their_records_for_ever_have_no_share_of_it() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="-1")
        world.tell()
        await append(world, "l", 50_000)
        await world.commit({world.at(0, "l"): 0})
        told = await read(world)
        assert told["quorate_group_lag_seconds"] == [((GROUP, "l", "0"), 50.0)]
        assert told["quorate_group_lag_retention_ratio"] == []

    simulate(scenario)


def test_members_and_state_are_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.join("a")
        await world.join("b")
        await world.commit({world.at(0): 3}, group="empty")
        await world.join("c", group="stable")
        told = await read(world)
        assert dict(told["quorate_group_members"]) == {(GROUP,): 2, ("empty",): 0, ("stable",): 1}
        assert told["quorate_group_coordinated_groups"] == [((), 3)]
        assert {labels for labels, _ in told["quorate_group_state_info"]} == {
            (GROUP, "reconciling"),
            ("empty", "empty"),
            ("stable", "stable"),
        }

    simulate(scenario)


def test_how_old_the_numbers_are_is_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await read(world)
        await world.clock.sleep(10.0)
        [(_, age_s)] = (await read(world))["quorate_group_lag_age_seconds"]
        assert age_s == pytest.approx(10.0)

    simulate(scenario)


def test_offsets_of_a_topic_that_was_deleted_vanish() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l")
        world.tell()
        await world.commit({world.at(0, "l"): 0, world.at(0): 3})
        await read(world)
        assert ("l", 0) in lags_of(world)
        # The coordinator is not told, so the group still has the offset.
        world._set_image(
            topics=world.image.topics.delete(world.topic_id("l")),
            topic_ids=world.image.topic_ids.delete(TopicName("l")),
        )
        await world.clock.sleep(INTERVAL_S + 1)
        assert [topic for topic, _ in lags_of(world)] == ["t"] * 4
        assert (await read(world))["quorate_group_lag_unknown_partitions"] == [((), 0)]

    simulate(scenario)


# -- who tells it


def test_a_group_is_not_told_by_who_coordinates_it_no_longer() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        other = next(f"g{n}" for n in range(99) if world.number_of(f"g{n}") != world.number_of())
        await world.commit({world.at(0): 3})
        await world.commit({world.at(0): 3}, group=other)
        await read(world)
        assert groups_of(world).keys() == {GROUP, other}
        world.lead(SECOND)
        assert groups_of(world).keys() == {other}
        told = await read(world)
        assert {labels[0] for labels, _ in told["quorate_group_lag_records"]} == {other}
        assert told["quorate_group_coordinated_groups"] == [((), 1)]

    simulate(scenario)


def test_a_broker_without_its_lease_tells_nothing_of_groups() -> None:
    """Rule 37: another one may tell the same by now."""

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        await read(world)
        world.lease.revoke()
        assert (await read(world)).keys() == {"quorate_group_coordinated_groups"}
        world.keep_lease()
        assert "quorate_group_lag_records" in await read(world)

    simulate(scenario)


# -- bounds


def bounded(partitions_max: int, scenario: Callable[[GroupWorld], Awaitable[None]]) -> None:
    simulate(scenario, metrics=MetricsConfig(groups_partitions_max=partitions_max))


def test_a_group_that_does_not_fit_is_left_out_as_a_whole() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start(partitions=1)
        await world.create_topic("s")
        world.tell()
        for name in ("a", "b", "c"):
            await world.commit({world.at(0): 3}, group=name)
        await world.commit({world.at(0, "s"): 0}, group="small")
        told = await read(world)
        # Each takes one for itself and four for its partitions; what is left is enough for the small one.
        assert groups_of(world).keys() == {"a", "b", "small"}
        assert len(told["quorate_group_lag_records"]) == 9
        assert told["quorate_group_left_out_groups"] == [((), 1)]
        assert told["quorate_group_coordinated_groups"] == [((), 4)]

    bounded(12, scenario)


def test_what_is_left_out_is_logged_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(lag_watch.log, "warning", lambda event, **_: logged.append(event))

    async def scenario(world: GroupWorld) -> None:
        await world.start(partitions=1)
        await world.commit({world.at(0): 3}, group="a")
        await world.commit({world.at(0): 3}, group="b")
        for _ in range(100):
            await read(world)
            await world.clock.sleep(1.0)
        assert logged == ["group_metrics_left_out"]

    bounded(5, scenario)


def test_with_no_room_at_all_nobody_is_asked() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: 10})
        await leader.serve()
        leader.lead(0)
        await world.commit({world.at(0): 3})
        leader.questions.clear()
        told = await read(world)
        assert told["quorate_group_left_out_groups"] == [((), 1)]
        assert told["quorate_group_lag_records"] == []
        assert leader.questions == []

    bounded(0, scenario)


def test_groups_that_go_while_a_look_is_taken_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "_PARTITIONS_PER_TURN", 1)

    async def scenario(world: GroupWorld) -> None:
        await world.start(partitions=1)
        leader = FakeLeader(world, SECOND, {0: 10})
        await leader.serve()
        leader.lead(0)
        for number in range(5):
            await world.commit({world.at(0): 3}, group=f"g{number}")
        leader.may_answer.clear()
        reading = asyncio.create_task(read(world))
        await settle()
        world.lead(SECOND, group="g0")
        leader.may_answer.set()
        told = await reading
        assert told["quorate_group_lag_records"] == []

    simulate(scenario)
