"""Finding in an image the topic that a request names."""

from __future__ import annotations

from quorate.core.ids import TopicId, TopicName
from quorate.errors import InvalidRequest, UnknownTopicOrPartition
from quorate.metadata.image import MetadataImage, TopicImage

__all__ = ["find_topic"]


def find_topic(image: MetadataImage, name: str, topic_id: str = "") -> TopicImage:
    """By name, by id, or by both, which then have to agree (rule 43)."""
    if not name and not topic_id:
        raise InvalidRequest("a topic is named by its name or by its id; both are missing")
    topic = image.topics.get(TopicId(topic_id)) if topic_id else image.topic_named(TopicName(name))
    if topic is None:
        raise UnknownTopicOrPartition(
            f"there is no topic {name or topic_id}", topic=name or None, topic_id=topic_id or None
        )
    if name and topic.name != name:
        raise UnknownTopicOrPartition(
            f"topic id {topic_id} belongs to {topic.name}, not to {name}", topic=name, topic_id=topic_id
        )
    return topic
