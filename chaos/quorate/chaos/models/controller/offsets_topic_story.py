"""What groups have committed, where the owner of the cluster gives up records of its topics (rule 27)."""

from __future__ import annotations

from quorate.chaos.models.controller.small_cluster import SmallCluster, topic_id
from quorate.controller.brokers import fence_broker
from quorate.controller.internal_topics import create_offsets_topic
from quorate.core.config import GroupConfig
from quorate.core.ids import BrokerId
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.metadata.image import NO_LEADER
from quorate.v1.controller_pb2 import CreateOffsetsTopicRequest

__all__ = ["offsets_wait_for_their_last_copy"]


def offsets_wait_for_their_last_copy() -> None:
    """Others are there, and may lack what was committed last: a topic of the owner's own is led by one."""
    cluster = SmallCluster(3)
    request = CreateOffsetsTopicRequest(
        broker_id=1, broker_epoch=cluster.image.brokers[BrokerId(1)].broker_epoch, topic_id=topic_id(7)
    )
    config = GroupConfig(offsets_topic_num_partitions=1)
    cluster.commit(
        create_offsets_topic(
            cluster.image, request, config=config, next_offset=cluster.next_offset, rng=cluster.rng
        )
    )
    cluster.create("t", [1, 2, 3])
    for name in (OFFSETS_TOPIC, "t"):
        cluster.set_partition(name=name, isr=[1], leader=1)
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    cluster.configure("", {"unclean.leader.election.enable": "true"})
    assert cluster.partition().leader != NO_LEADER, "of the others nobody waits: then this is no story"
    offsets = cluster.partition(name=OFFSETS_TOPIC)
    assert offsets.leader == NO_LEADER, f"broker {offsets.leader} leads, and lacks what groups committed"
