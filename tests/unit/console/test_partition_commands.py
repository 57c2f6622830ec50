"""``quorate partition`` against a controller that answers as it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.console import confirming, waiting
from quorate.console.main import main
from quorate.errors import InvalidConfig, NoController
from quorate.v1 import admin_pb2, errors_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


def name(topic: str, partition: int) -> admin_pb2.PartitionName:
    return admin_pb2.PartitionName(topic=topic, partition=partition)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_POLL_S", 0.0)


def test_elect_takes_partitions_topics_or_everything(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    topic = admin_pb2.TopicDescription(
        partitions=[admin_pb2.PartitionDescription(partition=each) for each in (0, 1)]
    )
    fake = FakeAdministration(
        describe_topic=topic, elect_preferred_leaders=admin_pb2.ElectPreferredLeadersResponse()
    ).install(monkeypatch)
    assert main(["partition", "elect", "t", "a:b:7"]) == 0
    assert main(["partition", "elect"]) == 0
    chosen, everything = fake.asked("elect_preferred_leaders")
    assert list(chosen.partitions) == [name("t", 0), name("t", 1), name("a:b", 7)]
    assert list(everything.partitions) == []


def test_leader_that_could_not_be_moved_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    refusal = admin_pb2.PartitionRefusal(
        partition=name("t", 0), error=errors_pb2.ErrorDetail(code="X", message="why")
    )
    answer = admin_pb2.ElectPreferredLeadersResponse(moved=[name("t", 1)], refused=[refusal])
    FakeAdministration(elect_preferred_leaders=answer).install(monkeypatch)
    document = json_of(capsys, "partition", "elect", status=1)
    assert document["moved"] == [{"topic": "t", "partition": 1}]
    assert document["refused"][0]["error"] == {"code": "X", "message": "why"}


MOVE = ["partition", "reassign", "--topic", "t", "--partition", "0"]


def moving(*names: admin_pb2.PartitionName) -> list[admin_pb2.Reassignment]:
    return [admin_pb2.Reassignment(partition=each, replicas=[1, 2], adding_replicas=[2]) for each in names]


#: about replicas that are being copied
NOTHING_IS_KNOWN = {
    "describe_cluster": admin_pb2.DescribeClusterResponse(),
    "describe_topic": admin_pb2.TopicDescription(name="t", topic_id="id"),
}


def test_move_is_waited_for_whatever_else_moves(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    other = name("other", 0)
    running = [moving(name("t", 0), other), moving(other)]
    fake = FakeAdministration(
        reassign_partitions=None, list_reassignments=running, **NOTHING_IS_KNOWN
    ).install(monkeypatch)
    assert json_of(capsys, *MOVE, "--replicas", "3,1,2")["outcome"] == "done"
    [request] = fake.asked("reassign_partitions")
    assert [list(each.replicas) for each in request.moves] == [[3, 1, 2]]
    assert running == []


@pytest.mark.parametrize(
    ("options", "replicas", "outcome"),
    [
        (["--replicas", "1", "--no-wait"], [1], "started"),
        (["--replicas", "1", "--dry-run"], [1], "checked"),
    ],
)
def test_move_is_not_waited_for_if_there_is_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, options: list[str], replicas: list[int], outcome: str
) -> None:
    fake = FakeAdministration(reassign_partitions=None).install(monkeypatch)
    assert json_of(capsys, *MOVE, *options)["outcome"] == outcome
    [request] = fake.asked("reassign_partitions")
    assert list(request.moves[0].replicas) == replicas
    assert request.validate_only == (outcome == "checked")


def test_only_moves_that_were_under_way_are_told_as_cancelled(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    running = moving(name("t", 0), name("other", 0))
    fake = FakeAdministration(reassign_partitions=None, list_reassignments=[running, [], []])
    fake.install(monkeypatch)
    told = json_of(capsys, *MOVE, "--cancel")
    assert (told["outcome"], told["partitions"]) == ("cancelled", [{"topic": "t", "partition": 0}])
    assert [len(each.moves) for each in fake.asked("reassign_partitions")] == [1]
    told = json_of(capsys, *MOVE, "--cancel")
    assert told["partitions"] == []
    assert main([*MOVE, "--cancel"]) == 0
    assert "0 move(s) cancelled; not under way (any more): t:0" in capsys.readouterr().err


def test_move_that_somebody_else_called_off_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    here = admin_pb2.PartitionDescription(partition=0, replicas=[1, 2])
    FakeAdministration(
        reassign_partitions=None,
        list_reassignments=[[]],
        describe_topic=admin_pb2.TopicDescription(name="t", partitions=[here]),
    ).install(monkeypatch)
    assert main([*MOVE, "--replicas", "3,1,2"]) == 1
    assert "error: MOVE_NOT_DONE: t:0 is on 1,2, and was to be on 3,1,2" in capsys.readouterr().err


def test_throttle_of_moves_that_were_not_waited_for_to_the_end_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answers: dict[str, Any] = {"list_reassignments": NoController("nobody"), "alter_configs": [[]]}
    FakeAdministration(reassign_partitions=None, **answers).install(monkeypatch)
    assert main([*MOVE, "--replicas", "1", "--throttle", "1MiB"]) == 1
    told = capsys.readouterr().err
    assert "moves are held to 1MiB/s" in told
    assert "NO_CONTROLLER" in told


def test_moves_are_throttled_before_they_begin(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(reassign_partitions=None, alter_configs=[[]]).install(monkeypatch)
    assert main([*MOVE, "--replicas", "1", "--no-wait", "--throttle", "1MiB"]) == 0
    assert [(called, request.validate_only) for called, request in fake.calls] == [
        ("reassign_partitions", True),
        ("alter_configs", False),
        ("reassign_partitions", False),
    ]
    [change] = fake.asked("alter_configs")[0].changes
    assert (change.name, change.value) == ("follower.replication.throttled.rate", "1MiB")
    lifting = "`quorate cluster alter-config --delete-config follower.replication.throttled.rate`"
    assert lifting in capsys.readouterr().err


def test_throttle_that_is_no_rate_is_refused_by_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(reassign_partitions=None, alter_configs=InvalidConfig("no")).install(monkeypatch)
    """What this version takes for one, the node of another may refuse."""
    assert main([*MOVE, "--replicas", "1", "--throttle", "10MiB"]) == 1
    assert capsys.readouterr().err.startswith("error: INVALID_CONFIG: --throttle 10MiB: ")


@pytest.mark.parametrize("rate", ["fast", "10XB", "1"])
@pytest.mark.parametrize(
    "command",
    [
        [*MOVE, "--replicas", "1"],
        ["cluster", "rebalance"],
        ["broker", "decommission", "3"],
    ],
)
def test_throttle_that_can_be_no_rate_is_wrong_usage_and_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, command: list[str], rate: str
) -> None:
    fake = FakeAdministration().install(monkeypatch)
    assert main([*command, "--throttle", rate]) == 2
    told = capsys.readouterr().err
    assert "Invalid value for '--throttle'" in told
    assert "10MiB" in told
    assert fake.calls == []


@pytest.mark.parametrize("refused", ["reassign_partitions", "alter_configs"])
def test_refused_move_leaves_no_throttle_and_refused_throttle_no_move(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    answers: dict[str, Any] = {"reassign_partitions": None, "alter_configs": [[]]}
    fake = FakeAdministration(**{**answers, refused: InvalidConfig("no")}).install(monkeypatch)
    assert main([*MOVE, "--replicas", "1", "--throttle", "1MiB"]) == 1
    assert fake.calls[-1][0] == refused
    assert [request.validate_only for request in fake.asked("reassign_partitions")] == [True]


def test_plan_of_many_moves_is_read_from_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    moves = [{"topic": "t", "partition": each, "replicas": [1, 2]} for each in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    fake = FakeAdministration(reassign_partitions=None, list_reassignments=[[]]).install(monkeypatch)
    assert main(["partition", "reassign", "--file", str(plan), "--no-wait"]) == 0
    assert main(["partition", "reassign", "--file", str(plan), "--cancel"]) == 0
    started, cancelled = fake.asked("reassign_partitions")
    assert [list(each.replicas) for each in started.moves] == [[1, 2], [1, 2]]
    assert [list(each.replicas) for each in cancelled.moves] == [[], []]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"partitions": []}',
        '{"partitions": [{"topic": "t", "partition": 0}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        '{"partitions": [{"topic": "t", "partition": "x", "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": ["x"]}]}',
        '{"partitions": [{"topic": "t", "partition": 99999999999, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": 5}]}',
        '{"partitions": [5]}',
        '{"partitions": 5}',
        "5",
    ],
)
def test_file_that_is_no_plan_is_refused(tmp_path: Path, capsys: Capsys, content: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert main(["partition", "reassign", "--file", str(plan)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: INVALID_REQUEST: {plan} ")
    assert "object" not in told, "in our words, not in Python's"


def test_moves_under_way_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    FakeAdministration(
        list_reassignments=[moving(name("t", 0)), moving(name("t", 0))], **NOTHING_IS_KNOWN
    ).install(monkeypatch)
    [move] = json_of(capsys, "partition", "reassign", "--list")["reassignments"]
    assert (move["topic"], move["partition"], move["adding_replicas"]) == ("t", 0, [2])
    assert main(["partition", "reassign", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["t", "0", "1,2", "2", "-", "-", "2:", "?"]


def test_recovery_needs_somebody_who_means_it(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(describe_topic=offline(), recover_partition=None).install(monkeypatch)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["partition", "recover", "t:0"]) == 2
    told = capsys.readouterr().err
    assert "ACKNOWLEDGED RECORDS MAY BE LOST" in told
    assert "--yes" in told
    assert fake.asked("recover_partition") == []


def offline() -> admin_pb2.TopicDescription:
    partition = admin_pb2.PartitionDescription(partition=0, leader_epoch=7)
    return admin_pb2.TopicDescription(name="t", topic_id="id", partitions=[partition])


def test_recovery_is_of_the_incident_that_was_there_before_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fake = FakeAdministration(
        describe_topic=offline(), recover_partition=admin_pb2.RecoverPartitionResponse(leader=1)
    ).install(monkeypatch)
    asked: list[str] = []

    def confirm(told: str, *_: str, **__: object) -> None:
        asked.extend(name for name, _ in fake.calls)
        assert "t:0, leader epoch 7: ACKNOWLEDGED" in told

    monkeypatch.setattr(confirming, "confirm", confirm)
    assert main(["partition", "recover", "t:0"]) == 0
    assert asked == ["describe_topic"]
    [request] = fake.asked("recover_partition")
    assert (request.partition.topic_id, request.leader_epoch) == ("id", 7)
    assert "BROKER" not in capsys.readouterr().out, "it was done before: nobody was asked"


def test_recovery_of_a_partition_that_there_is_not_is_refused_before_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(describe_topic=offline()).install(monkeypatch)
    assert main(["partition", "recover", "t:1"]) == 1
    told = capsys.readouterr().err
    assert "UNKNOWN_TOPIC_OR_PARTITION" in told
    assert "ACKNOWLEDGED" not in told


def test_recovery_tells_what_each_replica_had(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    candidates = [
        admin_pb2.RecoveryCandidate(broker_id=1, last_epoch=4, log_end_offset=10),
        admin_pb2.RecoveryCandidate(broker_id=2, is_missing=True),
    ]
    answer = admin_pb2.RecoverPartitionResponse(leader=1, candidates=candidates)
    fake = FakeAdministration(describe_topic=offline(), recover_partition=answer).install(monkeypatch)
    options = ["--leader", "1", "--accept-missing-replicas", "--yes"]
    document = json_of(capsys, "partition", "recover", "t:0", *options)
    assert document["leader"] == 1
    assert [each["log_end_offset"] for each in document["candidates"]] == [10, None]
    [request] = fake.asked("recover_partition")
    assert (request.leader, request.accept_missing_replicas) == (1, True)
    assert main(["partition", "recover", "t:0", "--yes"]) == 0
    assert "acknowledged records may be lost" in capsys.readouterr().err
    assert not fake.asked("recover_partition")[1].HasField("leader")


@pytest.mark.parametrize(
    "arguments",
    [
        ["partition", "elect", "t:x"],
        ["partition", "elect", ":1"],
        ["partition", "recover", "t"],
        ["partition", "reassign"],
        [*MOVE],
        [*MOVE, "--replicas", "1,"],
        [*MOVE, "--replicas", "1", "--cancel"],
        [*MOVE, "--replicas", "1", "--file", __file__],
    ],
)
def test_wrong_usage_of_partition_commands_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, arguments: list[str]
) -> None:
    fake = FakeAdministration().install(monkeypatch)
    assert main(arguments) == 2
    assert "Usage:" in capsys.readouterr().err
    assert fake.calls == []
