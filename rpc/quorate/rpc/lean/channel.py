"""The calling side of the lean transport: one connection to one address, made again when it is lost.

A call waits for a connection that is being made, and fails if that fails. For a moment after a failure, calls
fail at once instead of trying again (``_Backoff``): a peer that is away gets no storm of attempts. Nor does
one that answers, and sends everybody away again.

Where the server grants no more streams, calls wait in line, and whoever comes later stands behind them.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable
from functools import partial
from typing import Any, Final

from google.protobuf.message import Message

from quorate.core.exchange import ExchangeListener, broken_listener
from quorate.core.transport import Method, Request, Response
from quorate.errors import Overloaded, QuorateError, Unavailable
from quorate.rpc.lean.addresses import InetAddress, UnixAddress, parse
from quorate.rpc.lean.client_call import ClientCall, StreamClientCall, UnaryClientCall
from quorate.rpc.lean.client_exchange import LeanExchange
from quorate.rpc.lean.connect_errors import why_not_connected
from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import ErrorCode, Flag
from quorate.rpc.lean.grpc_headers import Metadata, request_headers
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.link import KeepAlive, Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.resolving import Found, looked_up
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.status import Status, StatusCode
from quorate.rpc.lean.stream import Stream, StreamListener
from quorate.rpc.lean.wire import message_prefix
from quorate.rpc.status_errors import error_from_status

__all__ = ["LeanChannel"]

_BACKOFF_S_MIN: Final = 0.1
_BACKOFF_FACTOR: Final = 1.6
#: One that takes no more calls sooner than this was no success.
_CONNECTION_S_MIN: Final = 1.0
#: calls that wait for the server to grant another stream
_WAITING_MAX: Final = 10_000
_DEADLINE: Final = Status(StatusCode.DEADLINE_EXCEEDED, "the deadline passed")
_CLOSED: Final = Status(StatusCode.UNAVAILABLE, "the channel is closed")


class LeanChannel:
    def __init__(self, address: str, options: LeanOptions) -> None:
        self.address = address
        self._options = options
        self._scheme = b"http" if options.client_tls is None else b"https"
        self._authority = "localhost" if address.startswith("unix:") else address
        self._is_closed = False
        #: the one for new calls
        self._server: _Server | None = None
        #: those that finish their calls, and take no others
        self._leaving: set[_Server] = set()
        self._connecting: asyncio.Task[_Server] | None = None
        self._backoff = _Backoff(options.reconnect_backoff_s_max)
        #: tasks that read the requests of streams
        self._senders: set[asyncio.Task[None]] = set()

    # ---- calls

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        deadline = asyncio.get_running_loop().time() + timeout_s
        call = await self.ended_call(method, request, timeout_s=timeout_s)
        self._raise_failure(call, method, deadline)
        if call.response is None:
            raise self._error(Status(StatusCode.INTERNAL, "there is no answer"), method)
        response: Response = call.response  # type: ignore[assignment]  # parsed as the method says
        return response

    async def ended_call(
        self, method: Method[Any, Any], request: Message, *, timeout_s: float, metadata: Metadata = ()
    ) -> UnaryClientCall:
        """With its status, whatever that is, and the server's metadata."""
        content = self.serialized(method, request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        server = self._server
        if server is None or not server.takes_calls:
            server = await self._find_server(method, deadline)
            timeout_s = deadline - loop.time()
        ended: asyncio.Future[None] = loop.create_future()
        call = UnaryClientCall(method, self._options.message_bytes_max, lambda: _end(ended))
        headers = request_headers(method.path, self._authority, self._scheme, timeout_s, metadata)
        stream = server.open(call)
        stream.send_headers(headers)
        stream.send(message_prefix(len(content)), content, Flag.END_STREAM)
        timer = loop.call_at(deadline, call.end, _DEADLINE)
        try:
            await ended
        finally:
            timer.cancel()
            # Unless it has ended, the caller has given up.
            stream.reset(ErrorCode.CANCEL)
            server.call_ended()
        return call

    async def stream(
        self,
        method: Method[Request, Response],
        requests: AsyncIterable[Request],
        *,
        timeout_s: float | None,
        metadata: Metadata = (),
    ) -> AsyncGenerator[Response, None]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        server = self._server
        if server is None or not server.takes_calls:
            server = await self._find_server(method, deadline)
            timeout_s = None if deadline is None else deadline - loop.time()
        call = StreamClientCall(method, self._options.message_bytes_max, lambda: None)
        headers = request_headers(method.path, self._authority, self._scheme, timeout_s, metadata)
        stream = server.open(call)
        stream.send_headers(headers)
        timer = None if deadline is None else loop.call_at(deadline, call.end, _DEADLINE)
        source = _Requests(self, method, requests, call)
        sender = loop.create_task(source.send_all())
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)
        try:
            while (response := await call.next_response()) is not None:
                yield response  # type: ignore[misc]  # parsed as the method says
            if source.failure is not None:
                raise source.failure
            self._raise_failure(call, method, deadline)
        finally:
            if timer is not None:
                timer.cancel()
            stream.reset(ErrorCode.CANCEL)
            sender.cancel()
            server.call_ended()

    def exchange(self, method: Method[Any, Any], listener: ExchangeListener[Any]) -> LeanExchange:
        exchange = LeanExchange(self, method, listener, self._options.message_bytes_max)
        server = self._server
        if server is not None and server.takes_calls:
            self._open_exchange(exchange, method, server)
        else:
            loop = asyncio.get_running_loop()
            exchange.opening = loop.create_task(self._open_later(exchange, method))
        return exchange

    async def _open_later(self, exchange: LeanExchange, method: Method[Any, Any]) -> None:
        try:
            server = await self._find_server(method, None)
            self._open_exchange(exchange, method, server)
        except QuorateError as error:
            exchange.fail(error)
        except Exception as error:  # noqa: BLE001 - a bug in here must not leave anybody without an end
            exchange.fail(broken_listener(error))
        else:
            exchange.tell_ready()

    def _open_exchange(self, exchange: LeanExchange, method: Method[Any, Any], server: _Server) -> None:
        headers = request_headers(method.path, self._authority, self._scheme, None, ())
        server.open(exchange).send_headers(headers)
        exchange.opened(server)

    def serialized(self, method: Method[Any, Any], request: Message) -> bytes:
        content = request.SerializeToString()
        limit = self._options.message_bytes_max
        if len(content) > limit:
            text = f"CLIENT: Sent message larger than max ({len(content)} vs. {limit})"
            raise self._error(Status(StatusCode.RESOURCE_EXHAUSTED, text), method)
        return content

    def _raise_failure(self, call: ClientCall, method: Method[Any, Any], deadline: float | None) -> None:
        failure = self.failure_of(call, method, deadline)
        if failure is not None:
            raise failure

    def failure_of(
        self, call: ClientCall, method: Method[Any, Any], deadline: float | None
    ) -> QuorateError | None:
        """Of a call that has ended; None: it went well."""
        status = call.status
        assert status is not None
        if not status.code:
            return None
        if call.failure is not None:
            return call.failure
        if status.code is StatusCode.CANCELLED and deadline is not None:
            # The server's clock may be ahead by a moment, and end the call before this side does.
            is_late = asyncio.get_running_loop().time() >= deadline
            status = _DEADLINE if is_late else status
        return self._error(status, method)

    def _error(self, status: Status, method: Method[Any, Any]) -> QuorateError:
        return error_from_status(status.code.name, status.message, status.details, method, self.address)

    # ---- connections

    async def _find_server(self, method: Method[Any, Any], deadline: float | None) -> _Server:
        """One that takes a call, now: whoever asked opens it before anybody else has a turn."""
        server: _Server | None = None
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    server = self._server or await self._connected()
                    if server.takes_calls or await server.is_place_granted():
                        return server
        except TimeoutError:
            if server is not None:
                server.grant_places()  # it may have been granted one in its last moment
            raise self._error(_DEADLINE, method) from None
        except Unavailable as error:
            raise self._error(Status(StatusCode.UNAVAILABLE, error.message), method) from error.__cause__

    async def _connected(self) -> _Server:
        if self._is_closed:
            raise Unavailable("the channel is closed")
        if self._connecting is None:
            self._backoff.check(asyncio.get_running_loop().time())
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            # Those who wait for it may all have given up by the time it fails.
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            # It is everybody's: one caller that gives up must not end it for the others.
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            if self._is_closed:
                raise Unavailable("the channel is closed") from None
            raise

    async def _connect(self) -> _Server:
        options = self._options
        server = _Server(self, options)
        try:
            async with asyncio.timeout(options.connect_s_max):
                await server.connect(self.address)
            if server.link.connection.is_used_up:
                raise Unavailable("the server takes no more calls")
        except (OSError, TimeoutError, ValueError, Unavailable) as error:
            server.link.abort()
            reason = "it took too long" if isinstance(error, TimeoutError) else why_not_connected(error)
            self._backoff.failed(asyncio.get_running_loop().time(), f"cannot connect: {reason}")
            raise Unavailable(f"cannot connect: {reason}") from error
        except BaseException:
            server.link.abort()
            raise
        finally:
            self._connecting = None
        self._backoff.succeeded()
        server.connected_at = asyncio.get_running_loop().time()
        self._server = server
        return server

    def server_leaves(self, server: _Server) -> None:
        """It takes no more calls, or is gone."""
        if self._server is server:
            self._server = None
            now = asyncio.get_running_loop().time()
            if now - server.connected_at < _CONNECTION_S_MIN:
                self._backoff.failed(now, "the server takes no more calls")
        if not server.link.is_closed:
            self._leaving.add(server)
            server.call_ended()

    def server_gone(self, server: _Server) -> None:
        self._leaving.discard(server)
        if self._server is server:
            self._server = None

    async def close(self) -> None:
        self._is_closed = True
        connecting = self._connecting
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait((connecting,))
        servers = [*self._leaving, *([self._server] if self._server else [])]
        for server in servers:
            server.end_calls(_CLOSED)
            server.link.close()
        for server in servers:
            await server.gone.wait()


