"""What `quorate cluster health` tells people to do."""

from __future__ import annotations

from typing import Any

from quorate.console.health_steps import next_steps
from quorate.v1 import admin_pb2

SOUND = admin_pb2.DescribeClusterResponse(brokers=[admin_pb2.BrokerDescription(broker_id=1)])
QUORUM = admin_pb2.DescribeQuorumResponse()


def ill(state: str, *, isr: list[int], elr: list[int] | None = None, code: str = "") -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "leader": isr[0] if isr else None,
        "state": state,
        "replicas": [1, 2, 3],
        "isr": isr,
        "elr": elr or [],
        "adding_replicas": [],
        "error": {"code": code, "message": ""} if code else None,
    }


def test_nothing_is_to_be_done_about_a_sound_cluster() -> None:
    assert next_steps(SOUND, QUORUM, []) == []


def test_nodes_that_are_away_come_first() -> None:
    cluster = admin_pb2.DescribeClusterResponse(
        brokers=[admin_pb2.BrokerDescription(broker_id=2, is_fenced=True)]
    )
    quorum = admin_pb2.DescribeQuorumResponse(
        voters=[admin_pb2.VoterDescription(node_id=101, state="unreachable")]
    )
    first, _ = next_steps(cluster, quorum, [ill("under-replicated", isr=[1, 3])])
    assert first.startswith("bring nodes 2 and 101 back")


def test_voter_that_runs_and_stays_unreachable_is_replaced() -> None:
    """Its disk was emptied: to start it again and again changes nothing."""
    voter = admin_pb2.VoterDescription(node_id=103, state="unreachable", address="c:9093")
    first, then = next_steps(SOUND, admin_pb2.DescribeQuorumResponse(voters=[voter]), [])
    assert first.startswith("bring node 103 back")
    assert "`quorate cluster remove-voter 103`, then `quorate cluster add-voter 103 c:9093`" in then


def test_cluster_without_a_broker_is_told_how_to_start_one() -> None:
    [step] = next_steps(admin_pb2.DescribeClusterResponse(), QUORUM, [])
    assert step.startswith("start a broker (node.roles=broker)")
    assert "registration_waits" in step


def test_offline_partition_names_who_has_everything_and_the_last_resort_last() -> None:
    [step] = next_steps(SOUND, QUORUM, [ill("offline", isr=[2], elr=[3])])
    assert step.startswith("orders:0 waits for broker 2 or 3")
    assert step.endswith("`quorate partition recover orders:0`, which may lose records")
    [step] = next_steps(SOUND, QUORUM, [ill("offline", isr=[])])
    assert "broker 1, 2 or 3 with its disk" in step


def test_broker_that_is_there_and_does_not_keep_up_is_named() -> None:
    [step] = next_steps(SOUND, QUORUM, [ill("under-replicated", isr=[1, 3])])
    assert step.startswith("broker 2 is there and not in sync")


def test_voter_that_has_too_little_is_replaced_and_one_that_differs_is_kept() -> None:
    voters = [
        admin_pb2.VoterDescription(node_id=1, state="refused"),
        admin_pb2.VoterDescription(node_id=2, state="follower", is_digest_equal=False),
    ]
    replaced, kept = next_steps(SOUND, admin_pb2.DescribeQuorumResponse(voters=voters), [])
    assert "remove-voter 1" in replaced
    assert "keep all of its files" in kept


def test_full_disk_says_that_it_goes_on_by_itself() -> None:
    [step] = next_steps(SOUND, QUORUM, [ill("DISK_FULL", isr=[1, 2, 3], code="DISK_FULL")])
    assert step.startswith("make room on the disk of broker 1: ")
