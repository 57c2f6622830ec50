"""The calling side of the lean transport: one connection to one address, made again when it is lost.

A call waits for a connection that is being made, and fails if that fails. For a moment after a failure, calls
fail at once instead of trying again (``Backoff``): a peer that is away gets no storm of attempts. Nor does
one that answers, and sends everybody away again.

Where the server grants no more streams, calls wait in line, and whoever comes later stands behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Final

from google.protobuf.message import Message

from quorate.core.exchange import ExchangeListener, broken_listener
from quorate.core.transport import Method, Request, Response
from quorate.errors import QuorateError, Unavailable
from quorate.rpc.lean.backoff import Backoff
from quorate.rpc.lean.client_call import ClientCall, StreamClientCall, UnaryClientCall
from quorate.rpc.lean.client_connection import ClientConnection
from quorate.rpc.lean.client_exchange import LeanExchange
from quorate.rpc.lean.connect_errors import why_not_connected
from quorate.rpc.lean.frames import ErrorCode, Flag
from quorate.rpc.lean.grpc_headers import Metadata, request_headers
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.status import Status, StatusCode, Unseen
from quorate.rpc.lean.wire import message_prefix
from quorate.rpc.status_errors import error_from_status

__all__ = ["LeanChannel"]

#: One that takes no more calls sooner than this was no success.
_CONNECTION_S_MIN: Final = 1.0
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
        self._connection: ClientConnection | None = None
        #: those that finish their calls, and take no others
        self._leaving: set[ClientConnection] = set()
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._backoff = Backoff(options.reconnect_backoff_s_max)
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
        connection = self._connection
        if connection is None or not connection.takes_calls:
            connection = await self._find_connection(method, deadline)
            timeout_s = deadline - loop.time()
        ended: asyncio.Future[None] = loop.create_future()
        call = UnaryClientCall(method, self._options.message_bytes_max, lambda: _end(ended))
        headers = request_headers(method.path, self._authority, self._scheme, timeout_s, metadata)
        stream = connection.open(call)
        stream.send_headers(headers)
        stream.send(message_prefix(len(content)), content, Flag.END_STREAM)
        timer = loop.call_at(deadline, call.end, _DEADLINE)
        try:
            await ended
        finally:
            timer.cancel()
            # Unless it has ended, the caller has given up.
            stream.reset(ErrorCode.CANCEL)
            connection.call_ended()
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
        connection = self._connection
        if connection is None or not connection.takes_calls:
            connection = await self._find_connection(method, deadline)
            timeout_s = None if deadline is None else deadline - loop.time()
        call = StreamClientCall(method, self._options.message_bytes_max, lambda: None)
        headers = request_headers(method.path, self._authority, self._scheme, timeout_s, metadata)
        stream = connection.open(call)
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
            connection.call_ended()

    def exchange(self, method: Method[Any, Any], listener: ExchangeListener[Any]) -> LeanExchange:
        exchange = LeanExchange(self, method, listener, self._options.message_bytes_max)
        connection = self._connection
        if connection is not None and connection.takes_calls:
            self._open_exchange(exchange, method, connection)
        else:
            loop = asyncio.get_running_loop()
            exchange.opening = loop.create_task(self._open_later(exchange, method))
        return exchange

    async def _open_later(self, exchange: LeanExchange, method: Method[Any, Any]) -> None:
        try:
            connection = await self._find_connection(method, None)
            self._open_exchange(exchange, method, connection)
        except QuorateError as error:
            exchange.fail(error)
        except Exception as error:  # noqa: BLE001 - a bug in here must not leave anybody without an end
            exchange.fail(broken_listener(error))
        else:
            exchange.tell_ready()

    def _open_exchange(
        self, exchange: LeanExchange, method: Method[Any, Any], connection: ClientConnection
    ) -> None:
        headers = request_headers(method.path, self._authority, self._scheme, None, ())
        connection.open(exchange).send_headers(headers)
        exchange.opened(connection)

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
        error = self._error(status, method)
        return Unseen(error.message, **error.facts) if call.is_unseen else error

    def _error(self, status: Status, method: Method[Any, Any]) -> QuorateError:
        return error_from_status(status.code.name, status.message, status.details, method, self.address)

    # ---- connections

    async def _find_connection(self, method: Method[Any, Any], deadline: float | None) -> ClientConnection:
        """One that takes a call, now: whoever asked opens it before anybody else has a turn."""
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    connection = self._connection or await self._connected()
                    if connection.takes_calls or await connection.is_place_granted():
                        return connection
        except TimeoutError:
            if connection is not None:
                connection.grant_places()  # it may have been granted one in its last moment
            raise self._error(_DEADLINE, method) from None
        except Unavailable as error:
            raise self._error(Status(StatusCode.UNAVAILABLE, error.message), method) from error.__cause__

    async def _connected(self) -> ClientConnection:
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

    async def _connect(self) -> ClientConnection:
        options = self._options
        connection = ClientConnection(self, options)
        try:
            async with asyncio.timeout(options.connect_s_max):
                await connection.connect(self.address)
            if connection.link.connection.is_used_up:
                raise Unavailable("the server takes no more calls")
        except (OSError, TimeoutError, ValueError, Unavailable) as error:
            connection.link.abort()
            reason = "it took too long" if isinstance(error, TimeoutError) else why_not_connected(error)
            self._backoff.failed(asyncio.get_running_loop().time(), f"cannot connect: {reason}")
            raise Unavailable(f"cannot connect: {reason}") from error
        except BaseException:
            connection.link.abort()
            raise
        finally:
            self._connecting = None
        self._backoff.succeeded()
        connection.connected_at = asyncio.get_running_loop().time()
        self._connection = connection
        return connection

    def connection_leaves(self, connection: ClientConnection) -> None:
        """It takes no more calls, or is gone."""
        if self._connection is connection:
            self._connection = None
            now = asyncio.get_running_loop().time()
            if now - connection.connected_at < _CONNECTION_S_MIN:
                self._backoff.failed(now, "the server takes no more calls")
        if not connection.link.is_closed:
            self._leaving.add(connection)
            connection.call_ended()

    def connection_gone(self, connection: ClientConnection) -> None:
        self._leaving.discard(connection)
        if self._connection is connection:
            self._connection = None

    async def close(self) -> None:
        self._is_closed = True
        connecting = self._connecting
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait((connecting,))
        connections = [*self._leaving, *([self._connection] if self._connection else [])]
        for connection in connections:
            connection.end_calls(_CLOSED)
            connection.link.close()
        for connection in connections:
            await connection.gone.wait()


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


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
