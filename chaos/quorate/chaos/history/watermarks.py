"""Asks leaders again and again how far their logs reach; what they say must never go back (rule 17).

By ListOffsets, which only a leader answers that knows itself to be up to date. The offsets in a description
of a topic are no promise: they come from whoever leads according to the metadata, ready or not.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NoReturn

from quorate.chaos.history.history import History
from quorate.client import AsyncAdmin
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

__all__ = ["watch_watermarks"]

_PAUSE_S: Final = 0.5
_ANSWER_TIMEOUT_S: Final = 2.0


async def watch_watermarks(admin: AsyncAdmin, history: History, topic: str) -> NoReturn:
    """Until it is cancelled. Partitions that nobody answers for do not keep the others waiting for long."""
    while True:
        with suppress(QuorateError):
            # Each time: partitions are added, and topics created again.
            found = (await admin.describe_topic(topic)).partitions
            partitions = [TopicPartition(TopicName(topic), PartitionId(each.partition)) for each in found]
            await asyncio.gather(*(_look(admin, history, partition) for partition in partitions))
        await asyncio.sleep(_PAUSE_S)


async def _look(admin: AsyncAdmin, history: History, partition: TopicPartition) -> None:
    begun_s = history.now_s()
    with suppress(QuorateError):
        # In this order: the log start that is told is below the high watermark of that moment, and of later.
        start = await admin.list_offsets([partition], "earliest", timeout=_ANSWER_TIMEOUT_S)
        end = await admin.list_offsets([partition], "latest", timeout=_ANSWER_TIMEOUT_S)
        log_start_offset, high_watermark = start[partition].offset, end[partition].offset
        assert high_watermark is not None, "every log has an end"
        history.saw_watermark(
            partition,
            Offset(high_watermark),
            begun_s=begun_s,
            log_start_offset=None if log_start_offset is None else Offset(log_start_offset),
        )
