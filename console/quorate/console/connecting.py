"""From a synchronous command to calls on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from quorate.client.connection import Connection, connect
from quorate.errors import InvalidConfig

__all__ = ["with_connection"]

T = TypeVar("T")


def with_connection(bootstrap: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run ``work`` on a connection of its own."""

    async def run() -> T:
        async with _connect(bootstrap) as connection:
            return await work(connection)

    return asyncio.run(run())


def _connect(bootstrap: str) -> Connection:
    try:
        return connect(bootstrap)
    except InvalidConfig as error:
        raise click.BadParameter(
            error.message,
            ctx=click.get_current_context(silent=True),
            param_hint="--bootstrap (or QUORATE_BOOTSTRAP)",
        ) from None
