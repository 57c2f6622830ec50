"""Transport over grpcio: the reference, and what every other gRPC implementation is compared with.

Handlers are registered from the ``Method`` table, so that no generated servicer class is needed; bodies
pass through grpcio as bytes, and are parsed here, where a broken one gets a typed error.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    async def serve(self, address: str, services: Sequence[Service]) -> Server:
        server = GrpcioServer(address, services, self._options)
        await server.start()
        return server
