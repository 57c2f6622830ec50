"""Where a stream is, as Spark keeps it in the checkpoint.

    {"orders": {"id": "2q9…", "offsets": {"0": 17, "1": 4}}}

Spark compares positions as JSON text: equal ones have to be written equally, so everything is sorted, or a
query with nothing to read would find something new for ever. The topic's id is part of it: offsets of a topic
that was deleted and made anew mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.pipeline.source.errors import TopicRecreated

__all__ = ["Positions"]


@dataclass(frozen=True, slots=True)
class Positions:
    #: the next offset to read
    offsets: Mapping[TopicPartition, int]
    #: of the topics
    ids: Mapping[str, str]

    @classmethod
    def of(cls, offsets: Mapping[TopicPartition, int], partitions: Mapping[TopicPartition, str]) -> Positions:
        """``partitions``: each with the id of its topic."""
        return cls(offsets, {each.topic: topic_id for each, topic_id in partitions.items()})

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            topic: {"id": self.ids[topic], "offsets": {}}
            for topic in sorted({each.topic for each in self.offsets})
        }
        for each in sorted(self.offsets):
            document[each.topic]["offsets"][str(each.partition)] = self.offsets[each]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Positions:
        offsets = {
            TopicPartition(TopicName(topic), PartitionId(int(number))): int(offset)
            for topic, found in document.items()
            for number, offset in found["offsets"].items()
        }
        return cls(offsets, {topic: found["id"] for topic, found in document.items()})

    def check_ids(self, ids: Mapping[str, str]) -> None:
        """`TopicRecreated` if a topic is another one than it was; one that is gone is not looked at here."""
        for topic, expected_id in self.ids.items():
            found_id = ids.get(topic, expected_id)
            if found_id != expected_id:
                raise TopicRecreated.of(topic, expected_id=expected_id, found_id=found_id)
