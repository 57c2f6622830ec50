"""Transport over gRPC as this project writes it: the same on the wire as grpcio, and several times faster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quorate.core.transport import Channel, Server, Service
from quorate.rpc.lean.addresses import UnixAddress, parse
from quorate.rpc.lean.channel import LeanChannel
from quorate.rpc.lean.link import ALPN_PROTOCOL
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer

__all__ = ["LeanOptions", "LeanTransport"]


class LeanTransport:
    def __init__(self, options: LeanOptions | None = None) -> None:
        self._options = options or LeanOptions()
        for tls in (self._options.server_tls, self._options.client_tls):
            if tls is not None:
                tls.set_alpn_protocols([ALPN_PROTOCOL])

    def connect(self, address: str) -> Channel:
        return LeanChannel(address, self._options)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        server = LeanServer(address, services, self._options)
        await server.start(serving=serving)
        return server

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        parsed = parse(address)
        try:
            async with asyncio.timeout(timeout_s):
                if isinstance(parsed, UnixAddress):
                    _reader, writer = await asyncio.open_unix_connection(parsed.path)
                else:
                    _reader, writer = await asyncio.open_connection(parsed.host, parsed.port)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
        writer.close()
        return False
