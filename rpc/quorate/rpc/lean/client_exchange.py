"""An exchange straight on its HTTP/2 stream: no task, no future, no turn of the loop until the socket.

The last request of a turn is written to the socket by the call that sends it, with all before it: a write of
its own costs as much as the rest of a small request. An answer is handed to the listener while what arrived
is still being read. What a listener may rely on: ``quorate.core.exchange``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from quorate.core.exchange import ExchangeListener, broken_listener
from quorate.core.transport import Method
from quorate.errors import QuorateError
from quorate.rpc.dispatch import parse_response
from quorate.rpc.lean import wire
from quorate.rpc.lean.client_call import ClientCall
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.status import Status, StatusCode

__all__ = ["LeanExchange"]

_CANCELLED: Final = Status(StatusCode.CANCELLED, "the caller has given up")
_BROKEN: Final = Status(StatusCode.CANCELLED, "the caller has failed")


class _Connection(Protocol):
    """The connection that the exchange is on."""

    @property
    def link(self) -> Link: ...

    def call_ended(self) -> None: ...


class _Channel(Protocol):
    def serialized(self, method: Method[Any, Any], request: Message) -> bytes: ...

    def failure_of(
        self, call: ClientCall, method: Method[Any, Any], deadline: float | None
    ) -> QuorateError | None: ...


class LeanExchange(ClientCall):
    """``opening``: whoever waits for a connection for it; None: it is open."""

    def __init__(
        self,
        channel: _Channel,
        method: Method[Any, Any],
        listener: ExchangeListener[Any],
        message_bytes_max: int,
    ) -> None:
        super().__init__(method, message_bytes_max, self._call_ended)
        self._channel = channel
        self._listener = listener
        self._connection: _Connection | None = None
        self._is_sending = False
        #: nobody listens any more
        self._is_cancelled = False
        self.opening: asyncio.Task[None] | None = None

    def opened(self, connection: _Connection) -> None:
        """Its stream is there, and has its headers."""
        self._connection = connection

    # ---- what the caller does

    @property
    def is_ready(self) -> bool:
        stream = self.stream
        is_open = self._connection is not None and self.status is None
        return is_open and stream is not None and stream.is_drained

    def send(self, request: Message, *, is_last: bool) -> None:
        connection, stream = self._connection, self.stream
        assert connection is not None
        assert stream is not None
        try:
            content = self._channel.serialized(self._method, request)
        except QuorateError as error:
            self.fail(error)
            return
        link = connection.link
        if is_last:
            link.promise_flush()
        self._is_sending = True
        try:
            stream.send(wire.message_prefix(len(content)), content)
        finally:
            self._is_sending = False
            if is_last:
                link.flush()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self.opening is not None:
            self.opening.cancel()
        self.end(_CANCELLED)

    async def close(self) -> None:
        self.cancel()
        if self.opening is not None:
            await asyncio.wait([self.opening])

    def fail(self, error: QuorateError) -> None:
        """For a reason of this side."""
        if self.status is None:
            self.failure = error
            self.end(_BROKEN)

    # ---- what the stream tells

    def _on_message(self, content: memoryview) -> None:
        response = parse_response(self._method, content)
        if self.stream is not None:
            self.stream.consumed(wire.PREFIX_BYTES + len(content))
        try:
            self._listener.on_response(response)
        except Exception as error:  # noqa: BLE001 - others use the connection, too: it must go on
            self.fail(broken_listener(error))

    def _on_part(self) -> None:
        self._welcome_rest()

    def on_drained(self) -> None:
        if not self._is_sending and self.status is None:
            self.tell_ready()

    def tell_ready(self) -> None:
        try:
            self._listener.on_ready()
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(broken_listener(error))

    def _call_ended(self) -> None:
        if self._connection is not None:
            # Not now: this may be within what the connection is doing to end.
            asyncio.get_running_loop().call_soon(self._connection.call_ended)
        if not self._is_cancelled:
            self._is_cancelled = True
            try:
                self._listener.on_end(self._channel.failure_of(self, self._method, None))
            except Exception as error:  # noqa: BLE001 - as above, and there is nobody left to be told
                broken_listener(error)
