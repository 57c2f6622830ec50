"""Waiting for a real cluster to become as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.chaos.checks.violation import Violation
from quorate.client import AsyncAdmin
from quorate.client.admin.types import TopicDescription
from quorate.errors import QuorateError

__all__ = ["topic_until", "until_so", "until_whole"]

Found = TypeVar("Found")

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05


async def until_so(what: str, look: Callable[[], Awaitable[Found]], is_so: Callable[[Found], bool]) -> Found:
    """What was found once it is so. Errors that say "try again" mean that it is not so yet."""
    last: Found | QuorateError | None = None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                try:
                    found = await look()
                except QuorateError as error:
                    if not error.retriable:
                        raise
                    last = error
                else:
                    if is_so(found):
                        return found
                    last = found
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        message = f"{what} did not become so within {_TIMEOUT_S:g} s: {last}"
        raise Violation(message, check="unavailable") from None


async def topic_until(
    admin: AsyncAdmin, topic: str, is_so: Callable[[TopicDescription], bool]
) -> TopicDescription:
    """The topic once it is so, as a node that answers tells it."""
    return await until_so(topic, lambda: admin.describe_topic(topic), is_so)


async def until_whole(admin: AsyncAdmin, topic: str) -> TopicDescription:
    """Until every partition has a leader that was heard, and all of its replicas in the ISR."""

    def is_whole(description: TopicDescription) -> bool:
        return all(
            partition.leader is not None
            and set(partition.isr) == set(partition.replicas)
            and partition.high_watermark is not None
            and not partition.removing_replicas
            for partition in description.partitions
        )

    return await topic_until(admin, topic, is_whole)
