"""How far behind a group is: in records, in time, and as a share of what the topic keeps.

The one place that finds out what lag is, for descriptions of groups as for their metrics.

Only the leader of a partition knows where it ends, how old the next record is that the group has to read, and
how many bytes lie from there on. All leaders are asked at the same time; one that does not answer costs its
partitions these numbers, and nobody else.

The share is by time or by size, whichever is nearer to its limit. At 1 the next record may be deleted unread:
a segment goes as a whole, once all of it is past the limit, so it may also stay a little longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quorate.broker.groups.context import GroupContext
from quorate.broker.groups.group import Group
from quorate.broker.groups.leader_calls import POSITIONS_MAX, End, LeaderCalls, Position, was_not_asked
from quorate.broker.groups.records import TopicIdPartition
from quorate.core.config import TopicConfig
from quorate.core.config.topic import CleanupPolicy
from quorate.core.ids import BrokerId, Offset, PartitionId, TopicId
from quorate.errors import QuorateError
from quorate.metadata.image import TopicImage

__all__ = ["Lag", "Progress", "find_lags", "partitions_read"]


class Progress(NamedTuple):
    """How far a group has come in one partition."""

    partition: TopicIdPartition
    #: the next offset to read; None: nothing is committed
    committed: Offset | None

    @classmethod
    def of(cls, group: Group, partition: TopicIdPartition) -> Progress:
        committed = group.offsets.get(partition)
        return cls(partition, None if committed is None else committed.offset)


class Lag(NamedTuple):
    """Of one group in one partition."""

    #: of the partition
    end: End
    #: between what is committed and the end of what may be read; from the log start, where nothing is
    records: int
    #: how old the oldest of these is; None: it has no time
    ms: int | None
    #: None: the topic keeps its records for ever, or there is no telling
    of_retention: float | None


def partitions_read(group: Group, topics: Mapping[TopicId, TopicImage]) -> set[TopicIdPartition]:
    """Partitions with an offset, those that a member holds, and all others of the same topics.

    Where the group has not begun, it will at the beginning: what is there lies before it, too.
    """
    held = (each for member in group.members.values() for each in (*member.assigned, *member.revoking))
    partitions = {*group.offsets, *held}
    for topic_id in {each.topic_id for each in partitions}:
        topic = topics.get(topic_id)
        count = 0 if topic is None else len(topic.partitions)
        partitions.update(TopicIdPartition(topic_id, PartitionId(number)) for number in range(count))
    return partitions


async def find_lags(
    progress: Sequence[Progress],
    calls: LeaderCalls,
    context: GroupContext,
    silent: dict[BrokerId, QuorateError] | None = None,
) -> list[Lag | QuorateError]:
    """In the same order; an error: the leader did not say. Of as many groups as the caller likes.

    ``silent``: leaders that could not be asked, with the reason. They are not asked again, so that one that
    hangs costs whoever asks in many pieces its time-out once; those that turn out to be silent are added.
    """
    positions = [Position(partition, committed or Offset(0)) for partition, committed in progress]
    ends = await _ask_all(calls, positions, {} if silent is None else silent)
    now_ms, hosted = context.clock.wall_ms(), context.hosted

    def lag_at(place: Progress, end: End | QuorateError) -> Lag | QuorateError:
        if isinstance(end, QuorateError):
            return end
        topic_id = place.partition.topic_id
        config = hosted.topic_config(topic_id) if topic_id in hosted.image.topics else None
        return _lag_of(place.committed, end, now_ms=now_ms, config=config)

    return [lag_at(place, end) for place, end in zip(progress, ends, strict=True)]


async def _ask_all(
    calls: LeaderCalls, positions: Sequence[Position], silent: dict[BrokerId, QuorateError]
) -> list[End | QuorateError]:
    """In the same order. A partition may be asked about many times, by groups at other places in it."""
    led, unknown = calls.by_leader(dict.fromkeys(positions))
    answers: dict[Position, End | QuorateError] = {}

    async def ask(leader: BrokerId, asked: list[Position]) -> None:
        for start in range(0, len(asked), POSITIONS_MAX):
            piece = asked[start : start + POSITIONS_MAX]
            if leader in silent:
                answers.update(dict.fromkeys(piece, silent[leader]))
                continue
            found = await calls.ask(leader, piece)
            answers.update(zip(piece, found, strict=True))
            if isinstance(found[0], QuorateError) and was_not_asked(found[0]):
                silent[leader] = found[0]

    async with asyncio.TaskGroup() as tasks:
        for leader, asked in led.items():
            tasks.create_task(ask(leader, asked), name=f"lag-at-{leader}")
    return [answers[position] if position in answers else unknown[position.key] for position in positions]


def _lag_of(committed: Offset | None, end: End, *, now_ms: int, config: TopicConfig | None) -> Lag:
    """``config``: of the topic; None: it is not there any more."""
    begin = end.log_start_offset if committed is None else committed
    records = max(0, end.high_watermark - begin)
    is_too_late = begin < end.log_start_offset
    if records == 0:
        lag_ms: int | None = 0
        unread_bytes: int | None = 0
    else:
        # Producers' clocks may be ahead of this one.
        lag_ms = None if end.timestamp is None else max(0, now_ms - end.timestamp)
        unread_bytes = end.unread_bytes
    of_retention = None if config is None else _share(config, lag_ms=lag_ms, unread_bytes=unread_bytes)
    if of_retention is not None and is_too_late:
        # What is left may be young. Whoever is warned at 1 must not be reassured by the loss itself.
        of_retention = max(1.0, of_retention)
    return Lag(end, records, lag_ms, of_retention)


def _share(config: TopicConfig, *, lag_ms: int | None, unread_bytes: int | None) -> float | None:
    """Records that are kept for no time at all, or in no bytes, may be gone at any moment."""
    if CleanupPolicy.DELETE not in config.cleanup_policy:
        return None
    shares = []
    if config.retention_ms >= 0 and lag_ms is not None:
        shares.append(lag_ms / max(1, config.retention_ms))
    if config.retention_bytes >= 0 and unread_bytes is not None:
        shares.append(unread_bytes / max(1, config.retention_bytes))
    return max(shares, default=None)
