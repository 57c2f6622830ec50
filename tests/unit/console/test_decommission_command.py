"""``quorate broker decommission`` against a controller that answers as it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.console import waiting
from quorate.console.main import main
from quorate.errors import NotEnoughReplicas
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


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
    FakeAdministration(decommission_broker=counts).install(monkeypatch)
    assert main(["broker", "decommission", "3"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("broker 3 holds nothing any more: stop it")


def test_decommissioned_broker_is_gone(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(is_removed=True)
    FakeAdministration(decommission_broker=answer).install(monkeypatch)
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
    FakeAdministration(decommission_broker=answer).install(monkeypatch)
    assert json_of(capsys, "broker", "decommission", "3", *options, status=status)["outcome"] == outcome


def test_throttle_of_a_decommission_is_set_once_that_is_under_way_and_told_to_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answer = admin_pb2.DecommissionBrokerResponse(remaining_replica_count=2)
    fake = FakeAdministration(decommission_broker=answer, alter_configs=[[], []]).install(monkeypatch)
    assert main(["broker", "decommission", "3", "--no-wait", "--throttle", "10MiB"]) == 1
    assert [name for name, _ in fake.calls] == ["alter_configs", "decommission_broker", "alter_configs"]
    assert [each.validate_only for each in fake.asked("alter_configs")] == [True, False]
    assert "moves are held to 10MiB/s until" in capsys.readouterr().err


def test_decommission_that_is_refused_leaves_no_throttle_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdministration(decommission_broker=NotEnoughReplicas("no"), alter_configs=[[]])
    fake.install(monkeypatch)
    assert main(["broker", "decommission", "3", "--throttle", "10MiB"]) == 1
    assert [each.validate_only for each in fake.asked("alter_configs")] == [True]


def test_nothing_is_throttled_where_nothing_moves(capsys: Capsys) -> None:
    assert main(["broker", "decommission", "3", "--cancel", "--throttle", "10MiB"]) == 2
    assert "nothing to throttle" in capsys.readouterr().err


def test_decommission_without_another_broker_advises_to_add_one(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(decommission_broker=NotEnoughReplicas("no")).install(monkeypatch)
    assert main(["broker", "decommission", "3"]) == 1
    told = capsys.readouterr().err
    assert "what to do: add a broker" in told
    assert "--cancel" not in told, "nothing has begun that could be called off"


def test_error_is_a_document_where_the_output_is_one(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    FakeAdministration(decommission_broker=NotEnoughReplicas("no")).install(monkeypatch)
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
    FakeAdministration(decommission_broker=[offline(2, moving_count=1), offline(1)]).install(monkeypatch)
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
    FakeAdministration(decommission_broker=[offline(1), offline(1), moving, empty]).install(monkeypatch)
    assert main(["broker", "decommission", "4"]) == 1
    assert "holds nothing any more" in capsys.readouterr().err


def test_document_names_partitions_that_keep_a_broker_from_going(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(decommission_broker=offline(1)).install(monkeypatch)
    document = json_of(capsys, "broker", "decommission", "4", "--no-wait", status=1)
    assert (document["outcome"], document["offline_count"]) == ("offline", 1)
    assert document["offline_partitions"] == [{"topic": "alone", "partition": 7}]
