"""What a history consists of.

Times are seconds of one clock that never goes back, the same for all entries of a history: what is compared
with them is which of two things ended before the other began. An entry that has a ``begun_s`` and an
``ended_s`` took effect somewhere between them, if at all.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from quorate.core.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicName, TopicPartition

__all__ = [
    "Acks",
    "Assignment",
    "Commit",
    "Entry",
    "FaultWindow",
    "Outcome",
    "PartitionChange",
    "Poll",
    "ReadRecord",
    "Sent",
    "TopicDeletion",
    "WatermarkSeen",
]

Acks: TypeAlias = Literal["all", "1", "0"]


class Outcome(enum.Enum):
    """What a producer was told (rule 19)."""

    ACKNOWLEDGED = "acknowledged"
    #: surely not written
    REFUSED = "refused"
    #: it may be in the log, now or later; also what nobody has said anything about
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Sent:
    """One record. Its value is unique in its history, so that a record in a log says where it is from."""

    serial: int
    value: bytes
    producer: str
    #: among the records of this producer, in the order in which they were sent
    number: int
    partition: TopicPartition
    #: less than "all" may lose it, and is sent without idempotence
    acks: Acks
    begun_s: float
    #: None: nothing was heard of it
    ended_s: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    #: where it is; None: not acknowledged, or with acks=0
    offset: Offset | None = None
    #: the code of what it ended with; None: acknowledged, or nothing was heard
    error: str | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome is Outcome.ACKNOWLEDGED

    @property
    def is_refused(self) -> bool:
        return self.outcome is Outcome.REFUSED

    @property
    def is_promised(self) -> bool:
        """The cluster vouches for it: acknowledged by all that were in sync."""
        return self.outcome is Outcome.ACKNOWLEDGED and self.acks == "all"


@dataclass(slots=True)
class Assignment:
    """A reader begins, once: after a restart or a seek it is another one."""

    serial: int
    reader: str
    #: the first offset that is due; None: wherever its first record is
    starts: Mapping[TopicPartition, Offset | None]
    begun_s: float
    #: when it had read everything that there was, after the last record was written; None: not known
    caught_up_s: float | None = None
    #: of which the reader is a member: then this is one partition that it was given; None: of none
    group: str | None = None
    #: the member's, when it was given
    member_epoch: int | None = None


class ReadRecord(NamedTuple):
    offset: Offset
    value: bytes


@dataclass(slots=True)
class Poll:
    """The records of one partition that one call has returned, in its order."""

    serial: int
    assignment: Assignment
    partition: TopicPartition
    records: tuple[ReadRecord, ...]
    at_s: float


@dataclass(slots=True)
class Commit:
    """A member of a group says how far it has come with a partition that it was given."""

    serial: int
    assignment: Assignment
    partition: TopicPartition
    #: of the next record to read
    offset: Offset
    begun_s: float
    #: None: nothing was heard of it
    ended_s: float | None = None
    #: the code of what it ended with; None: acknowledged, or nothing was heard
    error: str | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.ended_s is not None and self.error is None


@dataclass(slots=True)
class WatermarkSeen:
    """What a leader said about its log."""

    serial: int
    partition: TopicPartition
    high_watermark: Offset
    log_start_offset: Offset | None
    begun_s: float
    ended_s: float


@dataclass(slots=True)
class PartitionChange:
    """A state of a partition in the committed metadata, as one follower of it saw it."""

    serial: int
    #: who saw it: states are in order within one source
    source: str
    partition: TopicPartition
    topic_id: TopicId
    #: None: offline
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    #: one more with every change (rule 2), so that a state that was missed shows
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    at_s: float


@dataclass(slots=True)
class FaultWindow:
    """Something was done to the cluster, and healed."""

    serial: int
    kind: str
    #: nodes or links, for reports
    target: str
    begun_s: float
    #: None: it lasts
    ended_s: float | None = None


@dataclass(slots=True)
class TopicDeletion:
    """Records of before are of another topic, even if one of the same name was created again (rule 43)."""

    serial: int
    topic: TopicName
    begun_s: float
    #: None: it may still happen
    ended_s: float | None = None


Entry: TypeAlias = (
    Sent | Assignment | Poll | Commit | WatermarkSeen | PartitionChange | FaultWindow | TopicDeletion
)
