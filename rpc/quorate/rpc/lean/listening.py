"""Sockets to listen on, for every form of address."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from quorate.errors import CannotListen
from quorate.rpc.lean.addresses import InetAddress, UnixAddress, parse
from quorate.rpc.lean.encryption import Encryption
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.tls_listener import TlsListener

__all__ = ["Listening", "listen"]

_PORT_MAX: Final = 65535
#: connections that wait to be accepted; more come at once after a server was away
_BACKLOG: Final = 1_024


class Listening(Protocol):
    def close(self) -> None: ...


async def listen(
    address: str,
    protocol: Callable[[], Link],
    options: LeanOptions,
    *,
    handshakes: set[asyncio.Task[None]],
    has_room: Callable[[], bool],
) -> tuple[str, list[Listening]]:
    """The address with its real port, and what listens there; ``CannotListen`` with the reason.

    ``handshakes``: of connections whose encryption is being agreed on. They are begun while there is room.
    """
    try:
        parsed = parse(address)
    except ValueError:
        message = f"cannot listen on {address}: it is not HOST:PORT with a port up to {_PORT_MAX}"
        raise CannotListen(message, address=address) from None
    try:
        tls = options.server_tls
        if tls is None:
            if isinstance(parsed, UnixAddress):
                return address, [await _listen_unix(parsed, protocol)]
            return await _listen_inet(parsed, protocol, None)

        def encrypted() -> Encryption:
            return Encryption(protocol(), tls, is_server=True, within_s=options.greeting_s_max)

        def serve_encrypted(listening: socket.socket) -> TlsListener:
            return TlsListener(listening, encrypted, handshakes=handshakes, has_room=has_room)

        if isinstance(parsed, UnixAddress):
            return address, [await _listen_unix(parsed, encrypted)]
        return await _listen_inet(parsed, protocol, serve_encrypted)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotListen(f"cannot listen on {address}: {reason}", address=address) from error


async def _listen_unix(address: UnixAddress, protocol: Callable[[], Any]) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    _check_nobody_listens(address.path)
    # Who connects is on this machine: handshakes need no bound of their own.
    return await loop.create_unix_server(protocol, address.path, backlog=_BACKLOG)


async def _listen_inet(
    address: InetAddress,
    protocol: Callable[[], Any],
    serve_encrypted: Callable[[socket.socket], Listening] | None,
) -> tuple[str, list[Listening]]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    port = address.port
    has_ipv4 = any(family == socket.AF_INET for family, *_ in found)
    sockets: list[socket.socket] = []
    servers: list[Listening] = []
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            listening = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listening)
            # A name may stand for several addresses: the same port for all of them.
            _bind(listening, (where[0], port, *where[2:]), takes_ipv4=not has_ipv4)
            port = listening.getsockname()[1]
        for each in sockets:
            if serve_encrypted is None:
                servers.append(await loop.create_server(protocol, sock=each, backlog=_BACKLOG))
            else:
                each.listen(_BACKLOG)
                servers.append(serve_encrypted(each))
    except BaseException:
        # A server closes its socket itself: the loop must not look at one that was closed behind its back.
        for begun in servers:
            begun.close()
        for each in sockets[len(servers) :]:
            each.close()
        raise
    return f"{address.written_host}:{port}", servers


def _check_nobody_listens(path: str) -> None:
    """A socket that a dead process left behind is taken over; from a live one it would be taken away."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(0)
        try:
            asking.connect(path)
        except BlockingIOError:
            pass  # somebody does, and has no time
        except OSError:
            return
    raise OSError(errno.EADDRINUSE, "another process listens there; stop it first, or choose another path")


def _bind(listening: socket.socket, where: tuple[Any, ...], *, takes_ipv4: bool) -> None:
    listening.settimeout(0)
    # Connections of a server that was here before may linger; two that listen are still refused.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        # [::] is every address, as with grpcio. Where the name stands for one of IPv4 as well, that has a
        # socket of its own.
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not takes_ipv4))
    listening.bind(where)
