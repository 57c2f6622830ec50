"""Partitions as a group's coordinator speaks of them: by the id of their topic.

A topic that was deleted and made anew has another id, so its partitions are other ones (rule 43): they are
given and taken away apart from those of the old topic, although they have the same name for the application.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from quorate.core.ids import PartitionId, TopicId, TopicName, TopicPartition
from quorate.errors import UnknownServerError
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


def partitions_from(messages: Iterable[group_pb2.TopicPartitions]) -> list[GroupPartition]:
    """In the order of the message, each once."""
    found: dict[GroupPartition, None] = {}
    for message in messages:
        if not message.topic_id or not message.topic:
            raise UnknownServerError("a coordinator gives partitions of a topic that it does not name")
        for number in message.partitions:
            found[
                GroupPartition(TopicId(message.topic_id), TopicName(message.topic), PartitionId(number))
            ] = None
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