class _Server:
    """One connection to it. It is the connection's acceptor, though a server opens no streams."""

    def __init__(self, channel: LeanChannel, options: LeanOptions) -> None:
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
        loop = asyncio.get_running_loop()
        parsed = parse(address)
        tls = self._options.client_tls
        if isinstance(parsed, UnixAddress):
            await loop.create_unix_connection(
                lambda: self.link, parsed.path, ssl=tls, server_hostname="localhost" if tls else None
            )
        else:
            await self._connect_to_host(parsed)
        # Not before it has said that it speaks HTTP/2, and what it grants.
        await self._ready

    async def _connect_to_host(self, address: InetAddress) -> None:
        tls = self._options.client_tls
        connect = partial(
            asyncio.get_running_loop().create_connection,
            lambda: self.link,
            port=address.port,
            ssl=tls,
            server_hostname=address.host if tls else None,
        )
        failure = OSError("it has no address")
        for found in await _addresses_of(address):
            host = _numeric_host(found[4])
            try:
                await connect(host=host)
            except OSError as error:
                # Whoever was given a name wants to know what it was taken for.
                where = "" if host == address.host else f" (at {host}, port {address.port})"
                failure = OSError(f"{why_not_connected(error)}{where}")
            else:
                return
        raise failure

    def open(self, call: ClientCall) -> Stream:
        stream = self.link.connection.open(call)
        call.stream = stream
        if self.link.connection.is_used_up:
            self._channel.server_leaves(self)
        return stream

    async def is_place_granted(self) -> bool:
        """In line, for one call that begins at once. False: the connection takes no more of them."""
        if self.link.is_closed or self.link.connection.is_used_up:
            self._channel.server_leaves(self)
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
        self._channel.server_leaves(self)

    def _link_closed(self, _link: Link) -> None:
        self.gone.set()
        if not self._ready.done():
            fault = self.link.connection.fault
            reason = "it hangs up" if fault is None else _no_grpc(fault)
            self._ready.set_exception(Unavailable(reason))
            self._ready.exception()  # looked at, also if nobody waits for it any more
        self._send_away()
        self._channel.server_gone(self)

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


