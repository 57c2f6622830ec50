"""From a synchronous command to calls on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.client.connection import Connection, parse_bootstrap
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport

__all__ = ["with_connection"]

T = TypeVar("T")

#: A single batch may be as large as 128 MiB, whatever a fetch asks for.
_MESSAGE_BYTES_MAX: Final = 160 << 20


def with_connection(bootstrap: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run ``work`` on a connection of its own."""
    addresses = parse_bootstrap(bootstrap)

    async def run() -> T:
        transport = GrpcioTransport(GrpcioOptions(message_bytes_max=_MESSAGE_BYTES_MAX))
        async with Connection(transport, addresses) as connection:
            return await work(connection)

    return asyncio.run(run())
