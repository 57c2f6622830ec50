"""``quorate cluster``, ``broker`` and ``partition`` against a controller that answers as it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.console import waiting
from quorate.console.main import main
from quorate.errors import InvalidConfig, NoController, UnknownTopicOrPartition
from quorate.v1 import admin_pb2, errors_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


def broker(broker_id: int, **fields: Any) -> admin_pb2.BrokerDescription:
    return admin_pb2.BrokerDescription(broker_id=broker_id, address=f"b{broker_id}:9092", **fields)


def cluster(**fields: Any) -> admin_pb2.DescribeClusterResponse:
    controllers = [admin_pb2.ControllerDescription(node_id=101, address="c1:9092")]
    return admin_pb2.DescribeClusterResponse(
        cluster_id="c", controller=101, controllers=controllers, feature_level=1, **fields
    )


def voter(node_id: int, state: str, **fields: Any) -> admin_pb2.VoterDescription:
    return admin_pb2.VoterDescription(
        node_id=node_id, directory_id=f"d{node_id}", address=f"c{node_id}:9092", state=state, **fields
    )


def quorum(*voters: admin_pb2.VoterDescription, **fields: Any) -> admin_pb2.DescribeQuorumResponse:
    return admin_pb2.DescribeQuorumResponse(leader=101, term=4, commit_index=9, voters=voters, **fields)


SOUND_QUORUM = quorum(
    voter(101, "leader", is_digest_equal=True),
    voter(102, "follower", is_digest_equal=True),
    voter(103, "follower", is_digest_equal=True),
)


def name(topic: str, partition: int) -> admin_pb2.PartitionName:
    return admin_pb2.PartitionName(topic=topic, partition=partition)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_POLL_S", 0.0)


# -- cluster


def test_describe_names_brokers_controllers_and_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    described = cluster(brokers=[broker(1, is_fenced=True), broker(2, rack="r", leader_count=3)])
    FakeAdministration(describe_cluster=described).install(monkeypatch)
    document = json_of(capsys, "cluster", "describe")
    assert document["controllers"] == [{"id": 101, "address": "c1:9092"}]
    assert [(each["id"], each["state"], each["rack"]) for each in document["brokers"]] == [
        (1, "fenced", None),
        (2, "active", "r"),
    ]
    assert document["offline_partition_count"] == 0
    assert main(["cluster", "describe"]) == 0
    assert "active controller 101" in capsys.readouterr().out


def test_cluster_without_a_controller_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    described = cluster()
    described.ClearField("controller")
    FakeAdministration(describe_cluster=described).install(monkeypatch)
    assert json_of(capsys, "cluster", "describe")["controller"] is None


def test_quorum_shows_whose_metadata_differs(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    described = quorum(
        voter(101, "leader", applied_index=9, digest="aa", is_digest_equal=True),
        voter(102, "follower", applied_index=8, digest="bb", is_digest_equal=False),
        voter(103, "unreachable"),
        learners=[voter(104, "catching up")],
    )
    FakeAdministration(describe_quorum=described).install(monkeypatch)
    document = json_of(capsys, "cluster", "quorum")
    assert [each["is_digest_equal"] for each in document["voters"]] == [True, False, None]
    assert [each["applied_index"] for each in document["voters"]] == [9, 8, None]
    assert [each["id"] for each in document["learners"]] == [104]
    assert main(["cluster", "quorum"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert ["DIFFERENT" in row for row in rows] == [False, False, False, True, False, False]


def test_sound_cluster_is_healthy(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    FakeAdministration(describe_cluster=cluster(), describe_quorum=SOUND_QUORUM).install(monkeypatch)
    assert json_of(capsys, "cluster", "health") == {
        "healthy": True, "problems": [], "what_to_do": None, "next_steps": [], "warnings": [],
        "partitions": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"offline_partition_count": 2}, "2 partitions without a leader"),
        (
            {"under_min_isr_partition_count": 1},
            "1 partition with fewer replicas in sync than min.insync.replicas",
        ),
        ({"under_replicated_partition_count": 1}, "not in sync"),
        ({"recovering_partition_count": 1}, "may lack acknowledged records"),
        ({"brokers": [broker(7, is_fenced=True)]}, "broker 7 at b7:9092 is fenced"),
    ],
)
def test_health_fails_for_whatever_is_wrong_with_partitions_or_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, fields: dict[str, Any], problem: str
) -> None:
    answers = {"describe_cluster": cluster(**fields), "describe_quorum": SOUND_QUORUM, "list_topics": [[]]}
    FakeAdministration(**answers).install(monkeypatch)
    assert main(["cluster", "health"]) == 1
    assert problem in capsys.readouterr().out


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        (voter(102, "unreachable"), "unreachable"),
        (voter(102, "refused"), "refused"),
        (voter(102, "follower", applied_index=5, is_digest_equal=False), "other metadata"),
    ],
)
def test_health_fails_for_a_voter_that_is_away_or_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, described: admin_pb2.VoterDescription, problem: str
) -> None:
    answers = {"describe_cluster": cluster(), "describe_quorum": quorum(described)}
    FakeAdministration(**answers).install(monkeypatch)
    [found] = json_of(capsys, "cluster", "health", status=1)["problems"]
    assert problem in found


def test_what_is_allowed_but_should_not_last_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(
        describe_cluster=cluster(unclean_election_topics=["t"], brokers=[broker(1, is_draining=True)]),
        describe_quorum=quorum(voter(102, "recovering"), learners=[voter(104, "catching up")]),
    ).install(monkeypatch)
    document = json_of(capsys, "cluster", "health")
    assert (document["healthy"], len(document["warnings"])) == (True, 4)


def test_cluster_that_cannot_be_asked_is_not_healthy(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    FakeAdministration(describe_cluster=NoController("nobody leads")).install(monkeypatch)
    document = json_of(capsys, "cluster", "health", status=1)
    assert document["problems"] == ["NO_CONTROLLER: nobody leads"]
    assert document["what_to_do"].startswith("check that a majority of the controllers runs")
    assert main(["cluster", "health"]) == 1
    assert "  what to do: check that a majority of the controllers runs" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "loss"), [(2, 1), (4, 2)])
def test_even_number_of_voters_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, count: int, loss: int
) -> None:
    described = quorum(*(voter(101 + each, "follower") for each in range(count)))
    FakeAdministration(describe_cluster=cluster(), describe_quorum=described).install(monkeypatch)
    [warning] = json_of(capsys, "cluster", "health")["warnings"]
    assert warning.startswith(f"{count} voters: the loss of {loss} stops the quorum")


def test_health_names_the_partitions_that_are_ill_the_worst_first(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    topic = admin_pb2.TopicDescription(
        name="t", configs=[admin_pb2.ConfigEntry(name="min.insync.replicas", value="2")]
    )
    for number, isr in enumerate([[1, 2, 3], [1, 2], [1], [1]]):
        topic.partitions.add(partition=number, leader=1, replicas=[1, 2, 3], isr=isr)
    topic.partitions[3].ClearField("leader")
    fake = FakeAdministration(
        describe_cluster=cluster(
            partition_count=4, offline_partition_count=1, brokers=[broker(2, is_fenced=True)]
        ),
        describe_quorum=SOUND_QUORUM,
        list_topics=[[admin_pb2.TopicListing(name=each) for each in ("t", "deleted")]] * 2,
        describe_topic=[topic, UnknownTopicOrPartition("gone")] * 2,
    ).install(monkeypatch)
    told = json_of(capsys, "cluster", "health", status=1)["partitions"]
    states = [(each["topic"], each["partition"], each["state"]) for each in told]
    assert states == [
        ("t", 3, "offline"),
        ("t", 2, "under min.insync.replicas"),
        ("t", 1, "under-replicated"),
    ]
    assert main(["cluster", "health"]) == 1
    printed = capsys.readouterr().out
    assert "what to do: bring node 2 back" in printed
    assert printed.splitlines()[-1].split() == ["t", "1", "1", "1,2,3", "1,2", "-", "under-replicated"]
    assert len(fake.asked("describe_topic")) == 4


def test_how_far_a_voter_is_that_was_never_heard_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    described = quorum(voter(101, "leader", match_index=9), voter(102, "unreachable"))
    FakeAdministration(describe_quorum=described).install(monkeypatch)
    assert main(["cluster", "quorum"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[2] for row in rows] == ["9", "-"]


def test_voter_without_an_address_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(add_voter="d104").install(monkeypatch)
    assert main(["cluster", "add-voter", "104", "c4"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err
    assert fake.calls == []


def test_voter_is_removed_by_the_directory_it_has(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(describe_quorum=SOUND_QUORUM, remove_voter=None).install(monkeypatch)
    assert json_of(capsys, "cluster", "remove-voter", "102")["directory_id"] == "d102"
    assert fake.asked("remove_voter") == [(102, "d102")]


@pytest.mark.parametrize("arguments", [["104"], ["102", "--directory", "another"]])
def test_voter_that_is_none_is_not_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, arguments: list[str]
) -> None:
    fake = FakeAdministration(describe_quorum=SOUND_QUORUM, remove_voter=None).install(monkeypatch)
    assert main(["cluster", "remove-voter", *arguments]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert fake.asked("remove_voter") == []


def test_voter_is_added_and_controller_transferred(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(add_voter="d104", transfer_controller=103).install(monkeypatch)
    assert json_of(capsys, "cluster", "add-voter", "104", "c4:9092")["directory_id"] == "d104"
    assert json_of(capsys, "cluster", "transfer-controller", "103") == {"controller": 103}
    assert json_of(capsys, "cluster", "transfer-controller") == {"controller": 103}
    assert fake.calls == [
        ("add_voter", (104, "c4:9092")),
        ("transfer_controller", 103),
        ("transfer_controller", None),
    ]


def test_defaults_of_all_topics_are_changed(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    entry = admin_pb2.ConfigEntry(
        name="retention.ms", value="1", source=admin_pb2.ConfigSource.CONFIG_SOURCE_CLUSTER
    )
    fake = FakeAdministration(alter_configs=[[entry]]).install(monkeypatch)
    document = json_of(capsys, "cluster", "alter-config", "retention.ms=1", "--delete-config", "segment.ms")
    assert document == {"configs": {"retention.ms": {"value": "1", "source": "cluster"}}}
    [request] = fake.asked("alter_configs")
    assert request.topic == ""
    assert [(each.name, each.HasField("value")) for each in request.changes] == [
        ("retention.ms", True),
        ("segment.ms", False),
    ]


def test_setting_may_be_given_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdministration(alter_configs=[[]]).install(monkeypatch)
    assert main(["cluster", "alter-config", "a=1", "--config", "b=2"]) == 0
    [request] = fake.asked("alter_configs")
    assert [(each.name, each.value) for each in request.changes] == [("a", "1"), ("b", "2")]


def test_deleted_setting_is_shown_with_its_default(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    default = admin_pb2.ConfigSource.CONFIG_SOURCE_DEFAULT
    entries = [
        admin_pb2.ConfigEntry(name=key, value="7", source=default) for key in ("retention.ms", "segment.ms")
    ]
    FakeAdministration(alter_configs=[entries]).install(monkeypatch)
    assert main(["cluster", "alter-config", "--delete-config", "segment.ms"]) == 0
    assert capsys.readouterr().out == "  segment.ms=7 (default)\n"


# -- brokers


@pytest.mark.parametrize(("is_safe", "status"), [(True, 0), (False, 1)])
def test_answer_about_a_restart_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, is_safe: bool, status: int
) -> None:
    answer = admin_pb2.CheckBrokerRestartResponse(is_safe=is_safe, reasons=["because"])
    FakeAdministration(check_broker_restart=answer, describe_quorum=SOUND_QUORUM).install(monkeypatch)
    document = json_of(capsys, "broker", "safe-to-restart", "3", status=status)
    assert document == {"id": 3, "is_safe": is_safe, "reasons": ["because"]}
    assert main(["broker", "safe-to-restart", "3"]) == status
    assert capsys.readouterr().out.split() == ["yes" if is_safe else "no", "because"]


def test_broker_that_the_quorum_needs_is_not_safe_to_restart(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    """All partitions can do without it, and without a quorum they soon have no leader either."""
    answer = admin_pb2.CheckBrokerRestartResponse(is_safe=True)
    one_away = quorum(voter(1, "leader"), voter(2, "follower"), voter(3, "unreachable"))
    FakeAdministration(check_broker_restart=answer, describe_quorum=one_away).install(monkeypatch)
    document = json_of(capsys, "broker", "safe-to-restart", "1", status=1)
    assert (document["is_safe"], len(document["reasons"])) == (False, 1)
    assert "no majority is left without broker 1 (voter 3 is unreachable)" in document["reasons"][0]
    # Of the four, this one has no vote.
    assert json_of(capsys, "broker", "safe-to-restart", "4")["is_safe"] is True


def draining(*left: int) -> admin_pb2.DrainBrokerResponse:
    return admin_pb2.DrainBrokerResponse(remaining_leaders=[name("t", each) for each in left])


def test_drain_waits_until_the_broker_leads_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    answers = [draining(0, 1), draining(0, 1), draining(1), draining()]
    fake = FakeAdministration(drain_broker=answers).install(monkeypatch)
    assert main(["broker", "drain", "3"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "leaders of broker 3: 2 left",
        "leaders of broker 3: 1 left",
        "broker 3 is draining: it leads nothing",
    ]
    assert len(fake.calls) == 4


def test_drain_without_waiting_tells_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(drain_broker=draining(5)).install(monkeypatch)
    document = json_of(capsys, "broker", "drain", "3", "--no-wait")
    assert document["remaining_leaders"] == [{"topic": "t", "partition": 5}]
    assert json_of(capsys, "broker", "drain", "3", "--cancel")["is_draining"] is False
    assert fake.asked("drain_broker") == [{"cancel": False}, {"cancel": True}]


def test_wait_that_takes_too_long_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(drain_broker=draining(5)).install(monkeypatch)
    assert main(["broker", "drain", "3", "--timeout", "0.01"]) == 1
    assert "run the same again" in capsys.readouterr().err


def test_health_says_how_a_draining_broker_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    found = cluster(brokers=[broker(7, is_draining=True)])
    FakeAdministration(describe_cluster=found, describe_quorum=SOUND_QUORUM).install(monkeypatch)
    assert main(["cluster", "health"]) == 0
    told = capsys.readouterr().out
    assert "broker 7 is draining" in told
    assert "`quorate broker drain 7 --cancel`" in told


# -- partitions


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
    assert main([*MOVE, "--replicas", "1", "--throttle", "10XB"]) == 1
    assert capsys.readouterr().err.startswith("error: INVALID_CONFIG: --throttle 10XB: ")


@pytest.mark.parametrize("refused", ["reassign_partitions", "alter_configs"])
def test_refused_move_leaves_no_throttle_and_refused_throttle_no_move(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    answers: dict[str, Any] = {"reassign_partitions": None, "alter_configs": [[]]}
    fake = FakeAdministration(**{**answers, refused: InvalidConfig("no")}).install(monkeypatch)
    assert main([*MOVE, "--replicas", "1", "--throttle", "x"]) == 1
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
    fake = FakeAdministration(recover_partition=None).install(monkeypatch)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["partition", "recover", "t:0"]) == 2
    told = capsys.readouterr().err
    assert "ACKNOWLEDGED RECORDS MAY BE LOST" in told
    assert "--yes" in told
    assert fake.calls == []


def test_recovery_tells_what_each_replica_had(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    candidates = [
        admin_pb2.RecoveryCandidate(broker_id=1, last_epoch=4, log_end_offset=10),
        admin_pb2.RecoveryCandidate(broker_id=2, is_missing=True),
    ]
    answer = admin_pb2.RecoverPartitionResponse(leader=1, candidates=candidates)
    fake = FakeAdministration(recover_partition=answer).install(monkeypatch)
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
        ["cluster", "alter-config"],
        ["cluster", "add-voter", "x", "h:1"],
        ["partition", "elect", "t:x"],
        ["partition", "elect", ":1"],
        ["partition", "recover", "t"],
        ["partition", "reassign"],
        [*MOVE],
        [*MOVE, "--replicas", "1,"],
        [*MOVE, "--replicas", "1", "--cancel"],
        [*MOVE, "--replicas", "1", "--file", __file__],
        ["broker", "drain", "1", "--timeout", "0"],
    ],
)
def test_wrong_usage_of_cluster_commands_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, arguments: list[str]
) -> None:
    fake = FakeAdministration().install(monkeypatch)
    assert main(arguments) == 2
    assert "Usage:" in capsys.readouterr().err
    assert fake.calls == []


def test_a_controller_that_is_not_known_yet_is_no_number(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(transfer_controller=-1).install(monkeypatch)
    assert json_of(capsys, "cluster", "transfer-controller") == {"controller": None}


def test_the_feature_level_is_raised_to_the_highest_without_a_number(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fake = FakeAdministration(update_feature_level=1).install(monkeypatch)
    assert json_of(capsys, "cluster", "raise-feature-level") == {"feature_level": 1}
    assert json_of(capsys, "cluster", "raise-feature-level", "1") == {"feature_level": 1}
    assert fake.calls == [("update_feature_level", 0), ("update_feature_level", 1)]
