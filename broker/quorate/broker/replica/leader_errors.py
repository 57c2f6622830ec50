"""What a leader says of a write that it refuses or cannot confirm, and of a log that it cannot read.

The difference that counts is whether anything was written (rule 19): a refusal before the append says that
nothing was, and everything after it that the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Collection

from quorate.broker.replica.partition_state import PartitionState
from quorate.core.ids import BrokerId, LeaderEpoch, TopicPartition
from quorate.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    StorageError,
    Unavailable,
)

__all__ = ["outcome_unknown", "too_few", "too_few_after_append", "unreadable"]


def outcome_unknown(topic_partition: TopicPartition, reason: str) -> Unavailable:
    topic, partition = topic_partition
    return Unavailable(
        f"{topic_partition}: appended, but not known to be committed: {reason}",
        topic=topic,
        partition=partition,
    )


def too_few(
    topic_partition: TopicPartition, state: PartitionState, in_sync: Collection[BrokerId]
) -> NotEnoughReplicas:
    size, needed = len(in_sync), state.min_insync_replicas
    return NotEnoughReplicas(
        f"{topic_partition} has {size} replicas in sync, min.insync.replicas is {needed}; "
        "nothing was written",
        isr_size=size,
        min_insync_replicas=needed,
    )


def too_few_after_append(
    topic_partition: TopicPartition, state: PartitionState, in_sync: Collection[BrokerId]
) -> NotEnoughReplicasAfterAppend:
    size, needed = len(in_sync), state.min_insync_replicas
    return NotEnoughReplicasAfterAppend(
        f"{topic_partition}: appended, then only {size} replicas were left in sync, "
        f"min.insync.replicas is {needed}",
        isr_size=size,
        min_insync_replicas=needed,
    )


def unreadable(
    topic_partition: TopicPartition, leader_epoch: LeaderEpoch, error: StorageError
) -> NotLeaderOrFollower:
    """Retriable for the client: another replica will lead."""
    return NotLeaderOrFollower(
        f"{topic_partition} cannot be served here any more: {error.message}", leader_epoch=leader_epoch
    )
