"""What `quorate cluster health` sees that counts of the metadata do not show: full disks, and moves."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.console import described_topics
from quorate.v1 import admin_pb2, errors_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]

QUORUM = admin_pb2.DescribeQuorumResponse(
    leader=1, voters=[admin_pb2.VoterDescription(node_id=1, state="leader")]
)


def partition(number: int, *, code: str = "", **fields: Any) -> admin_pb2.PartitionDescription:
    described = admin_pb2.PartitionDescription(
        partition=number, **{"leader": 2, "replicas": [1, 2, 3], "isr": [1, 2, 3], **fields}
    )
    if code:
        described.error.CopyFrom(errors_pb2.ErrorDetail(code=code, message=f"{code} here"))
    return described


def move(number: int, *, isr: list[int]) -> admin_pb2.Reassignment:
    return admin_pb2.Reassignment(
        partition=admin_pb2.PartitionName(topic="t", partition=number),
        replicas=[1, 2, 4],
        adding_replicas=[4],
        removing_replicas=[1],
        isr=isr,
    )


def look(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capsys,
    *partitions: admin_pb2.PartitionDescription,
    status: int,
    topics: tuple[str, ...] = ("t",),
    moves: tuple[admin_pb2.Reassignment, ...] = (),
    min_isr: int = 1,
    **counts: Any,
) -> Any:
    cluster = admin_pb2.DescribeClusterResponse(
        brokers=[admin_pb2.BrokerDescription(broker_id=each) for each in (1, 2, 3)],
        partition_count=len(partitions),
        reassigning_partition_count=len(moves),
        **counts,
    )
    setting = admin_pb2.ConfigEntry(name="min.insync.replicas", value=str(min_isr))
    FakeAdministration(
        describe_cluster=cluster,
        describe_quorum=QUORUM,
        list_topics=[[admin_pb2.TopicListing(name=each) for each in topics]],
        list_reassignments=[list(moves)],
        describe_topic=admin_pb2.TopicDescription(name="t", partitions=partitions, configs=[setting]),
    ).install(monkeypatch)
    return json_of(capsys, "cluster", "health", status=status)


def test_leader_without_room_is_a_problem_although_all_counts_are_sound(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    full = [partition(number, code="DISK_FULL") for number in range(2)]
    told = look(monkeypatch, capsys, *full, partition(2), status=1)
    assert told["problems"] == [
        "2 partitions take no records: no space left on the disk of broker 2 (DISK_FULL)"
    ]
    assert told["what_to_do"].startswith("make room on the disk of broker 2: ")
    assert [(each["partition"], each["state"]) for each in told["partitions"]] == [
        (0, "DISK_FULL"),
        (1, "DISK_FULL"),
    ]


def test_leader_whose_log_is_of_no_use_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    told = look(monkeypatch, capsys, partition(0, code="LOG_DAMAGED"), status=1)
    assert told["problems"] == ["1 partition cannot be served by broker 2 (LOG_DAMAGED)"]
    assert "quorate log verify" in told["what_to_do"]


@pytest.mark.parametrize("code", ["REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"])
def test_leader_that_does_not_answer_at_the_moment_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, code: str
) -> None:
    """If it is gone for good it is fenced soon, which is a problem; elections take a moment."""
    told = look(monkeypatch, capsys, partition(0, code=code), status=0)
    assert told["warnings"] == [f"broker 2 could not be asked about 1 partition that it leads ({code})"]


def test_topics_that_were_not_looked_at_are_told(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.setattr(described_topics, "_TOPICS_ASKED_MAX", 1)
    told = look(monkeypatch, capsys, partition(0), topics=("t", "u"), status=0)
    assert told["warnings"] == [
        "1 of 2 topics were asked about; a full disk or damage is not seen in the others"
    ]


def test_move_whose_old_replicas_are_in_sync_is_a_warning_that_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    moving = partition(0, replicas=[1, 2, 4], isr=[1, 2], adding_replicas=[4], removing_replicas=[1])
    told = look(
        monkeypatch,
        capsys,
        moving,
        moves=(move(0, isr=[1, 2]),),
        under_replicated_partition_count=1,
        status=0,
    )
    assert (told["problems"], told["next_steps"], told["partitions"]) == ([], [], [])
    assert told["warnings"] == [
        (
            "1 partition moves, and new replicas are not in sync yet: t:0; "
            "`quorate partition reassign --list` shows how far it is"
        )
    ]


def test_move_that_lacks_an_old_replica_is_a_problem_with_a_step(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    fields: dict[str, Any] = {"replicas": [1, 2, 4], "adding_replicas": [4], "removing_replicas": [1]}
    told = look(
        monkeypatch,
        capsys,
        partition(0, isr=[1, 2], **fields),
        partition(1, isr=[2], **fields),
        moves=(move(0, isr=[1, 2]), move(1, isr=[2])),
        under_replicated_partition_count=2,
        status=1,
    )
    assert told["problems"] == ["1 partition with replicas that are not in sync"]
    assert told["what_to_do"].startswith("broker 1 is there and not in sync")
    assert [(each["partition"], each["state"]) for each in told["partitions"]] == [(1, "under-replicated")]
    assert len(told["warnings"]) == 1


def test_recovered_partition_is_a_warning_that_names_it_and_how_that_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    """All replicas are in sync, and no election comes by itself: a problem would hold up every restart."""
    recovered = [partition(0, may_lack_records=True), partition(1, leader=3, may_lack_records=True)]
    single = partition(3, leader=1, replicas=[1], isr=[1], may_lack_records=True)
    told = look(monkeypatch, capsys, *recovered, partition(2), single, recovering_partition_count=3, status=0)
    assert (told["problems"], told["partitions"]) == ([], [])
    [warning] = told["warnings"]
    assert warning.startswith(
        "3 partitions were recovered, or elected uncleanly, and may lack acknowledged records: "
        "t:0, t:1, t:3; "
    )
    assert warning.endswith(
        "until another leader is elected: once all replicas are in sync, `quorate broker drain ID` and then "
        "`--cancel`, for broker 2, 3; a restart of broker 1, as there is no other replica"
    )


@pytest.mark.parametrize(
    ("min_isr", "replicas", "warns"),
    [(2, [1, 2, 3], False), (3, [1, 2, 3], True), (9, [1, 2, 3], True), (2, [2], False)],
)
def test_topic_that_can_spare_no_broker_is_a_warning_while_all_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, min_isr: int, replicas: list[int], warns: bool
) -> None:
    sound = partition(0, replicas=replicas, isr=replicas)
    told = look(monkeypatch, capsys, sound, min_isr=min_isr, status=0)
    assert len(told["warnings"]) == warns
    for warning in told["warnings"]:
        assert warning.startswith("1 topic takes no records as soon as one of its brokers is away")
        assert "min.insync.replicas is as high as the number of its replicas: t;" in warning


def test_what_a_move_adds_is_no_headroom_yet(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    growing = partition(0, replicas=[1, 2, 4], isr=[1, 2], adding_replicas=[4])
    [warning] = look(monkeypatch, capsys, growing, min_isr=2, status=0)["warnings"]
    assert "as soon as one of its brokers is away" in warning
