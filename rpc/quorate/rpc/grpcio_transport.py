"""Transport over grpcio: the reference, and what every other gRPC implementation is compared with.

Handlers are registered from the ``Method`` table, so that no generated servicer class is needed; bodies
pass through grpcio as bytes, and are parsed here, where a broken one gets a typed error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quorate.core.config import parse_address
from quorate.core.transport import Channel, Server, Service
from quorate.rpc.grpcio_channel import GrpcioChannel
from quorate.rpc.grpcio_options import GrpcioOptions
from quorate.rpc.grpcio_server import GrpcioServer

__all__ = ["GrpcioOptions", "GrpcioTransport"]


class GrpcioTransport:
    def __init__(self, options: GrpcioOptions | None = None) -> None:
        self._options = options or GrpcioOptions()

    def connect(self, address: str) -> Channel:
        return GrpcioChannel(address, self._options)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        server = GrpcioServer(address, services, self._options)
        await server.start(serving=serving)
        return server

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        # A bare connection: gRPC retries inside, and tells refusal and silence apart by words alone.
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(timeout_s):
                _reader, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        writer.close()
        return False
