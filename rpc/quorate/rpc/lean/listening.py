"""Sockets to listen on, for every form of address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

from quorate.errors import CannotListen
from quorate.rpc.lean.addresses import InetAddress, UnixAddress, parse
from quorate.rpc.lean.options import LeanOptions

__all__ = ["listen"]

_PORT_MAX: Final = 65535
#: connections that wait to be accepted; more come at once after a server was away
_BACKLOG: Final = 1_024


async def listen(
    address: str, protocol: Callable[[], asyncio.BufferedProtocol], options: LeanOptions
) -> tuple[str, list[asyncio.Server]]:
    """The address with its real port, and what listens there; ``CannotListen`` with the reason."""
    try:
        parsed = parse(address)
    except ValueError:
        message = f"cannot listen on {address}: it is not HOST:PORT with a port up to {_PORT_MAX}"
        raise CannotListen(message, address=address) from None
    try:
        if isinstance(parsed, UnixAddress):
            return address, [await _listen_unix(parsed, protocol, options)]
        return await _listen_inet(parsed, protocol, options)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotListen(f"cannot listen on {address}: {reason}", address=address) from error


async def _listen_unix(
    address: UnixAddress, protocol: Callable[[], Any], options: LeanOptions
) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(protocol, address.path, backlog=_BACKLOG, **_tls(options))


async def _listen_inet(
    address: InetAddress, protocol: Callable[[], Any], options: LeanOptions
) -> tuple[str, list[asyncio.Server]]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    port = address.port
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            listening = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listening)
            # A name may stand for several addresses: the same port for all of them.
            _bind(listening, (where[0], port, *where[2:]))
            port = listening.getsockname()[1]
        servers = [
            await loop.create_server(protocol, sock=each, backlog=_BACKLOG, **_tls(options))
            for each in sockets
        ]
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return f"{address.written_host}:{port}", servers


def _tls(options: LeanOptions) -> dict[str, Any]:
    if options.server_tls is None:
        return {}
    return {"ssl": options.server_tls, "ssl_handshake_timeout": options.greeting_s_max}


def _bind(listening: socket.socket, where: tuple[Any, ...]) -> None:
    listening.settimeout(0)
    # Connections of a server that was here before may linger; two that listen are still refused.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind(where)
