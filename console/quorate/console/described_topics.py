"""Every topic with its partitions, as far as a command may ask."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["DescribedTopics", "describe_topics"]

_TOPICS_ASKED_MAX: Final = 500
_TOPICS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    topics: list[admin_pb2.TopicDescription]
    #: None: all there are
    left_out: str | None


async def describe_topics(connection: ImpatientAdmin) -> DescribedTopics:
    names = [topic.name for topic in await connection.list_topics()]
    at_once = asyncio.Semaphore(_TOPICS_AT_ONCE)

    async def look(name: str) -> admin_pb2.TopicDescription | None:
        try:
            async with at_once:
                return await connection.describe_topic(name)
        except UnknownTopicOrPartition:
            return None  # deleted meanwhile

    found = await asyncio.gather(*map(look, names[:_TOPICS_ASKED_MAX]))
    left_out = None
    if len(names) > _TOPICS_ASKED_MAX:
        left_out = f"{_TOPICS_ASKED_MAX} of {len(names)} topics were asked about"
    return DescribedTopics([each for each in found if each is not None], left_out)
