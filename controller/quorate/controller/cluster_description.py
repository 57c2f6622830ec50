"""The cluster at a glance: brokers, and counts of what is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.controller.elections import topics_in_order
from quorate.controller.placement import BrokerLoads
from quorate.controller.reassignment import is_reassigning
from quorate.controller.unclean_leaders import may_lack_records
from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage, TopicImage
from quorate.metadata.topic_settings import (
    min_insync_replicas,
    replication_factor_of,
    unclean_election_enabled,
)
from quorate.v1 import admin_pb2

__all__ = ["describe_cluster"]


def describe_cluster(
    image: MetadataImage,
    *,
    controller: BrokerId | None,
    controllers: Iterable[admin_pb2.ControllerDescription],
) -> admin_pb2.DescribeClusterResponse:
    """``controller``: the active one. ``controllers``: every voter; both are known to the quorum."""
    loads = BrokerLoads.of_image(image)
    by_id = {each.node_id: each for each in controllers}
    response = admin_pb2.DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller=controller,
        brokers=[_broker(broker, loads) for _, broker in sorted(image.brokers.items())],
        topic_count=len(image.topics),
        feature_level=image.feature_level,
        metadata_offset=image.offset,
        config_epoch=image.cluster_config_epoch,
        controllers=[each for _, each in sorted(by_id.items())],
        unclean_election_topics=sorted(
            topic.name for topic in image.topics.values() if unclean_election_enabled(image, topic)
        ),
    )
    for topic in topics_in_order(image):
        _count(response, topic, min_isr=min_insync_replicas(image, topic))
    return response


def _broker(broker: BrokerImage, loads: BrokerLoads) -> admin_pb2.BrokerDescription:
    return admin_pb2.BrokerDescription(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        address=broker.address,
        rack=broker.rack,
        is_fenced=broker.is_fenced,
        is_shutting_down=broker.is_shutting_down,
        is_draining=broker.is_draining,
        leader_count=loads.leaders[broker.broker_id],
        replica_count=loads.replicas[broker.broker_id],
    )


def _count(response: admin_pb2.DescribeClusterResponse, topic: TopicImage, *, min_isr: int) -> None:
    # Sums first: a field of a message costs more than all the rest of the loop.
    offline = under_replicated = under_min_isr = reassigning = recovering = 0
    for partition in topic.partitions:
        in_sync = len(partition.isr)
        offline += partition.leader == NO_LEADER
        under_replicated += in_sync < len(partition.replicas)
        under_min_isr += in_sync < min_isr and in_sync < replication_factor_of(partition)
        reassigning += is_reassigning(partition)
        recovering += may_lack_records(partition)
    response.partition_count += len(topic.partitions)
    response.offline_partition_count += offline
    response.under_replicated_partition_count += under_replicated
    response.under_min_isr_partition_count += under_min_isr
    response.reassigning_partition_count += reassigning
    response.recovering_partition_count += recovering
