"""Partitions as a group's coordinator speaks of them: by the id of their topic.

A topic that was deleted and made anew has another id, so its partitions are other ones (rule 43): they are
given and taken away apart from those of the old topic, although they have the same name for the application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorate.core.ids import PartitionId, TopicId, TopicName, TopicPartition
from quorate.v1 import group_pb2

__all__ = ["GroupPartition", "partitions_from", "partitions_to"]


class GroupPartition(NamedTuple):
    topic_id: TopicId
    topic: TopicName
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def name(self) -> TopicPartition:
        """What the application knows it as."""
        return TopicPartition(self.topic, self.partition)


def partitions_from(
    messages: Iterable[group_pb2.TopicPartitions], known: Mapping[TopicId, TopicName] | None = None
) -> list[GroupPartition]:
    """In the order of the message, each once. ``known``: names of topics, where a message has none.

    A coordinator whose metadata has just lost a topic cannot name it; what nobody can name cannot be read,
    and is left out.
    """
    found: dict[GroupPartition, None] = {}
    for message in messages:
        topic_id = TopicId(message.topic_id)
        name = TopicName(message.topic) or (known or {}).get(topic_id)
        for number in message.partitions if name else ():
            assert name is not None
            found[GroupPartition(topic_id, name, PartitionId(number))] = None
    return list(found)


def partitions_to(partitions: Iterable[GroupPartition]) -> list[group_pb2.TopicPartitions]:
    """Topic by topic, in order."""
    topics: dict[TopicId, group_pb2.TopicPartitions] = {}
    for each in sorted(partitions):
        message = topics.get(each.topic_id)
        if message is None:
            message = topics[each.topic_id] = group_pb2.TopicPartitions(
                topic_id=each.topic_id, topic=each.topic
            )
        message.partitions.append(each.partition)
    return list(topics.values())
