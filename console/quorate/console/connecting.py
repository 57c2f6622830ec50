"""From a synchronous command to calls on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quorate.client.connection import Connection, connect

__all__ = ["with_connection"]

T = TypeVar("T")


def with_connection(bootstrap: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run ``work`` on a connection of its own."""

    async def run() -> T:
        async with connect(bootstrap) as connection:
            return await work(connection)

    return asyncio.run(run())
