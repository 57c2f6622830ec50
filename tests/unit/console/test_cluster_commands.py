"""``quorate cluster`` and ``quorate broker`` against a controller that answers as it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.console import waiting
from quorate.console.main import main
from quorate.errors import NoController, UnknownTopicOrPartition
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


def broker(broker_id: int, **fields: Any) -> admin_pb2.BrokerDescription:
    return admin_pb2.BrokerDescription(broker_id=broker_id, address=f"b{broker_id}:9092", **fields)


def cluster(**fields: Any) -> admin_pb2.DescribeClusterResponse:
    controllers = [admin_pb2.ControllerDescription(node_id=101, address="c1:9092")]
    fields.setdefault("brokers", [broker(1)])
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
    FakeAdministration(describe_cluster=described, describe_configs=configs()).install(monkeypatch)
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
    document = json_of(capsys, "cluster", "describe")
    assert (document["controller"], document["configs"]) == (None, {})


def configs(**values: str) -> admin_pb2.AlterConfigsResponse:
    """``values``: set for the cluster."""
    entries = [
        admin_pb2.ConfigEntry(name="segment.ms", value="9", source=admin_pb2.CONFIG_SOURCE_DEFAULT),
        *(
            admin_pb2.ConfigEntry(
                name=name.replace("_", "."), value=value, source=admin_pb2.CONFIG_SOURCE_CLUSTER
            )
            for name, value in values.items()
        ),
    ]
    return admin_pb2.AlterConfigsResponse(configs=entries)


def test_what_is_set_for_the_cluster_can_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answer = configs(follower_replication_throttled_rate="1048576")
    FakeAdministration(describe_cluster=cluster(), describe_configs=answer).install(monkeypatch)
    assert main(["cluster", "describe"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == "  follower.replication.throttled.rate=1048576 (cluster)"
    assert "segment.ms" not in told, "nobody has set it"
    assert json_of(capsys, "cluster", "describe")["configs"] == {
        "segment.ms": {"value": "9", "source": "default"},
        "follower.replication.throttled.rate": {"value": "1048576", "source": "cluster"},
    }


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
        ({"brokers": [broker(7, is_fenced=True)]}, "broker 7 at b7:9092 is fenced"),
        ({"brokers": []}, "no broker is registered"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["104"], "there is no voter 104; the voters are 101, 102, 103"),
        (["102", "--directory", "another"], "the directory of voter 102 is d102, not another"),
    ],
)
def test_voter_that_is_none_is_not_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, arguments: list[str], message: str
) -> None:
    fake = FakeAdministration(describe_quorum=SOUND_QUORUM, remove_voter=None).install(monkeypatch)
    assert main(["cluster", "remove-voter", *arguments]) == 1
    printed = capsys.readouterr()
    assert "VOTER_CHANGE_REFUSED" in printed.err
    assert f"{message}: nothing was changed" in printed.err
    assert printed.out == ""
    assert fake.asked("remove_voter") == []


def test_voter_that_is_none_is_an_error_with_a_code_for_programs_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    FakeAdministration(describe_quorum=SOUND_QUORUM, remove_voter=None).install(monkeypatch)
    assert main(["cluster", "remove-voter", "104", "--output", "json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "VOTER_CHANGE_REFUSED"


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


@pytest.mark.parametrize(("min_isr", "warns"), [(2, False), (3, True), (9, True)])
@pytest.mark.parametrize("option", ["set", "deleted"])
def test_cluster_wide_min_isr_that_lets_no_broker_go_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, min_isr: int, warns: bool, option: str
) -> None:
    """What is in force then decides, whoever has set it; the topic of the groups is one like others."""
    setting = admin_pb2.ConfigEntry(name="min.insync.replicas", value=str(min_isr))
    partitions = [admin_pb2.PartitionDescription(partition=0, replicas=[1, 2, 3], isr=[1, 2, 3])]
    described = [
        admin_pb2.TopicDescription(name=name, configs=[setting], partitions=partitions)
        for name in ("__consumer_offsets", "t")
    ]
    listed = [admin_pb2.TopicListing(name=each.name) for each in described]
    FakeAdministration(alter_configs=[[setting]], list_topics=[listed], describe_topic=described).install(
        monkeypatch
    )
    change = {"set": [f"{setting.name}={min_isr}"], "deleted": ["--delete-config", setting.name]}
    assert main(["cluster", "alter-config", *change[option]]) == 0
    told = capsys.readouterr().err
    assert told.startswith("warning: 2 topics take no records as soon as") == warns
    assert ("__consumer_offsets, t; lower it" in told) == warns


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


def topic_of(*replicas: int, isr: list[int] | None = None) -> admin_pb2.TopicDescription:
    partitions = [
        admin_pb2.PartitionDescription(partition=each, leader=3, replicas=replicas, isr=isr or [3])
        for each in (4, 5)
    ]
    return admin_pb2.TopicDescription(name="t", partitions=partitions)


def drained_for_ever(**answers: Any) -> FakeAdministration:
    """Broker 3 goes on leading a partition."""
    return FakeAdministration(drain_broker=draining(5), **answers)


def test_drain_waits_until_the_broker_leads_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    answers = [draining(0, 1), draining(0, 1), draining(1), draining()]
    fake = FakeAdministration(
        drain_broker=answers,
        describe_cluster=cluster(brokers=[broker(1), broker(3, is_draining=True)]),
        describe_topic=topic_of(1, 3),
    ).install(monkeypatch)
    assert main(["broker", "drain", "3"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "leaders of broker 3: 2 left",
        "leaders of broker 3: 1 left",
        "broker 3 is draining: it leads nothing",
    ]
    assert len(fake.asked("drain_broker")) == 4
    assert len(fake.asked("describe_cluster")) == 1, "once, when nothing had gone since the last look"


def test_drain_without_waiting_tells_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(drain_broker=draining(5)).install(monkeypatch)
    document = json_of(capsys, "broker", "drain", "3", "--no-wait")
    assert document["remaining_leaders"] == [{"topic": "t", "partition": 5}]
    assert json_of(capsys, "broker", "drain", "3", "--cancel")["is_draining"] is False
    assert fake.asked("drain_broker") == [{"cancel": False}, {"cancel": True}]


def test_wait_that_takes_too_long_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    drained_for_ever(
        describe_cluster=cluster(brokers=[broker(1), broker(3)]), describe_topic=topic_of(1, 3)
    ).install(monkeypatch)
    assert main(["broker", "drain", "3", "--timeout", "0.01"]) == 1
    assert "run the same again" in capsys.readouterr().err


def test_drain_that_cannot_end_says_why_also_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    drained_for_ever(describe_cluster=cluster(brokers=[broker(3)]), describe_topic=topic_of(3)).install(
        monkeypatch
    )
    assert main(["broker", "drain", "3", "--timeout", "0.01"]) == 1
    assert "t:5 (no other replica);" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("replicas", "why"),
    [
        ([3], "no other replica"),
        ([1, 3], "broker 1 is draining"),
        ([2, 3], "broker 2 is away"),
        ([7, 3, 2, 1], "broker 1 is draining, broker 2 is away, broker 7 is away"),
    ],
)
def test_drain_ends_where_nobody_else_can_lead_what_is_left_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, replicas: list[int], why: str
) -> None:
    monkeypatch.setattr(waiting, "_STUCK_S", 0.0)
    brokers = [broker(1, is_draining=True), broker(2, is_fenced=True), broker(3, is_draining=True), broker(4)]
    fake = drained_for_ever(
        describe_cluster=cluster(brokers=brokers), describe_topic=topic_of(*replicas, isr=replicas)
    )
    fake.install(monkeypatch)
    assert main(["broker", "drain", "3"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "leaders of broker 3: 1 left"
    assert f"still leads 1 partition(s) that nobody else can lead: t:5 ({why});" in told[-1]
    assert told[-1].endswith("or `quorate broker drain 3 --cancel`")
    document = json_of(capsys, "broker", "drain", "3", status=1)
    assert document["stuck_leaders"] == [{"topic": "t", "partition": 5, "why": why}]


@pytest.mark.parametrize("catching_up", [broker(1), broker(1, is_draining=True)])
def test_drain_waits_for_a_replica_that_catches_up_or_comes_back_into_service(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, catching_up: admin_pb2.BrokerDescription
) -> None:
    brokers = [catching_up, broker(3, is_draining=True)]
    FakeAdministration(
        drain_broker=[draining(5)] * 5 + [draining()],
        describe_cluster=cluster(brokers=brokers),
        describe_topic=topic_of(1, 3),
    ).install(monkeypatch)
    assert main(["broker", "drain", "3"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "broker 3 is draining: it leads nothing"


def test_drain_names_twenty_of_those_that_stay_and_looks_at_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setattr(waiting, "_STUCK_S", 0.0)
    fake = FakeAdministration(
        drain_broker=draining(*range(500)),
        describe_cluster=cluster(brokers=[broker(3, is_draining=True)]),
        describe_topic=topic_of(3),
    )
    fake.install(monkeypatch)
    assert main(["broker", "drain", "3"]) == 1
    told = capsys.readouterr().err
    assert "still leads 500 partition(s)" in told
    assert told.count("no other replica") == 20
    assert "and 480 more;" in told


def test_health_says_how_a_draining_broker_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    found = cluster(brokers=[broker(7, is_draining=True)])
    FakeAdministration(describe_cluster=found, describe_quorum=SOUND_QUORUM).install(monkeypatch)
    assert main(["cluster", "health"]) == 0
    told = capsys.readouterr().out
    assert "broker 7 is draining" in told
    assert "`quorate broker drain 7 --cancel`" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["cluster", "alter-config"],
        ["cluster", "add-voter", "x", "h:1"],
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


@pytest.mark.parametrize("command", [["safe-to-restart"], ["drain"], ["decommission"]])
def test_a_broker_that_is_called_by_its_name_is_looked_for_by_number(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *command, "node-1"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "'node-1': a broker is named by its number, see `quorate broker list`" in told
    assert "integer range" not in told


def test_a_voter_that_is_called_by_its_name_is_looked_for_by_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cluster", "remove-voter", "node-1"]) == 2
    assert "a voter is named by its number, see `quorate cluster quorum`" in capsys.readouterr().err
