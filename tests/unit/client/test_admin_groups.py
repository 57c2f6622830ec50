"""Administration of groups: asked from whoever coordinates them, and nothing is left out silently."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from quorate.client import Admin
from quorate.client.admin.group_types import GroupListing, OffsetReset
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    InvalidUpdateVersion,
    QuorateError,
    Unavailable,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import group_pb2
from tests.unit.client.fake_coordinator import Committed, FakeCoordinator, GroupCluster, simulate
from tests.unit.client.fake_log_broker import TIMESTAMP
from tests.unit.client.group_helpers import Application, until

T0: Any = ("t", 0)


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


def test_groups_are_listed_from_every_broker() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a", group="reads")
        app.start()
        await until(cluster, lambda: app.assignment)
        cluster.group("idle")
        async with cluster.admin() as admin:
            assert await admin.list_groups() == [
                GroupListing("idle", "empty", 0),
                GroupListing("reads", "stable", 1),
            ]
        asked = {broker for _, broker, each in cluster.heard if isinstance(each, group_pb2.ListGroupsRequest)}
        assert asked == {1, 2, 3}
        await app.close()

    simulate(scenario)


def test_a_list_waits_for_groups_that_are_being_loaded_and_says_so_in_the_end() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.group("idle")
        cluster.is_loading = True
        cluster.simulation.loop.call_later(3, setattr, cluster, "is_loading", False)
        async with cluster.admin() as admin:
            assert [each.group for each in await admin.list_groups()] == ["idle"]
            cluster.is_loading = True
            with pytest.raises(CoordinatorLoadInProgress, match="has not loaded all groups"):
                await admin.list_groups(timeout=5)

    simulate(scenario)


def test_a_broker_that_is_silent_fails_a_list_instead_of_shortening_it() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.group("idle")
        async with cluster.admin() as admin:
            await admin.list_groups()
            cluster.network.node_died("b1")
            with pytest.raises(Unavailable):
                await admin.list_groups(timeout=5)

    simulate(scenario)


def test_a_group_is_described_with_its_members_and_how_far_it_has_come() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        app = Application(cluster, "a", client_id="billing-1", client_rack="rack-1")
        app.start()
        await until(cluster, lambda: len(app.read) == 20)
        await app.consumer.commit()
        cluster.group_errors["DescribeGroups"] = deque([Unavailable("gone")])
        async with cluster.admin() as admin:
            group = await admin.describe_group("g")
            [member] = group.members
            assert (group.state, group.coordinator, group.lag) == ("stable", 1, 14)
            assert (member.member_id, member.client_id, member.rack) == (app.member_id, "billing-1", "rack-1")
            assert member.assignment == (("t", 0), ("t", 1))
            assert [(each.partition, each.committed_offset, each.lag) for each in group.progress] == [
                (("t", 0), 10, 7),
                (("t", 1), 10, 7),
            ]
            with pytest.raises(GroupNotFound):
                await admin.describe_group("nobody")
            assert list(await admin.describe_groups(["g", "nobody"])) == ["g"]
        await app.close()

    simulate(scenario)


def test_many_groups_are_asked_for_at_once() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        names = [f"g{number}" for number in range(250)]
        for name in names:
            cluster.group(name)
        async with cluster.admin() as admin:
            described = await admin.describe_groups([*names, "nobody", "g0"])
            assert list(described) == names
            assert all(described[name].group == name for name in names)
        assert len(cluster.requests(group_pb2.FindCoordinatorsRequest)) == 3
        assert [len(each.groups) for each in cluster.requests(group_pb2.DescribeGroupsRequest)] == [
            100,
            100,
            51,
        ]

    simulate(scenario)


def test_what_was_described_is_not_asked_for_again_when_something_else_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    describe = FakeCoordinator.describe
    loading = {"g7", "g120"}

    async def describe_some(self: FakeCoordinator, request: Any, call: Any) -> Any:
        response = await describe(self, request, call)
        for each in response.groups:
            if each.group in loading:
                loading.remove(each.group)
                each.error.CopyFrom(detail_from_error(CoordinatorLoadInProgress("loading")))
        return response

    monkeypatch.setattr(FakeCoordinator, "describe", describe_some)

    async def scenario(cluster: GroupCluster) -> None:
        for number in range(150):
            cluster.group(f"g{number}")
        async with cluster.admin() as admin:
            assert len(await admin.describe_groups([f"g{number}" for number in range(150)])) == 150
        asked = [list(each.groups) for each in cluster.requests(group_pb2.DescribeGroupsRequest)]
        assert [len(each) for each in asked] == [100, 50, 2]
        assert asked[-1] == ["g7", "g120"]

    simulate(scenario)


def test_an_error_that_no_other_attempt_helps_against_ends_the_description_at_once() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.group("g")
        cluster.group_errors["DescribeGroups"] = deque([InvalidRequest("no")])
        async with cluster.admin() as admin:
            with pytest.raises(InvalidRequest, match="no"):
                await admin.describe_groups(["g"])
            with pytest.raises(InvalidRequest, match="group is"):
                await admin.describe_groups(["g", ""])

    simulate(scenario)


def test_groups_whose_coordinator_is_not_there_in_time_fail_the_description_of_all() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.group("g")
        cluster.elect_coordinator(None)
        async with cluster.admin() as admin:
            with pytest.raises(CoordinatorNotAvailable):
                await admin.describe_groups(["g"], timeout=3)
            cluster.simulation.loop.call_later(2, cluster.elect_coordinator, 2)
            assert list(await admin.describe_groups(["g"])) == ["g"]
            assert await admin.describe_groups([]) == {}

    simulate(scenario)


def test_a_coordinator_that_moves_is_found_again() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.commit(0, 5)
        async with cluster.admin() as admin:
            assert (await admin.describe_group("g")).coordinator == 1
            cluster.elect_coordinator(3)
            assert (await admin.describe_group("g")).coordinator == 3
            cluster.elect_coordinator(None)
            cluster.simulation.loop.call_later(5, cluster.elect_coordinator, 2)
            assert (await admin.list_group_offsets("g"))[T0].offset == 5

    simulate(scenario)


def test_a_group_is_deleted_when_it_has_no_members() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        app = Application(cluster, "a")
        app.start()
        await until(cluster, lambda: app.assignment)
        async with cluster.admin() as admin:
            with pytest.raises(GroupNotEmpty):
                await admin.delete_group("g")
            await app.close()
            await admin.delete_group("g")
            with pytest.raises(GroupNotFound):
                await admin.delete_group("g")

    simulate(scenario)


def test_a_deletion_whose_answer_was_lost_is_done() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        cluster.group("g")
        async with cluster.admin() as admin:
            await admin.list_groups()
            cluster.lose_answers["DeleteGroups"] = 1
            await admin.delete_group("g")
            assert cluster.groups == {}

    simulate(scenario)


def test_a_group_is_deleted_as_it_was_seen() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.commit(0, 5)
        async with cluster.admin() as admin:
            seen = (await admin.describe_group("g")).revision
            cluster.commit(0, 7)
            with pytest.raises(InvalidUpdateVersion):
                await admin.delete_group("g", revision=seen)
            assert cluster.committed() == 7
            await admin.delete_group("g", revision=(await admin.describe_group("g")).revision)
            assert cluster.groups == {}

    simulate(scenario)


def test_a_change_is_made_again_where_others_were_faster_and_nothing_was_done() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.admin() as admin:
            changes: list[Any] = [
                lambda: admin.commit_offsets("g", {T0: 30}),
                lambda: admin.delete_offsets("g", [T0]),
                lambda: admin.delete_group("g"),
            ]
            for change in changes:
                cluster.commit(0, 5)
                # Between the look and the change.
                cluster.group_errors["CommitOffsets"] = deque([InvalidUpdateVersion("others")])
                cluster.group_errors["DeleteOffsets"] = deque([InvalidUpdateVersion("others")])
                cluster.group_errors["DeleteGroups"] = deque([InvalidUpdateVersion("others")])
                await change()
            assert cluster.groups == {}

    simulate(scenario)


def test_a_change_without_an_answer_is_not_made_again_when_others_had_the_last_word() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.admin() as admin:
            await admin.commit_offsets("g", {T0: 1})
            changes: list[tuple[str, Any]] = [
                ("CommitOffsets", lambda: admin.commit_offsets("g", {T0: 30})),
                ("DeleteOffsets", lambda: admin.delete_offsets("g", [T0])),
                ("DeleteGroups", lambda: admin.delete_group("g")),
            ]
            for method, change in changes:
                cluster.lose_answers[method] = 1
                cluster.simulation.loop.call_later(2, cluster.commit, 0, 77)
                with pytest.raises(QuorateError) as raised:
                    await change()
                assert raised.value.outcome_unknown, method
                assert cluster.committed() == 77, method

    simulate(scenario)


def test_offsets_are_committed_in_nobodys_name_while_there_are_no_members() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        async with cluster.admin() as admin:
            await admin.commit_offsets("g", {T0: 30, ("t", 1): OffsetAndMetadata(40, 1, "by hand")})
            found = await admin.list_group_offsets("g")
            assert [(name, each.offset, each.metadata) for name, each in found.items()] == [
                (("t", 0), 30, ""),
                (("t", 1), 40, "by hand"),
            ]
            assert cluster.group().offsets[cluster.topics["t"].topic_id, 1] == Committed(40, 1, "by hand")
            await admin.delete_offsets("g", [T0])
            assert list(await admin.list_group_offsets("g")) == [("t", 1)]
            with pytest.raises(UnknownTopicOrPartition, match="2 partitions"):
                await admin.commit_offsets("g", {("t", 2): 1})
            app = Application(cluster, "a")
            app.start()
            await until(cluster, lambda: app.assignment)
            with pytest.raises(GroupNotEmpty, match="nobody else may commit"):
                await admin.commit_offsets("g", {T0: 1})
            await app.close()

    simulate(scenario)


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ({"to": "earliest"}, 20),
        ({"to": "latest"}, 100),
        ({"to": 55}, 55),
        ({"to": 5}, 20),
        ({"to": 500}, 100),
        ({"timestamp_ms": TIMESTAMP + 70}, 70),
        ({"timestamp_ms": TIMESTAMP + 1000}, 100),
    ],
)
def test_a_reset_shows_its_plan_and_stays_within_the_log(to: Any, after: int) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        cluster.topics["t"].partitions[0].delete_before(20)
        cluster.commit(0, 60)
        async with cluster.admin() as admin:
            plan = await admin.reset_offsets("g", [T0], **to, validate_only=True)
            assert plan == {T0: OffsetReset(60, after)}
            assert cluster.committed() == 60
            assert await admin.reset_offsets("g", [T0], **to) == plan
            assert cluster.committed() == after
            assert list(await admin.reset_offsets("g", "t", **to, validate_only=True)) == [("t", 0), ("t", 1)]

    simulate(scenario)


@pytest.mark.parametrize("to", [{}, {"to": "earliest", "timestamp_ms": 5}, {"to": "middle"}, {"to": -1}])
def test_a_reset_to_nowhere_is_refused(to: Any) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 1)
        async with cluster.admin() as admin:
            with pytest.raises(InvalidRequest):
                await admin.reset_offsets("g", "t", **to)

    simulate(scenario)


@pytest.mark.parametrize("group", ["", None, 5])
def test_a_group_is_named(group: Any) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        async with cluster.admin() as admin:
            for call in (admin.describe_group, admin.delete_group, admin.list_group_offsets):
                with pytest.raises(InvalidRequest, match="group is"):
                    await call(group)

    simulate(scenario)


def test_the_synchronous_kind_has_the_same_calls() -> None:
    with Admin("127.0.0.1:1") as admin:
        calls: list[Any] = [
            admin.list_groups,
            lambda timeout: admin.describe_group("g", timeout=timeout),
            lambda timeout: admin.describe_groups(["g"], timeout=timeout),
            lambda timeout: admin.delete_group("g", timeout=timeout),
            lambda timeout: admin.list_group_offsets("g", timeout=timeout),
            lambda timeout: admin.commit_offsets("g", {T0: 1}, timeout=timeout),
            lambda timeout: admin.reset_offsets("g", "t", "latest", timeout=timeout),
            lambda timeout: admin.delete_offsets("g", [T0], timeout=timeout),
        ]
        for call in calls:
            with pytest.raises(QuorateError):
                call(timeout=0.05)
