"""One connection of a channel, from the attempt to make it to its end, and who waits for a place on it."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from quorate.errors import Overloaded, Unavailable
from quorate.rpc.lean.addresses import InetAddress, UnixAddress, parse
from quorate.rpc.lean.client_call import ClientCall
from quorate.rpc.lean.connect_errors import why_not_connected
from quorate.rpc.lean.encryption import Encryption
from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.link import KeepAlive, Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.resolving import Found, looked_up
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.status import Status
from quorate.rpc.lean.stream import Stream, StreamListener

__all__ = ["ClientConnection"]

#: calls that wait for the server to grant another stream
_WAITING_MAX: Final = 10_000


#: makes a connection, for the protocol that it is given
_Connect: TypeAlias = Callable[[asyncio.BufferedProtocol], Awaitable[asyncio.Transport]]


class _Channel(Protocol):
    @property
    def address(self) -> str: ...

    def connection_leaves(self, connection: ClientConnection) -> None:
        """It takes no more calls, or is gone."""
        ...

    def connection_gone(self, connection: ClientConnection) -> None: ...


class ClientConnection:
    """The connection's acceptor as well, though a server opens no streams."""

    def __init__(self, channel: _Channel, options: LeanOptions) -> None:
        self._channel = channel
        self._options = options
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: in line for a place; told whether there is one
        self._waiting: deque[asyncio.Future[bool]] = deque()
        #: granted to who has not opened a stream yet
        self._places_granted = 0
        self.connected_at = 0.0
        self.gone = asyncio.Event()
        self.link = Link(
            self,
            is_client=True,
            settings=LocalSettings(),
            limits=options.limits,
            keep_alive=KeepAlive(options.keepalive_s, options.keepalive_timeout_s),
            on_opened=lambda _link: None,
            on_closed=self._link_closed,
        )

    @property
    def takes_calls(self) -> bool:
        """Of somebody who has not waited."""
        return not self._waiting and self._has_place

    @property
    def _has_place(self) -> bool:
        connection = self.link.connection
        if connection.is_used_up or self.link.is_closed:
            return False
        return len(connection.streams) + self._places_granted < connection.peer.streams_max

    async def connect(self, address: str) -> None:
        parsed = parse(address)
        if isinstance(parsed, UnixAddress):
            await self._open("localhost", partial(_to_unix, parsed.path))
        else:
            await self._connect_to_host(parsed)
        # Not before it has said that it speaks HTTP/2, and what it grants.
        await self._ready

    async def _connect_to_host(self, address: InetAddress) -> None:
        failure = OSError("it has no address")
        for found in await _addresses_of(address):
            host = _numeric_host(found[4])
            try:
                await self._open(address.host, partial(_to_host, host, address.port))
            except OSError as error:
                # Whoever was given a name wants to know what it was taken for.
                where = "" if host == address.host else f" (at {host}, port {address.port})"
                failure = OSError(f"{why_not_connected(error)}{where}")
            else:
                return
        raise failure

    async def _open(self, server_name: str, connect: _Connect) -> None:
        tls = self._options.client_tls
        if tls is None:
            await connect(self.link)
            return
        within_s = self._options.connect_s_max
        encryption = Encryption(self.link, tls, is_server=False, server_name=server_name, within_s=within_s)
        transport = await connect(encryption)
        try:
            await encryption.agreed
        except BaseException:
            transport.abort()
            raise

    def open(self, call: ClientCall) -> Stream:
        stream = self.link.connection.open(call)
        call.stream = stream
        if self.link.connection.is_used_up:
            self._channel.connection_leaves(self)
        return stream

    async def is_place_granted(self) -> bool:
        """In line, for one call that begins at once. False: the connection takes no more of them."""
        if self.link.is_closed or self.link.connection.is_used_up:
            self._channel.connection_leaves(self)
            return False
        if len(self._waiting) >= _WAITING_MAX:
            address = self._channel.address
            raise Overloaded(
                f"{_WAITING_MAX} calls wait already for {address} to take one more: send less at once"
            )
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            is_granted = await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.result():
                self._places_granted -= 1
            self.grant_places()
            raise
        self._places_granted -= is_granted
        # A place on a connection that has gone meanwhile is none.
        return is_granted and not self.link.is_closed and not self.link.connection.is_used_up

    def call_ended(self) -> None:
        if self._waiting:
            self.grant_places()
        connection = self.link.connection
        if connection.is_used_up and not connection.streams:
            self.link.close()

    def end_calls(self, status: Status) -> None:
        for stream in list(self.link.connection.streams.values()):
            if isinstance(stream.listener, ClientCall):
                stream.listener.end(status)

    # ---- what the connection tells

    def on_settings(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
        self.grant_places()

    def on_stream(self, stream: Stream, found: HeaderList) -> StreamListener:  # noqa: ARG002 - the acceptor's
        raise AssertionError("a client accepts no streams")

    def on_goaway(self) -> None:
        self._send_away()
        self._channel.connection_leaves(self)

    def _link_closed(self, _link: Link) -> None:
        self.gone.set()
        if not self._ready.done():
            fault = self.link.connection.fault
            reason = "it hangs up" if fault is None else _no_grpc(fault)
            self._ready.set_exception(Unavailable(reason))
            self._ready.exception()  # looked at, also if nobody waits for it any more
        self._send_away()
        self._channel.connection_gone(self)

    def grant_places(self) -> None:
        """To as many as there is room for, in the order in which they came."""
        while self._waiting and self._has_place:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(True)
                self._places_granted += 1

    def _send_away(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(False)


async def _to_unix(path: str, protocol: asyncio.BufferedProtocol) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: protocol, path)
    return transport


async def _to_host(host: str, port: int, protocol: asyncio.BufferedProtocol) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
    return transport


async def _addresses_of(address: InetAddress) -> Found:
    try:
        return await looked_up(address.host, address.port)
    except socket.gaierror:
        if not address.is_local_name:
            raise
        return await looked_up("localhost", address.port)


def _no_grpc(fault: ConnectionFault) -> str:
    """Said before the server said anything that makes sense. A web server's "HTTP" reads as a huge frame."""
    return f"it does not speak HTTP/2 ({fault.reason}): is it a web server, such as that of a node's metrics?"


def _numeric_host(place: tuple[Any, ...]) -> str:
    """With the interface, where an address means something on that one only."""
    host: str = place[0]
    return f"{host}%{place[3]}" if len(place) > 3 and place[3] else host
