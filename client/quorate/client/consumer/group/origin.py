"""Where a group begins in a partition that it has no offset in.

``auto_offset_reset`` says so, and "latest" is the dangerous one: what is written before the member has looked
up the end is skipped. For a partition that was there when the group began, that is what the application has
asked for. For one that was added later it is not: its first records are new, and nobody would ever read them.
So "latest" means: as of when the *group* began, and not as of when somebody happens to look.

How a member tells the two apart:

- Before it joins, it asks what there is: which topics with how many partitions, and in which of them the
  group has offsets.
- A partition that was not there then is newer than the member: it is read from its beginning. That holds for
  partitions that were added, for topics that were created, and for topics that were made anew.
- A partition that was there, in a topic in which the group had offsets then: the group began without it, so
  it came later, while no member was there. It is read from its beginning.
- Else the group begins with this topic now, at its end; and the end that was looked up is **committed before
  the first record is handed out**. So a partition that was ever read has an offset, and the question is asked
  once in the life of a group. Without that, a group that stops before its first commit would skip, when it
  comes back, all that came in between.

Whatever is old in these answers makes a partition look newer than it is, and then it is read from its
beginning: too much may be read, never too little. What nobody can tell is a group whose offsets have expired
from one that never was; for those who cannot bear that there is ``auto_offset_reset="fail"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from quorate.client.cluster import ClusterView
from quorate.client.groups.coordinator import FETCH_OFFSETS, CoordinatorLink
from quorate.client.groups.partitions import GroupPartition
from quorate.core.ids import TopicId
from quorate.core.transport import method_of
from quorate.v1 import broker_pb2, group_pb2

__all__ = ["GroupOrigin", "look_around"]

_GET_METADATA: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "GetMetadata",
    broker_pb2.GetMetadataRequest,
    broker_pb2.GetMetadataResponse,
)


@dataclass(frozen=True, slots=True)
class GroupOrigin:
    """What there was before the member joined."""

    #: of every topic
    partition_counts: Mapping[TopicId, int]
    #: topics in which the group had an offset
    topics_begun: Set[TopicId]

    def is_newer(self, partition: GroupPartition) -> bool:
        """Whether a partition without an offset has come after the group began."""
        count = self.partition_counts.get(partition.topic_id)
        if count is None or partition.partition >= count:
            return True
        return partition.topic_id in self.topics_begun


async def look_around(cluster: ClusterView, link: CoordinatorLink, *, timeout_s: float) -> GroupOrigin:
    # Topics first: one that is made in between counts as newer, and too much of it is read, not too little.
    everything = broker_pb2.GetMetadataRequest(all_topics=True)
    topics = (await cluster.call(_GET_METADATA, everything, timeout_s=timeout_s)).topics
    # Of a group that nobody has heard of there are none; an error says nothing about that (rule 63).
    all_offsets = group_pb2.FetchOffsetsRequest(group=link.group)
    offsets = (await link.call(FETCH_OFFSETS, all_offsets, timeout_s=timeout_s)).offsets
    begun = {TopicId(each.topic_id) for each in offsets}
    counts = {TopicId(each.topic_id): len(each.partitions) for each in topics if not each.HasField("error")}
    return GroupOrigin(counts, begun)
