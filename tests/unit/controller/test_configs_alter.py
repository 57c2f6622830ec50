"""Changing settings (rule 29: what a change of MinISR does to partitions)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.broker_requests import alteration, ask_for_isr
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.alter_configs import alter_configs
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import fence_broker
from quorate.controller.cluster_description import describe_cluster
from quorate.controller.partition_counts import create_partitions
from quorate.controller.topic_descriptions import describe_topic
from quorate.core.ids import BrokerId
from quorate.errors import (
    InvalidConfig,
    InvalidRequest,
    InvalidUpdateVersion,
    NotEnoughReplicas,
    UnknownTopicOrPartition,
)
from quorate.metadata.image import NO_LEADER, Recovery
from quorate.metadata.topic_settings import min_insync_replicas, min_insync_replicas_of, throttled_rate
from quorate.v1 import admin_pb2, controller_pb2

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


def test_topic_goes_before_cluster_before_what_is_built_in() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    assert cluster.configure("", {})["retention.ms"] == ("604800000", admin_pb2.CONFIG_SOURCE_DEFAULT)
    cluster.configure("", {"retention.ms": "2d"})
    assert cluster.configure("t", {})["retention.ms"] == ("172800000", admin_pb2.CONFIG_SOURCE_CLUSTER)
    cluster.configure("t", {"retention.ms": "3d"})
    assert cluster.configure("t", {})["retention.ms"] == ("259200000", admin_pb2.CONFIG_SOURCE_TOPIC)
    assert cluster.configure("t", {"retention.ms": None})["retention.ms"][0] == "172800000"
    assert cluster.configure("", {"retention.ms": None})["retention.ms"][0] == "604800000"


def test_all_changes_of_a_request_are_made_or_none() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    with pytest.raises(InvalidConfig, match=r"did you mean segment\.bytes\?"):
        cluster.configure("t", {"retention.ms": "1d", "segment.byte": "1GiB"})
    with pytest.raises(InvalidConfig, match="too small"):
        cluster.configure("t", {"retention.ms": "1d", MIN_ISR: "0"})
    with pytest.raises(InvalidConfig, match="did you mean"):
        cluster.configure("t", {"retention.mss": None})
    assert not cluster.topic().configs


def test_what_all_topics_share_is_set_for_the_cluster_alone() -> None:
    cluster = SmallCluster()
    rate = {"follower.replication.throttled.rate": "10MiB"}
    with pytest.raises(InvalidConfig, match="for the cluster, not for a topic"):
        cluster.create("t", configs=rate)
    cluster.create("t")
    with pytest.raises(InvalidConfig, match="for the cluster, not for a topic"):
        cluster.configure("t", rate)
    assert throttled_rate(cluster.image) == -1
    cluster.configure("", rate)
    assert throttled_rate(cluster.image) == 10 << 20


def test_setting_that_is_named_twice_is_refused() -> None:
    cluster = SmallCluster()
    change = admin_pb2.ConfigChange(name="retention.ms", value="1")
    request = admin_pb2.AlterConfigsRequest(changes=[change, change], config_epoch=0)
    with pytest.raises(InvalidRequest, match="twice"):
        alter_configs(
            cluster.image, request, next_offset=cluster.next_offset, is_heard=lambda _broker_id: True
        )


def test_unknown_topic_is_refused() -> None:
    with pytest.raises(UnknownTopicOrPartition):
        SmallCluster().configure("t", {"retention.ms": "1d"})


def test_a_check_and_a_look_write_nothing() -> None:
    cluster = SmallCluster()
    cluster.create("t", configs={"retention.ms": "1d"})
    offset = cluster.image.offset
    cluster.configure("t", {"retention.ms": "2d"}, validate_only=True)
    cluster.configure("t", {})
    assert cluster.image.offset == offset


# --- copies that arrive late, and for others


def _put(cluster: SmallCluster, request: admin_pb2.AlterConfigsRequest) -> admin_pb2.AlterConfigsResponse:
    return cluster.commit(
        alter_configs(
            cluster.image, request, next_offset=cluster.next_offset, is_heard=lambda _broker_id: True
        )
    )


@pytest.mark.parametrize("name", ["t", ""])
def test_a_copy_of_a_change_is_refused_once_there_was_another(name: str) -> None:
    """Also where the setting is back at the value that the copy was based on."""
    cluster = SmallCluster()
    cluster.create("t")
    late = cluster.alteration(name, {UNCLEAN: "true", MIN_ISR: "1"})
    _put(cluster, late)
    cluster.configure(name, {UNCLEAN: None, MIN_ISR: None})
    offset = cluster.image.offset
    with pytest.raises(InvalidUpdateVersion, match="is based on 0") as refused:
        _put(cluster, late)
    assert refused.value.facts["config_epoch"] == 4
    assert cluster.image.offset == offset


def test_a_change_that_is_in_force_is_answered_again() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    request = cluster.alteration("t", {UNCLEAN: "true"})
    first = _put(cluster, request)
    offset = cluster.image.offset
    assert _put(cluster, request) == first
    assert first.config_epoch == cluster.topic().config_epoch == 1
    assert cluster.image.offset == offset


def test_a_change_to_what_is_in_force_puts_an_end_to_those_before_it() -> None:
    """Somebody has given up waiting for the other one, and makes sure: nothing is different, and it holds."""
    cluster = SmallCluster()
    cluster.create("t", configs={UNCLEAN: "false"})
    cluster.events.clear()
    late = cluster.alteration("t", {UNCLEAN: "true"})
    cluster.configure("t", {UNCLEAN: "false"})
    assert cluster.events == []
    with pytest.raises(InvalidUpdateVersion):
        _put(cluster, late)


def test_a_copy_of_a_change_does_not_reach_the_next_topic_of_the_name() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    late = cluster.alteration("t", {UNCLEAN: "true"})
    cluster.delete("t")
    cluster.create("t")
    with pytest.raises(UnknownTopicOrPartition):
        _put(cluster, late)


def test_a_change_says_what_it_is_based_on() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    change = admin_pb2.ConfigChange(name="segment.bytes", value="1MiB")
    for request, missing in (
        (admin_pb2.AlterConfigsRequest(changes=[change]), "config epoch"),
        (admin_pb2.AlterConfigsRequest(topic="t", changes=[change], config_epoch=0), "topic's id"),
        (
            admin_pb2.AlterConfigsRequest(topic="t", topic_id=cluster.topic().topic_id, changes=[change]),
            "config epoch",
        ),
        (admin_pb2.AlterConfigsRequest(topic_id=cluster.topic().topic_id), "without the topic's name"),
    ):
        with pytest.raises(InvalidRequest, match=missing):
            _put(cluster, request)


def test_a_look_tells_what_a_change_has_to_name() -> None:
    cluster = SmallCluster()
    cluster.create("t", configs={"segment.bytes": "1MiB"})
    cluster.configure("", {"segment.bytes": "2MiB", MIN_ISR: "1"})
    seen = _put(cluster, admin_pb2.AlterConfigsRequest(topic="t"))
    assert (seen.topic_id, seen.config_epoch) == (cluster.topic().topic_id, 1)
    described = describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(name="t")).topic
    assert described.config_epoch == 1
    seen = _put(cluster, admin_pb2.AlterConfigsRequest())
    assert (seen.topic_id, seen.config_epoch) == ("", 2)
    assert describe_cluster(cluster.image, controller=None, controllers=()).config_epoch == 2
    checked = _put(cluster, cluster.alteration("", {MIN_ISR: "2"}, validate_only=True))
    assert checked.config_epoch == 2, "the change itself has to name this one"


# --- MinISR


@pytest.mark.parametrize(("setting", "in_force"), [("1", 1), ("2", 2), ("3", 2)])
def test_min_isr_in_force_is_never_more_than_the_replicas(setting: str, in_force: int) -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2], configs={MIN_ISR: setting})
    assert min_insync_replicas(cluster.image, cluster.topic()) == int(setting)
    assert min_insync_replicas_of(cluster.image, cluster.partition()) == in_force


@pytest.mark.parametrize("name", ["t", ""])
@pytest.mark.parametrize("setting", ["1", "3"])
def test_change_of_min_isr_clears_every_elr_that_it_touches_in_the_same_batch(
    name: str, setting: str
) -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2, 3], [2, 3, 1])
    cluster.create("fixed", [1, 2, 3], configs={MIN_ISR: "2"})
    for topic in ("t", "fixed"):
        cluster.set_partition(0, topic, isr=[1], elr=[2])
    cluster.configure(name, {MIN_ISR: setting})
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), ())
    assert cluster.partition().leader == 1
    # It has its own MinISR, which is still 2.
    assert cluster.partition(0, "fixed").elr == (2,)


def test_change_of_min_isr_without_effect_touches_no_partition() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2])
    cluster.set_partition(isr=[1], elr=[2])
    before = cluster.partition()
    cluster.configure("t", {MIN_ISR: "3"})
    assert cluster.partition() is before
    cluster.configure("", {MIN_ISR: "1"})
    assert cluster.partition() is before


def test_reset_of_a_topic_counts_as_a_change_of_min_isr() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2, 3], configs={MIN_ISR: "3"})
    cluster.set_partition(isr=[1, 2], elr=[3])
    cluster.configure("t", {MIN_ISR: None})
    assert cluster.partition().elr == ()


def test_leader_that_has_not_seen_a_higher_min_isr_cannot_shrink_its_isr() -> None:
    # A leader that still commits alone must not have the others counted as complete (rules 21, 29).
    cluster = SmallCluster()
    cluster.create("t", [1, 2], configs={MIN_ISR: "1"})
    known = cluster.partition()
    cluster.configure("t", {MIN_ISR: "2"})
    assert cluster.partition().partition_epoch == known.partition_epoch + 1
    epoch = cluster.image.brokers[BrokerId(1)].broker_epoch
    wish = controller_pb2.PartitionAlteration(
        topic_id=known.topic_id,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        isr=[controller_pb2.IsrMember(broker_id=1, broker_epoch=epoch)],
    )
    request = controller_pb2.AlterPartitionRequest(broker_id=1, broker_epoch=epoch, partitions=[wish])
    [result] = cluster.commit(alter_partition(cluster.image, request)).partitions
    assert result.error.code == "INVALID_UPDATE_VERSION"
    assert cluster.partition().elr == ()


def test_lower_min_isr_needs_no_new_partition_epoch() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2])
    before = cluster.partition()
    cluster.configure("t", {MIN_ISR: "1"})
    assert cluster.partition() is before


@pytest.mark.parametrize(("isr", "elr"), [([], [2, 3]), ([3], [2])])
def test_min_isr_cannot_be_changed_while_the_elr_may_be_all_that_is_left_of_a_partition(
    isr: list[int], elr: list[int]
) -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=isr, elr=elr, leader=NO_LEADER)
    for name in ("t", ""):
        with pytest.raises(NotEnoughReplicas, match="only the brokers 2, 3 are known to hold all"):
            cluster.configure(name, {MIN_ISR: "1"})
    assert cluster.partition().elr == tuple(elr)


def test_min_isr_cannot_be_changed_while_the_leader_has_not_spoken_to_this_controller() -> None:
    """It may be dead, and have lost what it had: then nobody else would be known to be complete."""
    cluster = SmallCluster()
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1], elr=[2])
    request = cluster.alteration("t", {MIN_ISR: "1"})
    with pytest.raises(NotEnoughReplicas, match="only the brokers 1, 2 are known to hold all"):
        alter_configs(
            cluster.image, request, next_offset=cluster.next_offset, is_heard=lambda each: each != 1
        )
    cluster.configure("t", {MIN_ISR: "1"})
    assert cluster.partition().elr == ()


# --- unclean election


def test_allowing_unclean_election_is_a_warning_and_elects_what_is_left() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2, 3], [2, 1, 3])
    cluster.set_partition(0, isr=[], elr=[], leader=NO_LEADER)
    healthy = cluster.partition(1)
    cluster.configure("t", {UNCLEAN: "true"})
    assert cluster.warnings() == ["unclean_election_allowed", "unclean_leader_election"]
    partition = cluster.partition()
    assert partition.leader != NO_LEADER
    assert partition.recovery is Recovery.RECOVERING
    assert partition.unclean_leader_epochs == (partition.leader_epoch,)
    assert cluster.partition(1) is healthy


def test_forbidding_unclean_election_is_no_warning() -> None:
    cluster = SmallCluster()
    cluster.create("t", configs={UNCLEAN: "true"})
    cluster.events.clear()
    cluster.configure("t", {UNCLEAN: "false"})
    assert cluster.warnings() == []


def test_unclean_election_for_the_whole_cluster_reaches_topics_without_their_own_setting() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1])
    cluster.create("careful", [1], configs={UNCLEAN: "false"})
    for name in ("t", "careful"):
        cluster.set_partition(0, name, isr=[], leader=NO_LEADER)
    cluster.configure("", {UNCLEAN: "true"})
    assert cluster.partition(0, "t").leader == 1
    assert cluster.partition(0, "careful").leader == NO_LEADER


@pytest.mark.parametrize("level", ["t", ""])
def test_a_topic_that_is_changed_to_fsync_is_synced_when_its_leader_says_so(level: str) -> None:
    """Rule 45: a power loss before that may cost what is there; whoever follows now knows the setting."""
    cluster = SmallCluster()
    cluster.create("t")
    before = cluster.partition()
    cluster.configure(level, {"durability": "fsync"})
    changed = cluster.partition()
    assert (changed.leader, changed.leader_epoch) == (before.leader, before.leader_epoch + 1)
    assert not changed.is_synced
    ask_for_isr(cluster, changed.leader, alteration(cluster, changed, changed.isr, is_synced=True))
    assert cluster.partition().is_synced
    cluster.configure(level, {"durability": "replicated"})
    assert not cluster.partition().is_synced


def test_a_leader_cannot_speak_for_members_that_leave() -> None:
    """They may count as eligible leaders, and nobody knows what they have synced."""
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2])
    cluster.configure("t", {"durability": "fsync"})
    ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), [1], is_synced=True))
    assert (cluster.partition().elr, cluster.partition().is_synced) == ((2,), False)


def test_a_leader_cannot_make_a_partition_synced_that_need_not_be() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    partition = cluster.partition()
    ask_for_isr(cluster, partition.leader, alteration(cluster, partition, partition.isr, is_synced=True))
    assert not cluster.partition().is_synced


def test_a_new_topic_and_a_new_partition_of_it_are_synced_from_the_start() -> None:
    cluster = SmallCluster()
    cluster.create("t", configs={"durability": "fsync"}, partitions=1)
    request = admin_pb2.CreatePartitionsRequest(name="t", partition_count=2)
    cluster.commit(
        create_partitions(cluster.image, request, next_offset=cluster.next_offset, rng=cluster.rng)
    )
    assert [each.is_synced for each in cluster.topic().partitions] == [True, True]


def test_durability_is_not_weakened_while_a_member_is_away_that_may_have_lost_power() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], configs={"durability": "fsync"})
    cluster.commit(fence_broker(cluster.image, BrokerId(2)))
    with pytest.raises(NotEnoughReplicas, match="broker 2 is away"):
        cluster.configure("t", {"durability": "replicated"})


def test_durability_is_not_weakened_before_every_member_has_spoken_to_this_controller() -> None:
    """After an outage of everything, all brokers are active on record, and all may have lost power."""
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], configs={"durability": "fsync"})
    request = cluster.alteration("t", {"durability": "replicated"})
    with pytest.raises(NotEnoughReplicas, match="broker 2 is away"):
        alter_configs(
            cluster.image, request, next_offset=cluster.next_offset, is_heard=lambda each: each == 1
        )


def test_a_change_that_was_never_in_force_can_be_taken_back_while_a_broker_is_away() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2])
    cluster.commit(fence_broker(cluster.image, BrokerId(2)))
    cluster.configure("t", {"durability": "fsync"})
    cluster.configure("t", {"durability": "replicated"})
    assert not cluster.partition().is_synced


def test_a_topic_with_its_own_durability_does_not_mind_the_clusters() -> None:
    cluster = SmallCluster()
    cluster.create("t", configs={"durability": "replicated"})
    before = cluster.partition()
    cluster.configure("", {"durability": "fsync"})
    after = cluster.partition()
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch)
    assert not before.is_synced
    assert not after.is_synced
