"""Making topics and adding partitions to them."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster, assignments, topic_id
from quorate.controller.partition_counts import create_partitions
from quorate.core.limits import PARTITIONS_PER_TOPIC_MAX
from quorate.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    NotEnoughReplicas,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from quorate.v1 import admin_pb2


def add_partitions(
    cluster: SmallCluster,
    count: int,
    *,
    by_hand: list[admin_pb2.ReplicaAssignment] | None = None,
    validate_only: bool = False,
) -> admin_pb2.TopicDescription:
    request = admin_pb2.CreatePartitionsRequest(
        name="t", partition_count=count, assignments=by_hand or [], validate_only=validate_only
    )
    decision = create_partitions(cluster.image, request, next_offset=cluster.next_offset, rng=cluster.rng)
    return cluster.commit(decision).topic


def test_new_partition_is_in_sync_everywhere_and_led_by_its_first_replica() -> None:
    cluster = SmallCluster(5)
    described = cluster.create(partitions=4, replication_factor=3, configs={"retention.ms": "1d"})
    assert len(cluster.topic().partitions) == 4
    for partition in cluster.topic().partitions:
        assert partition.isr == tuple(sorted(partition.replicas))
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    # Recorded as anybody can read it, however it was written.
    assert dict(cluster.topic().configs) == {"retention.ms": "86400000"}
    assert described.topic_id == cluster.topic().topic_id
    assert [each.leader for each in described.partitions] == [p.leader for p in cluster.topic().partitions]


def test_fenced_stopping_and_draining_brokers_get_no_new_replicas() -> None:
    cluster = SmallCluster(6)
    cluster.change_broker(1, is_fenced=True)
    cluster.change_broker(2, is_shutting_down=True)
    cluster.change_broker(3, is_draining=True)
    cluster.create(partitions=10, replication_factor=3)
    assert {each for partition in cluster.topic().partitions for each in partition.replicas} == {4, 5, 6}
    with pytest.raises(NotEnoughReplicas, match="3 can take new replicas: 6 are registered, 2 of them are"):
        cluster.create("u", replication_factor=4)


def test_replication_factor_above_the_number_of_brokers_is_refused_with_their_number() -> None:
    cluster = SmallCluster(2)
    with pytest.raises(NotEnoughReplicas) as caught:
        cluster.create(replication_factor=3)
    assert caught.value.facts["brokers"] == 2
    assert not cluster.image.topics


@pytest.mark.parametrize(("brokers", "expected"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_default_replication_factor_is_fixed_when_it_is_first_needed(brokers: int, expected: int) -> None:
    cluster = SmallCluster(brokers)
    cluster.create("explicit", replication_factor=1)
    assert cluster.image.default_replication_factor == 0
    assert cluster.create().replication_factor == expected
    assert cluster.image.default_replication_factor == expected
    for number in range(10, 14):
        cluster.add_broker(number)
    assert cluster.create("later").replication_factor == expected
    assert cluster.image.cluster_id == "cluster"


def test_nothing_is_fixed_while_no_broker_has_registered() -> None:
    cluster = SmallCluster(0)
    with pytest.raises(NotEnoughReplicas, match="no broker has registered"):
        cluster.create()


def test_repeated_request_finds_its_own_topic() -> None:
    cluster = SmallCluster()
    first = cluster.create(drawn_id=topic_id(7), partitions=2)
    offset = cluster.image.offset
    assert cluster.create(drawn_id=topic_id(7), partitions=2) == first
    assert cluster.image.offset == offset


def test_name_that_is_taken_and_id_that_was_used_are_refused() -> None:
    cluster = SmallCluster()
    cluster.create(drawn_id=topic_id(7))
    with pytest.raises(TopicAlreadyExists):
        cluster.create(drawn_id=topic_id(8))
    with pytest.raises(InvalidRequest, match="used before"):
        cluster.create("other", drawn_id=topic_id(7))
    cluster.delete()
    # A late repetition must not bring a deleted topic back to life (rule 43).
    with pytest.raises(InvalidRequest, match="used before"):
        cluster.create(drawn_id=topic_id(7))


@pytest.mark.parametrize(
    "wrong", ["x", "../../etc/passwd", "A" * 23, "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAA/AAAAAAAAAA"]
)
def test_topic_id_that_nobody_could_have_drawn_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="22 characters"):
        SmallCluster().create(drawn_id=wrong)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 221])
def test_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopic):
        SmallCluster().create(name)


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_PER_TOPIC_MAX + 1])
def test_impossible_partition_count_is_refused(partitions: int) -> None:
    with pytest.raises(InvalidTopic, match=f"1 to {PARTITIONS_PER_TOPIC_MAX} are possible"):
        SmallCluster().create(partitions=partitions)


@pytest.mark.parametrize("factor", [0, -1, 33])
def test_impossible_replication_factor_is_refused(factor: int) -> None:
    with pytest.raises(InvalidTopic, match="1 to 32 are possible"):
        SmallCluster().create(replication_factor=factor)


def test_wrong_setting_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean min\.insync\.replicas\?"):
        SmallCluster().create(configs={"min.insync.replica": "2"})


@pytest.mark.parametrize(
    ("key", "value", "what_to_do"),
    [
        ("cleanup.policy", "none", "'none' is no such word; expected one or more of compact, delete"),
        ("compression.type", "zstd", "choose the compression at the producers"),
        ("compression.type", "uncompressed", "choose the compression at the producers"),
        ("compression.type", "brotli", "'brotli' is no such word; expected producer"),
    ],
)
def test_values_that_only_kafka_has_are_refused_with_what_to_do_instead(
    key: str, value: str, what_to_do: str
) -> None:
    with pytest.raises(InvalidConfig, match=what_to_do) as refused:
        SmallCluster().create(configs={key: value})
    assert key in str(refused.value)


def test_what_happens_anyway_can_be_set_under_kafkas_names() -> None:
    cluster = SmallCluster()
    usual = {"cleanup.policy": "delete", "compression.type": "producer"}
    cluster.create(configs=usual)
    assert dict(cluster.topic().configs) == usual
    cluster.create("other")
    described = cluster.configure("other", {})
    assert {key: described[key] for key in usual} == {
        key: (value, admin_pb2.CONFIG_SOURCE_DEFAULT) for key, value in usual.items()
    }


def test_unclean_election_on_a_new_topic_is_logged_as_a_warning() -> None:
    cluster = SmallCluster()
    cluster.create("safe", configs={"unclean.leader.election.enable": "false"})
    assert cluster.warnings() == []
    cluster.create(configs={"unclean.leader.election.enable": "true"})
    assert cluster.warnings() == ["unclean_election_allowed"]


def test_validate_only_checks_everything_and_changes_nothing() -> None:
    cluster = SmallCluster()
    offset = cluster.image.offset
    assert len(cluster.create(partitions=3, validate_only=True).partitions) == 3
    assert cluster.image.offset == offset
    assert cluster.events == []
    with pytest.raises(NotEnoughReplicas):
        cluster.create(replication_factor=4, validate_only=True)


# --- by hand


def test_placement_by_hand_is_kept() -> None:
    cluster = SmallCluster()
    cluster.change_broker(3, is_fenced=True)
    cluster.create("t", [3, 1], [2, 3])
    assert [partition.replicas for partition in cluster.topic().partitions] == [(3, 1), (2, 3)]
    # A broker that does not run cannot be in sync, and leads nothing.
    assert [partition.isr for partition in cluster.topic().partitions] == [(1,), (2,)]
    assert [partition.leader for partition in cluster.topic().partitions] == [1, 2]


@pytest.mark.parametrize(
    ("replicas", "told"),
    [
        ([[1, 1]], "occurs twice"),
        ([[1, 9]], "no broker 9 is registered"),
        ([[]], "0 replicas"),
        ([[1, 2], [1]], "partition 1 has 1 replicas, 2 are expected"),
    ],
)
def test_impossible_placement_by_hand_is_refused(replicas: list[list[int]], told: str) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=told):
        SmallCluster().create("t", *replicas)


def test_placement_by_hand_has_to_agree_with_the_counts() -> None:
    cluster = SmallCluster()
    with pytest.raises(InvalidReplicaAssignment, match="2 partitions are wanted, and 1 are assigned"):
        cluster.create("t", [1], partitions=2)
    with pytest.raises(InvalidReplicaAssignment, match="1 replicas, 2 are expected"):
        cluster.create("t", [1], replication_factor=2)
    cluster.create("t", [1], replication_factor=1, partitions=1)


def test_placement_by_hand_needs_a_broker_that_runs_and_is_not_draining() -> None:
    cluster = SmallCluster()
    cluster.change_broker(1, is_fenced=True)
    cluster.change_broker(2, is_draining=True)
    with pytest.raises(NotEnoughReplicas, match="none of the brokers 1 is running"):
        cluster.create("t", [1])
    with pytest.raises(InvalidReplicaAssignment, match="broker 2 is draining"):
        cluster.create("t", [3, 2])


# --- more partitions


def test_partitions_are_added_up_to_the_wanted_count_once() -> None:
    cluster = SmallCluster(4)
    cluster.create(partitions=2, replication_factor=2)
    before = cluster.topic().partitions
    described = add_partitions(cluster, 6)
    assert len(described.partitions) == 6
    assert cluster.topic().partitions[:2] == before
    assert {len(partition.replicas) for partition in cluster.topic().partitions} == {2}
    offset = cluster.image.offset
    assert add_partitions(cluster, 6) == described
    assert cluster.image.offset == offset


def test_added_partitions_even_out_those_that_were_there() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2], [1, 2], [2, 1], [2, 1])
    add_partitions(cluster, 8)
    leaders = [partition.leader for partition in cluster.topic().partitions]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_fewer_partitions_are_refused() -> None:
    cluster = SmallCluster()
    cluster.create(partitions=3)
    for wanted in (2, 0, -1):
        with pytest.raises(InvalidTopic, match="cannot become fewer"):
            add_partitions(cluster, wanted)
    with pytest.raises(InvalidTopic, match="are possible"):
        add_partitions(cluster, PARTITIONS_PER_TOPIC_MAX + 1)


def test_added_partitions_can_be_placed_by_hand() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2])
    with pytest.raises(InvalidReplicaAssignment, match="partitions 1 to 1"):
        add_partitions(cluster, 2, by_hand=assignments([2, 3]))
    with pytest.raises(InvalidReplicaAssignment, match="1 replicas, 2 are expected"):
        add_partitions(cluster, 2, by_hand=assignments([2], first=1))
    with pytest.raises(InvalidReplicaAssignment, match="2 new partitions are wanted, and 1 are assigned"):
        add_partitions(cluster, 3, by_hand=assignments([2, 3], first=1))
    add_partitions(cluster, 2, by_hand=assignments([2, 3], first=1), validate_only=True)
    assert len(cluster.topic().partitions) == 1
    add_partitions(cluster, 2, by_hand=assignments([2, 3], first=1))
    assert cluster.partition(1).replicas == (2, 3)


def test_partitions_of_no_topic_are_refused() -> None:
    with pytest.raises(UnknownTopicOrPartition):
        add_partitions(SmallCluster(), 2)