class _Requests:
    """The requests of a stream, sent as fast as the server takes them."""

    def __init__(
        self,
        channel: LeanChannel,
        method: Method[Any, Any],
        requests: AsyncIterable[Any],
        call: StreamClientCall,
    ) -> None:
        self._channel = channel
        self._method = method
        self._requests = requests
        self._call = call
        #: what they, and not the call, have failed with
        self.failure: Exception | None = None

    async def send_all(self) -> None:
        call = self._call
        stream = call.stream
        assert stream is not None
        try:
            async for request in self._requests:
                content = self._channel.serialized(self._method, request)
                if call.status is not None:
                    return
                stream.send(message_prefix(len(content)), content)
                if not stream.is_drained:
                    await call.room()
        except Exception as error:  # noqa: BLE001 - the caller's own, which the caller gets
            self.failure = error
            call.end(Status(StatusCode.CANCELLED, "the requests failed"))
            return
        if call.status is None:
            stream.end()


class _Backoff:
    """How long nobody tries again after a failure; then the next call does."""

    def __init__(self, pause_s_max: float) -> None:
        self._pause_s_max = pause_s_max
        self._pause_s = 0.0
        self._until = 0.0
        self._reason = ""

    def check(self, now: float) -> None:
        if now < self._until:
            raise Unavailable(self._reason)

    def failed(self, now: float, reason: str) -> None:
        pause_s = max(_BACKOFF_S_MIN, self._pause_s * _BACKOFF_FACTOR)
        self._pause_s = min(pause_s, self._pause_s_max)
        self._until = now + self._pause_s
        self._reason = reason

    def succeeded(self) -> None:
        self._pause_s = self._until = 0.0


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


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
