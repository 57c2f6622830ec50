"""What nobody tells of as it happens is watched: a few ticks a second, for as long as the node is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from quorate.core.logging import get_logger

__all__ = ["watch"]

log = get_logger(__name__)

_INTERVAL_S: Final = 0.25


async def watch(ticks: Sequence[Callable[[], None]]) -> NoReturn:
    """Each costs next to nothing while nothing is new."""
    while True:
        for tick in ticks:
            try:
                tick()
            except Exception as error:
                # The others go on: alerts stand on them, and a number that stands still looks quiet.
                log.error("metrics_tick_failed", tick=tick.__qualname__, exc_info=error)
        await asyncio.sleep(_INTERVAL_S)
