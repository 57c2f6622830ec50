"""``quorate cluster rebalance`` and the moves that it starts; the controller answers as it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from quorate.client.replica_sizes import ReplicaOf, ReplicaSizes
from quorate.console.main import main
from quorate.console.moving import watch
from quorate.errors import InvalidConfig, NoController
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]

THROTTLE = "follower.replication.throttled.rate"

CLUSTER = admin_pb2.DescribeClusterResponse(
    brokers=[admin_pb2.BrokerDescription(broker_id=number, address=f"b{number}:9092") for number in (1, 2)]
)


def topic(*replicas: list[int], isr: list[int] | None = None) -> admin_pb2.TopicDescription:
    return admin_pb2.TopicDescription(
        name="t",
        topic_id="id",
        partitions=[
            admin_pb2.PartitionDescription(
                partition=number, leader=each[0], replicas=each, isr=isr or each, size_bytes=1_000
            )
            for number, each in enumerate(replicas)
        ],
    )


def name(number: int) -> admin_pb2.PartitionName:
    return admin_pb2.PartitionName(topic="t", partition=number)


def moving(*numbers: int) -> list[admin_pb2.Reassignment]:
    return [
        admin_pb2.Reassignment(partition=name(number), replicas=[2, 1], adding_replicas=[2])
        for number in numbers
    ]


@pytest.fixture(autouse=True)
def _no_pauses_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(
        _self: ReplicaSizes, wanted: Mapping[int, Iterable[ReplicaOf]]
    ) -> dict[tuple[int, ReplicaOf], int]:
        return {(broker_id, each): 250 for broker_id, some in wanted.items() for each in some}

    monkeypatch.setattr(ReplicaSizes, "ask", ask)
    monkeypatch.setattr(watch, "_POLL_S", 0.0)


def rebalanced(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> FakeAdministration:
    defaults = {
        "describe_cluster": CLUSTER,
        "describe_topic": topic([1], [1], [1], [1]),
        "list_topics": [[admin_pb2.TopicListing(name="t")]],
        "list_reassignments": [[]],
        "reassign_partitions": None,
        "elect_preferred_leaders": admin_pb2.ElectPreferredLeadersResponse(),
        "describe_configs": admin_pb2.AlterConfigsResponse(),
        "alter_configs": [],
    }
    return FakeAdministration(**(defaults | answers)).install(monkeypatch)


def executed(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> FakeAdministration:
    """Each partition is where it was to be when it is looked at for the second time."""
    done = topic([2], [2], [1], [1])
    return rebalanced(monkeypatch, describe_topic=[topic([1], [1], [1], [1]), *[done] * 9], **answers)


def throttles(fake: FakeAdministration) -> list[str | None]:
    changes = [change for each in fake.asked("alter_configs") for change in each.changes]
    assert {change.name for change in changes} <= {THROTTLE}
    return [change.value if change.HasField("value") else None for change in changes]


def test_plan_is_shown_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = rebalanced(monkeypatch)
    told = json_of(capsys, "cluster", "rebalance")
    assert [each["after"]["replica_count"] for each in told["brokers"]] == [2, 2]
    assert [each["replicas"] for each in told["partitions"]] == [[2], [2]]
    assert (told["version"], told["is_executed"], told["copied_bytes"]) == (1, False, 2_000)
    assert fake.asked("reassign_partitions") == []
    rebalanced(monkeypatch)
    assert main(["cluster", "rebalance"]) == 0
    shown = capsys.readouterr()
    assert "4 → 2" in shown.out
    assert "--execute" in shown.err


def test_no_more_partitions_move_at_a_time_than_was_said(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    # Looked for before; then: none yet, the first, none again, the second, none.
    running = [[], [], moving(0), [], moving(1), []]
    fake = executed(monkeypatch, list_reassignments=running)
    told = json_of(capsys, "cluster", "rebalance", "--execute", "--at-a-time", "1")
    check, *begun = fake.asked("reassign_partitions")
    assert check.validate_only
    assert len(check.moves) == 2
    assert [len(each.moves) for each in begun] == [1, 1]
    assert told["is_executed"]
    [elected] = fake.asked("elect_preferred_leaders")
    assert [each.partition for each in elected.partitions] == [
        each["partition"] for each in told["partitions"]
    ]


def test_throttle_of_a_rebalancing_is_lifted_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fake = executed(monkeypatch, list_reassignments=[[], [], []], alter_configs=[[], []])
    json_of(capsys, "cluster", "rebalance", "--execute", "--throttle", "10MiB")
    assert throttles(fake) == ["10MiB", None]


def test_throttle_that_somebody_had_set_before_is_in_force_again_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    before = [
        admin_pb2.ConfigEntry(name=THROTTLE, value="5242880", source=admin_pb2.CONFIG_SOURCE_CLUSTER),
        admin_pb2.ConfigEntry(name="other", value="1", source=admin_pb2.CONFIG_SOURCE_CLUSTER),
    ]
    fake = executed(
        monkeypatch,
        list_reassignments=[[], [], []],
        describe_configs=admin_pb2.AlterConfigsResponse(configs=before),
        alter_configs=[[], []],
    )
    json_of(capsys, "cluster", "rebalance", "--execute", "--throttle", "10MiB")
    assert throttles(fake) == ["10MiB", "5242880"]


def test_rebalancing_that_is_not_ended_leaves_its_throttle_to_the_moves_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    """What was begun goes on, and without the bound it would take all that there is."""
    running: list[Any] = [[], [], moving(0), NoController("nobody leads")]
    fake = executed(monkeypatch, list_reassignments=running, alter_configs=[[]])
    assert main(["cluster", "rebalance", "--execute", "--throttle", "10MiB"]) == 1
    assert throttles(fake) == ["10MiB"]
    told = capsys.readouterr().err
    assert (
        f"moves are held to 10MiB/s until `quorate cluster alter-config --delete-config {THROTTLE}`" in told
    )
    assert "NO_CONTROLLER" in told


def test_rebalancing_whose_moves_were_called_off_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    rebalanced(monkeypatch, list_reassignments=[[], [], []])
    assert main(["cluster", "rebalance", "--execute"]) == 1
    told = capsys.readouterr().err
    assert "error: MOVE_NOT_DONE: t:" in told
    assert "is on 1, and was to be on 2" in told


def test_throttle_that_is_none_is_refused_when_the_plan_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fake = rebalanced(monkeypatch, list_reassignments=[[]], alter_configs=InvalidConfig("not here"))
    assert main(["cluster", "rebalance", "--throttle", "5MiB"]) == 1
    assert "--throttle 5MiB: not here" in capsys.readouterr().err
    assert [each.validate_only for each in fake.asked("alter_configs")] == [True]


def test_no_plan_is_made_while_others_are_carried_out(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fake = rebalanced(monkeypatch, list_reassignments=[moving(0)])
    assert main(["cluster", "rebalance", "--execute"]) == 1
    assert "REASSIGNMENT_IN_PROGRESS" in capsys.readouterr().err
    assert fake.asked("reassign_partitions") == []


def test_partitions_that_are_not_in_sync_stay_where_they_are_and_count(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    rebalanced(monkeypatch, describe_topic=topic([1, 2], [1, 2], isr=[1]))
    told = json_of(capsys, "cluster", "rebalance")
    assert told["partitions"] == []
    assert told["left_alone"] == [
        {"topic": "t", "partition": number, "has_leader": True, "not_in_sync": [2]} for number in (0, 1)
    ]
    held = {"replica_count": 2, "size_bytes": 2_000}
    assert [each["before"] for each in told["brokers"]] == [
        held | {"preferred_leader_count": 2},
        held | {"preferred_leader_count": 0},
    ]


def test_who_is_left_out_is_told_with_the_reason_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    lagging = topic([1, 2], [1, 2], isr=[1])
    lagging.partitions[1].ClearField("leader")
    rebalanced(monkeypatch, describe_topic=lagging)
    assert main(["cluster", "rebalance"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "2 partition(s) are left out of the plan" in told
    assert "replicas on broker 2 are not in sync and 1 of them have no leader: t:0, t:1" in told
    assert "`quorate cluster health` says what they wait for" in told
    assert "nothing to move of the other partitions" in told


def test_broker_that_is_draining_takes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    cluster = admin_pb2.DescribeClusterResponse(
        brokers=[
            admin_pb2.BrokerDescription(broker_id=1, address="b1:9092"),
            admin_pb2.BrokerDescription(broker_id=2, address="b2:9092", is_draining=True),
        ]
    )
    rebalanced(monkeypatch, describe_cluster=cluster)
    told = json_of(capsys, "cluster", "rebalance")
    assert told["partitions"] == []
    assert [each["takes_replicas"] for each in told["brokers"]] == [True, False]


def test_moves_under_way_are_told_with_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    rebalanced(monkeypatch, list_reassignments=[moving(0), moving(0)])
    [move] = json_of(capsys, "partition", "reassign", "--list")["reassignments"]
    assert move["copying"] == [{"id": 2, "is_in_sync": False, "copied_bytes": 250, "leader_bytes": 1_000}]
    assert main(["partition", "reassign", "--list"]) == 0
    assert "2: 25%" in capsys.readouterr().out
