"""Every topic with its partitions, as far as a command may ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["DescribedTopics", "describe_each", "describe_topics"]

_TOPICS_ASKED_MAX: Final = 500
_TOPICS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    topics: list[admin_pb2.TopicDescription]
    #: None: all there are
    left_out: str | None


async def describe_topics(connection: ImpatientAdmin) -> DescribedTopics:
    names = [topic.name for topic in await connection.list_topics()]
    left_out = None
    if len(names) > _TOPICS_ASKED_MAX:
        left_out = f"{_TOPICS_ASKED_MAX} of {len(names)} topics were asked about"
    return DescribedTopics(await describe_each(connection, names[:_TOPICS_ASKED_MAX]), left_out)


async def describe_each(connection: ImpatientAdmin, names: Sequence[str]) -> list[admin_pb2.TopicDescription]:
    """Without those that were deleted meanwhile."""
    at_once = asyncio.Semaphore(_TOPICS_AT_ONCE)

    async def describe(name: str) -> admin_pb2.TopicDescription | None:
        try:
            async with at_once:
                return await connection.describe_topic(name)
        except UnknownTopicOrPartition:
            return None

    return [each for each in await asyncio.gather(*map(describe, names)) if each is not None]
