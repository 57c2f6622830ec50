"""``quorate broker decommission`` against a controller that answers as it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.console import waiting
from quorate.console.main import main
from quorate.errors import NoController, NotEnoughReplicas
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


def voters(*ids: int) -> admin_pb2.DescribeQuorumResponse:
    return admin_pb2.DescribeQuorumResponse(
        voters=[admin_pb2.VoterDescription(node_id=each, state="follower") for each in ids]
    )


def administration(**answers: Any) -> FakeAdministration:
    return FakeAdministration(**{"describe_quorum": voters(101, 102, 103), **answers})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_POLL_S", 0.0)


def test_decommission_waits_until_the_last_replica_has_moved(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    counts = [
        admin_pb2.DecommissionBrokerResponse(remaining_replica_count=left, moving_count=left)
        for left in (2, 1, 0)
    ]
    administration(decommission_broker=counts).install(monkeypatch)
    assert main(["broker", "decommission", "3"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("broker 3 holds nothing any more: stop it")


def test_decommissioned_broker_is_gone(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(is_removed=True)
    administration(decommission_broker=answer).install(monkeypatch)
    assert json_of(capsys, "broker", "decommission", "3")["is_removed"] is True


@pytest.mark.parametrize(
    ("fields", "options", "outcome", "status"),
    [
        ({"is_removed": True}, [], "forgotten", 0),
        ({}, [], "empty", 1),
        ({"remaining_replica_count": 2}, ["--no-wait"], "moving", 1),
        ({"remaining_replica_count": 2}, ["--cancel"], "cancelled", 0),
    ],
)
def test_decommission_is_done_only_when_the_broker_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capsys,
    fields: dict[str, Any],
    options: list[str],
    outcome: str,
    status: int,
) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(**fields)
    administration(decommission_broker=answer).install(monkeypatch)
    assert json_of(capsys, "broker", "decommission", "3", *options, status=status)["outcome"] == outcome


def test_throttle_of_a_decommission_is_set_once_that_is_under_way_and_told_to_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(remaining_replica_count=2)
    fake = administration(decommission_broker=answer, alter_configs=[[], []]).install(monkeypatch)
    assert main(["broker", "decommission", "3", "--no-wait", "--throttle", "10MiB"]) == 1
    changes = [name for name, _ in fake.calls if name != "describe_quorum"]
    assert changes == ["alter_configs", "decommission_broker", "alter_configs"]
    assert [each.validate_only for each in fake.asked("alter_configs")] == [True, False]
    assert "moves are held to 10MiB/s until" in capsys.readouterr().err


def test_decommission_that_is_refused_leaves_no_throttle_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = administration(decommission_broker=NotEnoughReplicas("no"), alter_configs=[[]])
    fake.install(monkeypatch)
    assert main(["broker", "decommission", "3", "--throttle", "10MiB"]) == 1
    assert [each.validate_only for each in fake.asked("alter_configs")] == [True]


def test_nothing_is_throttled_where_nothing_moves(capsys: Capsys) -> None:
    assert main(["broker", "decommission", "3", "--cancel", "--throttle", "10MiB"]) == 2
    assert "nothing to throttle" in capsys.readouterr().err


def test_decommission_without_another_broker_advises_to_add_one(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    administration(decommission_broker=NotEnoughReplicas("no")).install(monkeypatch)
    assert main(["broker", "decommission", "3"]) == 1
    told = capsys.readouterr().err
    assert "what to do: add a broker" in told
    assert "--cancel" not in told, "nothing has begun that could be called off"


def test_error_is_a_document_where_the_output_is_one(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    administration(decommission_broker=NotEnoughReplicas("no")).install(monkeypatch)
    assert main(["broker", "decommission", "3", "--output", "json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    error = json.loads(told.err)["error"]
    assert error.pop("what_to_do").startswith("add a broker")
    assert error == {"code": "NOT_ENOUGH_REPLICAS", "message": "no", "retriable": NotEnoughReplicas.retriable}


def offline(left: int, **fields: Any) -> admin_pb2.DecommissionBrokerResponse:
    return admin_pb2.DecommissionBrokerResponse(
        remaining_replica_count=left,
        offline_count=1,
        offline_partitions=[admin_pb2.PartitionName(topic="alone", partition=7)],
        **fields,
    )


def test_decommission_ends_where_only_partitions_without_a_leader_are_left(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setattr(waiting, "_STUCK_S", 0.0)
    administration(decommission_broker=[offline(2, moving_count=1), offline(1)]).install(monkeypatch)
    assert main(["broker", "decommission", "4"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["replicas of broker 4: 2 left", "replicas of broker 4: 1 left"]
    assert "without a leader, so there is nobody to copy from: alone:7;" in told[-1]
    assert "quorate cluster health" in told[-1]
    assert "quorate partition recover alone:7" in told[-1]


def test_partition_that_finds_a_leader_in_time_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    moving = admin_pb2.DecommissionBrokerResponse(remaining_replica_count=1, moving_count=1)
    empty = admin_pb2.DecommissionBrokerResponse()
    administration(decommission_broker=[offline(1), offline(1), moving, empty]).install(monkeypatch)
    assert main(["broker", "decommission", "4"]) == 1
    assert "holds nothing any more" in capsys.readouterr().err


def test_document_names_partitions_that_keep_a_broker_from_going(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    administration(decommission_broker=offline(1)).install(monkeypatch)
    document = json_of(capsys, "broker", "decommission", "4", "--no-wait", status=1)
    assert (document["outcome"], document["offline_count"]) == ("offline", 1)
    assert document["offline_partitions"] == [{"topic": "alone", "partition": 7}]


@pytest.mark.parametrize("answer", [{}, {"is_removed": True}], ids=["empty", "forgotten"])
def test_broker_that_votes_as_well_is_told_to_be_missed_there(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, answer: dict[str, Any]
) -> None:
    administration(
        decommission_broker=admin_pb2.DecommissionBrokerResponse(**answer), describe_quorum=voters(1, 2, 3)
    ).install(monkeypatch)
    status = main(["broker", "decommission", "3"])
    assert "`quorate cluster remove-voter 3`" in capsys.readouterr().err.splitlines()[-1]
    document = json_of(capsys, "broker", "decommission", "3", status=status)
    assert document["is_voter"] is True


def test_decommission_is_told_also_where_the_quorum_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(is_removed=True)
    administration(decommission_broker=answer, describe_quorum=NoController("gone")).install(monkeypatch)
    assert main(["broker", "decommission", "3"]) == 0
    assert capsys.readouterr().err.splitlines() == ["broker 3 is forgotten"]
