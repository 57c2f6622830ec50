"""What the data source refuses, on top of `quorate.errors`: each says what to do about it."""

from __future__ import annotations

from quorate.core.error_base import QuorateError
from quorate.errors import OffsetOutOfRange, UnknownTopicOrPartition

__all__ = ["DataLost", "TopicRecreated", "located"]


class DataLost(OffsetOutOfRange):
    """Records that were to be read are gone: retention deleted them, or the topic was deleted."""


class TopicRecreated(UnknownTopicOrPartition):
    """There is another topic of the same name: offsets of the old one mean nothing in it."""

    retriable = False

    @classmethod
    def of(cls, topic: str, *, expected_id: str, found_id: str) -> TopicRecreated:
        return cls(
            f"topic {topic} was deleted and made anew: the offsets are of the topic with the id "
            f"{expected_id}, and the one that is there now has the id {found_id}. To read the new one, start "
            f"the query with a new checkpointLocation",
            topic=topic,
            expected_id=expected_id,
            found_id=found_id,
        )


def located(error: QuorateError, *, topic: str, partition: int, offset: int | None) -> QuorateError:
    """The same error, saying where; tasks run on other machines, and their message is all that arrives."""
    where = f"{topic}-{partition}" + ("" if offset is None else f" at offset {offset}")
    facts = error.facts | {"topic": topic, "partition": partition, "offset": offset}
    return type(error)(f"{where}: {error.message}", **facts)
