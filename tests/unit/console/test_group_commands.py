"""``quorate group``: what is told of groups, and what is done to them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from quorate.client import TopicPartition
from quorate.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupProgress,
    GroupStateName,
    MemberDescription,
)
from quorate.console import group_questions
from quorate.console.commands import group as group_command
from quorate.console.main import main
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from tests.unit.client.fake_log_broker import TIMESTAMP
from tests.unit.console.fake_administration import FakeAdministration, json_of
from tests.unit.console.fake_group_node import FakeGroupNode

Capsys = pytest.CaptureFixture[str]


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(partition))


def progress(partition: int, topic: str = "orders", **fields: Any) -> GroupProgress:
    values: dict[str, Any] = {
        "topic_id": "id",
        "member_id": None,
        "committed_offset": 5,
        "committed_at_ms": 1_767_225_600_000,
        "log_start_offset": 0,
        "end_offset": 12,
        "lag": 7,
        "lag_ms": 61_500,
        "lag_of_retention": 0.25,
        "metadata": "",
        "error": None,
        **fields,
    }
    return GroupProgress(partition=tp(partition, topic), **values)


def member(member_id: str, assignment: list[TopicPartition], **fields: Any) -> MemberDescription:
    values: dict[str, Any] = {
        "member_epoch": 3,
        "instance_id": "",
        "client_id": "",
        "host": "",
        "rack": "",
        "topics": ("orders",),
        "pattern": "",
        "target": tuple(assignment),
        "revoking": (),
        "silent_ms": 12,
        "is_away": False,
        **fields,
    }
    return MemberDescription(member_id=member_id, assignment=tuple(assignment), **values)


def described(
    group: str = "billing",
    *,
    state: GroupStateName = "stable",
    members: tuple[MemberDescription, ...] = (),
    progress: tuple[GroupProgress, ...] = (),
) -> GroupDescription:
    return GroupDescription(
        group=group,
        state=state,
        group_epoch=3,
        assignment_epoch=3,
        assignor="uniform",
        members=members,
        progress=progress,
        coordinator=2,
        revision="4.7",
    )


def lines_of(capsys: Capsys, *arguments: str) -> list[list[str]]:
    assert main(list(arguments)) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


# -- list


def test_groups_are_listed_with_what_each_reads_and_has_not_read(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    listed = [GroupListing("audit", "empty", 0), GroupListing("billing", "stable", 1)]
    audit = described("audit", state="empty", progress=(progress(0, lag=None),))
    billing = described(
        members=(member("m", [tp(0)]),), progress=(progress(0), progress(1), progress(0, "refunds"))
    )
    groups = {"audit": audit, "billing": billing}
    FakeAdministration(list_groups=[listed], describe_groups=groups).install(monkeypatch)
    assert lines_of(capsys, "group", "list") == [
        ["GROUP", "STATE", "MEMBERS", "TOPICS", "PARTITIONS", "LAG"],
        ["audit", "empty", "0", "orders", "1", "-"],
        ["billing", "stable", "1", "orders,refunds", "3", "21"],
    ]
    FakeAdministration(list_groups=[listed], describe_groups=groups).install(monkeypatch)
    assert json_of(capsys, "group", "list")["groups"][1] == {
        "group": "billing",
        "state": "stable",
        "members": 1,
        "topics": ["orders", "refunds"],
        "partitions": 3,
        "uncommitted_partitions": 0,
        "lag": 21,
    }


def test_lag_is_not_nothing_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    listed = [GroupListing("begins", "stable", 1), GroupListing("new", "empty", 0)]
    begins = described("begins", progress=(progress(0), progress(1, committed_offset=None)))
    groups = {"begins": begins, "new": described("new", state="empty")}
    FakeAdministration(list_groups=[listed], describe_groups=groups).install(monkeypatch)
    rows = lines_of(capsys, "group", "list")[1:]
    assert [row[5:] for row in rows] == [["14", "(without", "a", "commit:", "1", "partition)"], ["-"]]


def test_group_that_is_deleted_meanwhile_is_left_out_of_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    listed = [GroupListing("audit", "empty", 0), GroupListing("billing", "stable", 1)]
    admin = FakeAdministration(list_groups=[listed], describe_groups={"billing": described()})
    admin.install(monkeypatch)
    assert [each["group"] for each in json_of(capsys, "group", "list")["groups"]] == ["billing"]
    assert len(admin.asked("describe_groups")) == 1


def test_group_that_cannot_be_described_fails_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    listed = [GroupListing("audit", "empty", 0)]
    FakeAdministration(list_groups=[listed], describe_groups=NotLeaderOrFollower("no")).install(monkeypatch)
    assert main(["group", "list"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: NOT_LEADER_OR_FOLLOWER: no\n  what to do: ")


def test_who_waits_for_a_cluster_that_does_not_answer_hears_so_and_whom_it_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setattr(group_questions, "_REMARK_S", 0.0)
    monkeypatch.setattr(group_command, "_TIMEOUT_S", 0.5)
    assert main(["group", "list", "--bootstrap", "127.0.0.1:1,127.0.0.1:2"]) == 1
    remark, error, _ = capsys.readouterr().err.splitlines()
    assert remark == "no answer from 127.0.0.1:1,127.0.0.1:2 yet; still trying"
    assert error.startswith("error: UNAVAILABLE: nobody answers at any of 127.0.0.1:1, 127.0.0.1:2")


@pytest.mark.parametrize("command", [["group", "describe", ""], ["consume", "t", "--group", ""]])
def test_group_without_a_name_is_wrong_usage(capsys: Capsys, command: list[str]) -> None:
    assert main(command) == 2
    assert "a group's name has a character at least" in capsys.readouterr().err


# -- describe


def test_group_is_described_by_its_members_and_partitions(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    members = (
        member("busy", [tp(0), tp(1)], instance_id="billing-1", client_id="app", host="h1"),
        member("idle", []),
        member("gives", [tp(2)], revoking=(tp(3),)),
        member("waits", [], target=(tp(3),)),
        member("away", [tp(4)], instance_id="billing-2", is_away=True),
    )
    partitions = (
        progress(0, member_id="busy"),
        progress(1, member_id="busy", committed_offset=None, committed_at_ms=None, lag_of_retention=None),
    )
    group = described(members=members, progress=partitions)
    FakeAdministration(describe_group=group).install(monkeypatch)
    head, _, titles, *rows = lines_of(capsys, "group", "describe", "billing")
    assert " ".join(head) == ("group billing state stable epoch 3 assignor uniform coordinator 2 lag 14")
    assert titles == ["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "STATE", "SUBSCRIBES", "ASSIGNMENT"]
    assert rows[0] == ["busy", "billing-1", "app", "h1", "3", "reading", "orders", "orders:0,1"]
    assert rows[1] == ["idle", "-", "-", "-", "3", "idle", "orders", "-"]
    assert " ".join(rows[2][5:]) == "giving up orders:3 orders orders:2,3"
    assert " ".join(rows[3][5:]) == "waiting for orders:3 orders -"
    assert rows[4][5:] == ["away", "orders", "orders:4"]
    assert rows[7] == ["orders", "0", "5", "12", "7", "61.5", "25.0%", "2026-01-01T00:00:00.000Z", "busy"]
    assert rows[8] == ["orders", "1", "-", "12", "7", "61.5", "-", "-", "busy"]


def test_topic_that_a_member_waits_for_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    group = described(members=(member("idle", [], topics=("tmp",), pattern="audit-.*"),))
    gone = UnknownTopicOrPartition("no such topic")
    FakeAdministration(describe_group=group, describe_topic=gone).install(monkeypatch)
    assert main(["group", "describe", "billing"]) == 0
    out = capsys.readouterr().out
    assert "tmp /audit-.*/" in out
    assert out.endswith("tmp: there is no such topic; it is waited for\n")
    FakeAdministration(describe_group=group, describe_topic=gone).install(monkeypatch)
    assert json_of(capsys, "group", "describe", "billing")["missing_topics"] == ["tmp"]
    silence = NotLeaderOrFollower("not now")
    FakeAdministration(describe_group=group, describe_topic=silence).install(monkeypatch)
    assert json_of(capsys, "group", "describe", "billing")["missing_topics"] == []


@pytest.mark.parametrize(
    ("state", "epoch"), [("stable", "epoch 3  "), ("reconciling", "epoch 3 (assigned for 2)  ")]
)
def test_epoch_of_an_assignment_is_told_while_it_is_not_the_groups(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, state: GroupStateName, epoch: str
) -> None:
    group = replace(described(state=state), assignment_epoch=2)
    FakeAdministration(describe_group=group).install(monkeypatch)
    assert main(["group", "describe", "billing"]) == 0
    assert epoch in capsys.readouterr().out.splitlines()[0]


def test_description_for_programs_has_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    error = NotLeaderOrFollower("no leader")
    nothing = dict.fromkeys(["log_start_offset", "end_offset", "lag", "lag_ms", "lag_of_retention"])
    group = described(
        members=(member("idle", []),), progress=(progress(0, "orders", error=error, **nothing),)
    )
    FakeAdministration(describe_group=group).install(monkeypatch)
    told = json_of(capsys, "group", "describe", "billing")
    assert {
        key: told[key] for key in ("group", "state", "group_epoch", "assignor", "coordinator", "lag")
    } == {
        "group": "billing",
        "state": "stable",
        "group_epoch": 3,
        "assignor": "uniform",
        "coordinator": 2,
        "lag": None,
    }
    assert told["members"][0]["state"] == "idle"
    assert told["members"][0]["instance_id"] is None
    [partition] = told["partitions"]
    assert (partition["topic"], partition["partition"], partition["committed_offset"]) == ("orders", 0, 5)
    assert partition["lag_ms"] is None
    assert partition["error"] == {"code": "NOT_LEADER_OR_FOLLOWER", "message": "no leader"}


def test_why_a_lag_is_not_known_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    group = described(progress=(progress(4, error=NotLeaderOrFollower("no leader"), lag=None),))
    FakeAdministration(describe_group=group).install(monkeypatch)
    assert main(["group", "describe", "billing"]) == 0
    out = capsys.readouterr().out
    assert "lag -" in out.splitlines()[0]
    assert "no members" in out
    assert out.endswith("orders:4: NOT_LEADER_OR_FOLLOWER: no leader\n")


@pytest.mark.parametrize("command", [["describe", "nobody"], ["delete", "nobody", "--yes"]])
def test_group_that_there_is_not_is_told_with_what_to_check(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, command: list[str]
) -> None:
    FakeGroupNode().install(monkeypatch)
    assert main(["group", *command]) == 1
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: GROUP_ID_NOT_FOUND: ")
    assert "check the group's name" in advice


# -- reset


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeGroupNode:
    """Two partitions: five records in the first, one in the other; the group is at 2 in the first."""
    node = FakeGroupNode(partitions=2).install(monkeypatch)
    node.topics["t"].partitions[0].append(b"a", b"b", b"c", b"d", b"e")
    node.topics["t"].partitions[1].append(b"f")
    node.commit(0, 2)
    return node


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_reset_shows_its_plan_and_changes_nothing(
    node: FakeGroupNode, capsys: Capsys, options: list[str]
) -> None:
    assert main(["group", "reset", "g", "--topic", "t", "--to", "latest", *options]) == 0
    told = capsys.readouterr()
    assert [line.split() for line in told.out.splitlines()] == [
        ["TOPIC", "PARTITION", "COMMITTED", "NEW", "CHANGE"],
        ["t", "0", "2", "5", "+3"],
        ["t", "1", "-", "1", "-"],
    ]
    assert "--execute" in told.err
    assert node.offsets() == {0: 2}


@pytest.mark.parametrize(
    ("topic", "to", "offsets"),
    [
        ("t", "earliest", {0: 0, 1: 0}),
        ("t", "latest", {0: 5, 1: 1}),
        ("t:0", "4", {0: 4}),
        ("t:1", "earliest", {0: 2, 1: 0}),
        ("t:0", "2000-01-01", {0: 0}),
        ("t:0", "2026-01-01T00:00:00.003Z", {0: 3}),
        ("t:0", "-36500d", {0: 0}),
        ("t:0", "-1ms", {0: 5}),
    ],
)
def test_reset_moves_the_group_when_it_is_told_to(
    node: FakeGroupNode, capsys: Capsys, topic: str, to: str, offsets: dict[int, int]
) -> None:
    assert TIMESTAMP == 1_767_225_600_000
    told = json_of(capsys, "group", "reset", "g", "--topic", topic, "--to", to, "--execute")
    assert node.offsets() == offsets
    assert told["group"] == "g"
    assert told["is_executed"] is True
    moved = {each["partition"]: each["after"] for each in told["offsets"]}
    assert moved.items() <= offsets.items()


def test_several_partitions_are_moved_by_one_commit(node: FakeGroupNode) -> None:
    arguments = ["--topic", "t:0", "--topic", "t:1", "--to", "earliest", "--execute"]
    assert main(["group", "reset", "g", *arguments]) == 0
    assert [len(each.offsets) for each in node.commits()] == [2]


def test_nearest_offset_is_told(node: FakeGroupNode, capsys: Capsys) -> None:
    assert main(["group", "reset", "g", "--topic", "t:1", "--to", "99"]) == 0
    assert "t:1 does not hold 99: 1 is the nearest it does" in capsys.readouterr().err


def test_time_that_is_still_to_come_is_told(node: FakeGroupNode, capsys: Capsys) -> None:
    assert main(["group", "reset", "g", "--topic", "t", "--to", "2999-01-01"]) == 0
    assert "still to come" in capsys.readouterr().err


def test_how_long_ago_needs_a_unit(node: FakeGroupNode, capsys: Capsys) -> None:
    assert main(["group", "reset", "g", "--topic", "t", "--to", "-5"]) == 2
    assert "needs a unit, as -5s" in capsys.readouterr().err


def test_group_with_members_is_not_moved(node: FakeGroupNode, capsys: Capsys) -> None:
    node.add_member("m")
    command = ["group", "reset", "g", "--topic", "t", "--to", "earliest"]
    assert main(command) == 0
    assert "g has 1 member(s): stop them" in capsys.readouterr().err
    assert main([*command, "--execute"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: NON_EMPTY_GROUP: ")
    assert node.offsets() == {0: 2}


def test_group_may_be_given_offsets_before_there_is_one(node: FakeGroupNode, capsys: Capsys) -> None:
    assert main(["group", "reset", "new", "--topic", "t:0", "--to", "3", "--execute"]) == 0
    assert "there is no group new yet" in capsys.readouterr().err
    assert node.offsets("new") == {0: 3}


@pytest.mark.parametrize("topic", ["nope", "t:2"])
def test_topic_or_partition_that_is_not_there_is_not_reset(
    node: FakeGroupNode, capsys: Capsys, topic: str
) -> None:
    assert main(["group", "reset", "g", "--topic", topic, "--to", "earliest", "--execute"]) == 1
    assert "error: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err
    assert node.commits() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["g", "--topic", "t"],
        ["g", "--to", "earliest"],
        ["g", "--topic", "t", "--to", "sometime"],
        ["g", "--topic", "t", "--to", "-1"],
        ["g", "--topic", "t", "--to", "-1y"],
        ["g", "--topic", "t:x", "--to", "0"],
        ["g", "--topic", "", "--to", "0"],
        ["g", "--topic", "t", "--to", "0", "--execute", "--dry-run"],
    ],
)
def test_wrong_usage_of_reset_exits_with_2(node: FakeGroupNode, capsys: Capsys, arguments: list[str]) -> None:
    assert main(["group", "reset", *arguments]) == 2
    assert "Usage:" in capsys.readouterr().err
    assert node.heard == []


# -- delete


def test_group_is_deleted_with_its_offsets(node: FakeGroupNode, capsys: Capsys) -> None:
    assert json_of(capsys, "group", "delete", "g", "--yes") == {"group": "g"}
    assert node.groups == {}


def test_group_is_not_deleted_unasked(
    node: FakeGroupNode, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["group", "delete", "g"]) == 2
    assert "offsets in 1 partition(s)" in capsys.readouterr().err
    assert node.offsets() == {0: 2}


@pytest.mark.parametrize(("answer", "status", "left"), [("y", 0, 0), ("n", 1, 1)])
def test_whoever_is_there_is_asked_before_a_group_is_deleted(
    node: FakeGroupNode, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, left: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: answer)
    assert main(["group", "delete", "g"]) == status
    assert len(node.groups) == left


def test_group_with_members_is_not_deleted_and_nobody_is_asked(node: FakeGroupNode, capsys: Capsys) -> None:
    node.add_member("m")
    assert main(["group", "delete", "g", "--output", "json"]) == 1
    told = json.loads(capsys.readouterr().err)["error"]
    assert told["code"] == "NON_EMPTY_GROUP"
    assert "stop the group's members" in told["what_to_do"]
