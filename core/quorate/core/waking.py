"""Futures that somebody waits for, or nobody."""

from __future__ import annotations

import asyncio

__all__ = ["wake"]


def wake(waiting: asyncio.Future[None] | None) -> None:
    """Whoever waits for it, if anybody does and has not been woken."""
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
