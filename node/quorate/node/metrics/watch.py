"""What nobody tells of as it happens is looked at a few times a second, for as long as the node is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

__all__ = ["watch"]

_INTERVAL_S: Final = 0.25


async def watch(looks: Sequence[Callable[[], None]]) -> NoReturn:
    """Each costs next to nothing while nothing is new."""
    while True:
        for look in looks:
            look()
        await asyncio.sleep(_INTERVAL_S)
