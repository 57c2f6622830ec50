"""Deleting topics, and forgetting them once no disk holds anything of them (rules 42, 43)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.topic_descriptions import describe_topic, list_topics
from quorate.controller.topics import confirm_topics_removed, delete_topic
from quorate.core.ids import BrokerId, TopicId
from quorate.errors import InvalidRequest, StaleBrokerEpoch, UnknownTopicOrPartition
from quorate.v1 import admin_pb2, controller_pb2


def delete(cluster: SmallCluster, *, name: str = "", topic_id: str = "") -> str:
    request = admin_pb2.DeleteTopicRequest(name=name, topic_id=topic_id or cluster.topic(name).topic_id)
    return cluster.commit(delete_topic(cluster.image, request, now_ms=77)).topic_id


def confirm(cluster: SmallCluster, broker_id: int, *topic_ids: str, epoch: int | None = None) -> None:
    registered = cluster.image.brokers[BrokerId(broker_id)].broker_epoch
    request = controller_pb2.ConfirmTopicsRemovedRequest(
        broker_id=broker_id,
        broker_epoch=registered if epoch is None else epoch,
        topic_ids=topic_ids,
    )
    cluster.commit(confirm_topics_removed(cluster.image, request))


def test_deleted_topic_is_remembered_until_every_holder_has_removed_it() -> None:
    cluster = SmallCluster()
    deleted = cluster.create("t", [1, 2], [2, 1]).topic_id
    assert delete(cluster, name="t") == deleted
    [removed] = cluster.image.removed_topics.values()
    assert (removed.topic_id, removed.removed_at_ms, removed.broker_ids) == (deleted, 77, (1, 2))
    confirm(cluster, 1, deleted, deleted)
    confirm(cluster, 1, deleted)
    confirm(cluster, 3, deleted)
    assert [each.broker_ids for each in cluster.image.removed_topics.values()] == [(2,)]
    confirm(cluster, 2, deleted)
    assert not cluster.image.removed_topics


def test_name_is_free_at_once_and_the_next_topic_is_another_one() -> None:
    cluster = SmallCluster()
    old = cluster.create().topic_id
    delete(cluster, name="t")
    new = cluster.create().topic_id
    assert new != old
    # Whoever still means the old one does not hit the new one.
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic"):
        describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(name="t", topic_id=old))
    assert delete(cluster, topic_id=old) == old
    assert cluster.topic().topic_id == new


def test_repeated_deletion_succeeds() -> None:
    cluster = SmallCluster()
    deleted = TopicId(cluster.create().topic_id)
    delete(cluster, name="t", topic_id=deleted)
    offset = cluster.image.offset
    assert delete(cluster, name="t", topic_id=deleted) == deleted
    assert cluster.image.offset == offset
    with pytest.raises(UnknownTopicOrPartition):
        delete(cluster, name="other", topic_id=deleted)
    for broker_id in sorted(cluster.image.removed_topics[deleted].broker_ids):
        confirm(cluster, broker_id, deleted)
    assert delete(cluster, topic_id=deleted) == deleted, "also when no disk holds anything of it"


@pytest.mark.parametrize("name", ["t", ""])
def test_deletion_needs_an_id(name: str) -> None:
    """By name, a copy that arrives late would delete the next topic of that name."""
    cluster = SmallCluster()
    cluster.create()
    request = admin_pb2.DeleteTopicRequest(name=name)
    with pytest.raises(InvalidRequest, match="by its id"):
        delete_topic(cluster.image, request, now_ms=77)


def test_a_copy_of_a_creation_does_not_bring_the_topic_back() -> None:
    """Under its own id, with epochs that begin anew (rule 2), when nobody waits for its deletion any more."""
    cluster = SmallCluster()
    deleted = cluster.create("t", [1, 2]).topic_id
    delete(cluster, topic_id=deleted)
    for expected in ("before", "after"):
        with pytest.raises(InvalidRequest, match="was used before"):
            cluster.create("t", [1, 2], drawn_id=deleted)
        if expected == "before":
            confirm(cluster, 1, deleted)
            confirm(cluster, 2, deleted)
            assert not cluster.image.removed_topics
    assert cluster.create("t", [1, 2]).topic_id != deleted


def test_only_the_present_run_of_a_broker_confirms() -> None:
    cluster = SmallCluster()
    deleted = cluster.create().topic_id
    delete(cluster, name="t")
    with pytest.raises(StaleBrokerEpoch):
        confirm(cluster, 1, deleted, epoch=1)


def test_removal_of_a_topic_that_was_never_deleted_is_refused() -> None:
    cluster = SmallCluster()
    alive = cluster.create().topic_id
    with pytest.raises(InvalidRequest, match="never deleted"):
        confirm(cluster, 1, alive)


def test_topics_are_listed_by_name_and_described_by_name_or_id() -> None:
    cluster = SmallCluster()
    for name in ("b", "a", "c"):
        cluster.create(name, replication_factor=2, partitions=3)
    listed = list_topics(cluster.image, admin_pb2.ListTopicsRequest()).topics
    assert [(each.name, each.partition_count, each.replication_factor) for each in listed] == [
        ("a", 3, 2),
        ("b", 3, 2),
        ("c", 3, 2),
    ]
    by_id = describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(topic_id=listed[0].topic_id))
    assert by_id == describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(name="a"))
    with pytest.raises(UnknownTopicOrPartition, match="belongs to a, not to b"):
        describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(name="b", topic_id=listed[0].topic_id))
    with pytest.raises(UnknownTopicOrPartition):
        describe_topic(cluster.image, admin_pb2.DescribeTopicRequest(name="d"))
