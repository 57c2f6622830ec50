"""The committed metadata of a real cluster, fetched once, in the way in which brokers follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId
from quorate.core.transport import Transport
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import MetadataImage

__all__ = ["committed_metadata"]

_TIMEOUT_S: Final = 60.0


async def committed_metadata(transport: Transport, controllers: Sequence[str], offset: int) -> MetadataImage:
    """As of ``offset`` or later. ``controllers``: their addresses."""
    follower = MetadataFollower(
        transport,
        controllers,
        clock=SystemClock(),
        broker_id=BrokerId(0),
        on_image=lambda _image, _delta: None,
    )
    following = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await follower.wait_for_offset(offset)
    finally:
        following.cancel()
        await asyncio.wait([following])
