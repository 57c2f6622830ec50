"""DescribeCluster, and the feature level."""

from __future__ import annotations

import dataclasses

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.cluster_description import describe_cluster
from quorate.controller.features import SupportedLevels, update_feature_level
from quorate.controller.topic_descriptions import topic_description
from quorate.core.ids import BrokerId
from quorate.errors import UnsupportedFeatureLevel
from quorate.metadata.image import NO_LEADER
from quorate.v1 import admin_pb2


def test_cluster_tells_its_brokers_and_counts_what_is_wrong() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3])
    cluster.set_partition(0, isr=[1, 2])
    cluster.set_partition(1, isr=[2])
    cluster.set_partition(2, isr=[], leader=NO_LEADER)
    cluster.move(1, 2, 4, partition=3)
    cluster.create("u", [1], configs={"unclean.leader.election.enable": "true"})
    cluster.change_broker(4, is_draining=True)
    described = describe_cluster(
        cluster.image,
        controller=BrokerId(102),
        controllers=[
            admin_pb2.ControllerDescription(node_id=node_id, address=f"c{node_id}:9093")
            for node_id in (103, 101, 102)
        ],
    )
    assert (described.cluster_id, described.controller) == ("cluster", 102)
    assert [each.node_id for each in described.controllers] == [101, 102, 103]
    assert (described.topic_count, described.partition_count) == (2, 5)
    assert described.offline_partition_count == 1
    assert described.under_replicated_partition_count == 4
    assert described.under_min_isr_partition_count == 2
    assert described.reassigning_partition_count == 1
    assert described.recovering_partition_count == 0
    assert list(described.unclean_election_topics) == ["u"]
    assert (described.feature_level, described.metadata_offset) == (1, cluster.image.offset)
    told = [(each.broker_id, each.leader_count, each.replica_count) for each in described.brokers]
    assert told == [(1, 3, 5), (2, 1, 4), (3, 0, 4), (4, 0, 1)]
    assert [each.is_draining for each in described.brokers] == [False, False, False, True]


def test_partition_whose_leader_was_chosen_uncleanly_is_counted() -> None:
    cluster = SmallCluster()
    cluster.create("t", [1, 2], [1, 2])
    cluster.set_partition(0, isr=[], leader=NO_LEADER)
    cluster.configure("", {"unclean.leader.election.enable": "true"})
    described = describe_cluster(cluster.image, controller=None, controllers=[])
    assert described.recovering_partition_count == 1
    told = topic_description(cluster.image, cluster.topic()).partitions
    assert [each.may_lack_records for each in told] == [True, False]
    assert not described.HasField("controller")
    assert list(described.unclean_election_topics) == ["t"]


def update(cluster: SmallCluster, level: int, *voters: SupportedLevels) -> int:
    request = admin_pb2.UpdateFeatureLevelRequest(level=level)
    return cluster.commit(update_feature_level(cluster.image, request, voters=voters)).level


def test_feature_level_is_raised_only_to_what_every_node_can_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.controller.features.FEATURE_LEVEL_MAX", 3)
    monkeypatch.setattr("quorate.metadata.delta.FEATURE_LEVEL_MAX", 3)
    cluster = SmallCluster(1)
    with pytest.raises(UnsupportedFeatureLevel, match="broker 1 runs on 1 to 1"):
        update(cluster, 2)
    [broker] = cluster.image.brokers.values()
    newer = dataclasses.replace(broker, feature_level_max=3)
    cluster.image = dataclasses.replace(
        cluster.image, brokers=cluster.image.brokers.set(broker.broker_id, newer)
    )
    request = admin_pb2.UpdateFeatureLevelRequest(level=3)
    with pytest.raises(UnsupportedFeatureLevel, match="controller 102 runs on 1 to 2"):
        update_feature_level(cluster.image, request, voters=[SupportedLevels("controller 102", 1, 2)])
    # 0: as high as it goes.
    highest = admin_pb2.UpdateFeatureLevelRequest(level=0)
    decision = update_feature_level(cluster.image, highest, voters=[SupportedLevels("controller 102", 1, 2)])
    assert decision.response.level == 2
    assert decision.records[0].feature_level.level == 2


def test_feature_level_is_never_lowered_and_the_same_is_nothing_new() -> None:
    cluster = SmallCluster()
    offset = cluster.image.offset
    assert update(cluster, 1) == update(cluster, 0) == 1
    assert cluster.image.offset == offset
    raised = dataclasses.replace(cluster.image, feature_level=2)
    request = admin_pb2.UpdateFeatureLevelRequest(level=1)
    with pytest.raises(UnsupportedFeatureLevel, match="never lowered"):
        update_feature_level(raised, request, voters=[])
