"""How far behind a group is: in records, in time, and as a share of how long the topic keeps records.

Only the leader of a partition knows where it ends, and how old the next record is that the group has to
read. All leaders are asked at the same time; one that does not answer costs its partitions these numbers,
and the description says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quorate.broker.groups.leader_calls import POSITIONS_MAX, End, LeaderCalls, Position
from quorate.core.config import TopicConfig
from quorate.core.config.topic import CleanupPolicy
from quorate.core.ids import BrokerId
from quorate.errors import QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.group_pb2 import GroupProgress

__all__ = ["ask_all", "fill_in_lag"]


async def ask_all(calls: LeaderCalls, positions: Sequence[Position]) -> list[End | QuorateError]:
    """In the same order. A partition may be asked about many times, by groups at other places in it."""
    led, unknown = calls.by_leader(dict.fromkeys(positions))
    answers: dict[Position, End | QuorateError] = {}

    async def ask(leader: BrokerId, asked: list[Position]) -> None:
        for start in range(0, len(asked), POSITIONS_MAX):
            piece = asked[start : start + POSITIONS_MAX]
            answers.update(zip(piece, await calls.ask(leader, piece), strict=True))

    async with asyncio.TaskGroup() as tasks:
        for leader, asked in led.items():
            tasks.create_task(ask(leader, asked), name=f"lag-at-{leader}")
    return [answers[position] if position in answers else unknown[position.key] for position in positions]


def fill_in_lag(
    progress: GroupProgress, end: End | QuorateError, *, now_ms: int, config: TopicConfig | None
) -> None:
    """``config``: of the topic; None: it is not there any more."""
    if isinstance(end, QuorateError):
        progress.error.CopyFrom(detail_from_error(end))
        return
    progress.log_start_offset = end.log_start_offset
    progress.end_offset = end.high_watermark
    begin = progress.committed_offset if progress.HasField("committed_offset") else end.log_start_offset
    progress.lag = max(0, end.high_watermark - begin)
    if progress.lag == 0:
        progress.lag_ms = 0
    elif end.timestamp is not None:
        # Producers' clocks may be ahead of this one.
        progress.lag_ms = max(0, now_ms - end.timestamp)
    if progress.HasField("lag_ms") and config is not None and _forgets(config):
        # Records that are kept for no time at all may be gone at any moment.
        progress.lag_of_retention = progress.lag_ms / max(1, config.retention_ms)


def _forgets(config: TopicConfig) -> bool:
    return CleanupPolicy.DELETE in config.cleanup_policy and config.retention_ms >= 0
