"""What a cluster holds once it is whole again and nobody writes any more.

Read from the replicas themselves where that is possible, not through the broker's handlers: what the disks
hold is the truth. Of a cluster whose disks cannot be reached there are no copies, and the records are those
that a reader was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quorate.core.ids import LeaderEpoch, Offset, TopicPartition

__all__ = ["AcceptedLoss", "CopyOfLog", "FinalPartition", "FinalState", "SentKey", "StoredDamage"]


@dataclass(frozen=True, slots=True)
class CopyOfLog:
    """One replica, below the high watermark."""

    #: by base offset, in order: the bytes as they are stored
    batches: Mapping[Offset, bytes]
    #: what is wrong with it on its own: damage, gaps, an end before the high watermark
    faults: tuple[str, ...] = ()


class AcceptedLoss(NamedTuple):
    """An operator has had a replica lead that lacked something, and was told what that means (rule 33)."""

    #: inclusive: what the new leader did not have
    from_offset: Offset
    #: What has begun by then may be of the time before it: leaders of earlier epochs were still at work.
    until_s: float


class SentKey(NamedTuple):
    """What a record of a compacted topic is about."""

    key: bytes
    #: it deletes the key; its value, by which it is known, is not in the record but beside it
    is_tombstone: bool


@dataclass(frozen=True, slots=True)
class FinalPartition:
    #: exclusive; everything below it is committed
    high_watermark: Offset
    #: values by offset, in order, below the high watermark
    records: Mapping[Offset, bytes]
    #: by the name of the broker
    copies: Mapping[str, CopyOfLog] = field(default_factory=dict)
    log_start_offset: Offset = Offset(0)
    #: retention or an operator may delete records
    may_delete: bool = False
    #: from the committed metadata: epochs whose leader may have lacked records
    unclean_leader_epochs: tuple[LeaderEpoch, ...] = ()
    #: where that is allowed, what was given up, one for each of them
    losses: tuple[AcceptedLoss, ...] = ()
    #: of a compacted topic, for everything that was sent to it, by value; None: it is not compacted
    keys: Mapping[bytes, SentKey] | None = None


@dataclass(frozen=True, slots=True)
class StoredDamage:
    """One change of the bytes of one replica."""

    #: whose replica, and of what
    replica: str
    #: what was done
    what: str
    #: how often its broker has noticed damage there since then, up to the next one there
    detections: int
    #: whoever did it has seen that it was overwritten, cut off or deleted before anybody could read it
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class FinalState:
    partitions: Mapping[TopicPartition, FinalPartition]
    #: how often something happened, by name
    counters: Mapping[str, int] = field(default_factory=dict)
    #: counters that must not be 0, or the run has shown nothing
    expected: tuple[str, ...] = ()
    #: stored bytes that were changed behind a broker's back, where it must notice
    damages: tuple[StoredDamage, ...] = ()
    #: in quiet times somebody who writes waits no longer than this; None: it is only measured
    acknowledged_within_s: float | None = None
