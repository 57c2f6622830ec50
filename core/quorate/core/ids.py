"""Names for the integers and strings that must not be mixed up.

Offsets are 64-bit and start at 0. Wherever an offset bounds something it says whether it is
inclusive; ``log_end_offset`` and ``high_watermark`` are always exclusive (the next to come).
"""

from __future__ import annotations

from typing import NamedTuple, NewType

__all__ = [
    "NO_LEADER_EPOCH",
    "BrokerEpoch",
    "BrokerId",
    "LeaderEpoch",
    "Offset",
    "PartitionId",
    "ProducerEpoch",
    "ProducerId",
    "ReplicaKey",
    "TimestampMs",
    "TopicId",
    "TopicName",
    "TopicPartition",
]

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
#: one for each run of a broker's process: the metadata offset of its registration, and while
#: there is no controller a count of starts
BrokerEpoch = NewType("BrokerEpoch", int)
PartitionId = NewType("PartitionId", int)
#: 22 characters of URL-safe base64, a UUID; a recreated topic has another one (rule 43)
TopicId = NewType("TopicId", str)
TopicName = NewType("TopicName", str)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
#: milliseconds since 1970, UTC
TimestampMs = NewType("TimestampMs", int)

#: the epoch of a batch that no leader has appended yet
NO_LEADER_EPOCH = LeaderEpoch(-1)


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ReplicaKey(NamedTuple):
    """Which replica, on this broker or its peer; a recreated topic has other ones (rule 43)."""

    topic_id: TopicId
    partition: PartitionId
