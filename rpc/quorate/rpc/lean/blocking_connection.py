"""Unary calls without an event loop: the thread that asks writes the request, and reads the answer itself.

For who asks a small question very often, and does nothing else until it is answered. The way through a loop
on another thread is two more waits for a processor, the loop's and the caller's, and on a busy machine these
take longer than all the rest.

It is no channel. Nobody reads while nobody asks, so a server that probes a silent connection hears nothing
and hangs up; nothing is tried again, and after an error the connection is closed. Whoever uses it has a
channel as well, and asks there when this does not do.

Whoever asks has one deadline, for connecting, asking and the answers of all: each step is given it.
Deadlines are of `time.monotonic`.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Final

from quorate.core.transport import Method
from quorate.errors import RequestTimedOut, Unavailable
from quorate.rpc.lean.blocking_dial import dial
from quorate.rpc.lean.client_call import UnaryClientCall
from quorate.rpc.lean.connection import Connection
from quorate.rpc.lean.grpc_headers import request_headers
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.status import Status, StatusCode
from quorate.rpc.lean.stream import Stream, StreamListener
from quorate.rpc.lean.wire import END_STREAM, message_prefix
from quorate.rpc.status_errors import error_from_status

__all__ = ["BlockingConnection"]

_ANSWER_BYTES_MAX: Final = 4 << 20
#: frames of any length that this side allows fit, with some of the next
_BUFFER_BYTES: Final = 64 << 10
_SETTINGS: Final = LocalSettings(
    window_bytes=_ANSWER_BYTES_MAX, connection_window_bytes=_ANSWER_BYTES_MAX, frame_bytes_max=16 << 10
)
_NO_ANSWER: Final = Status(StatusCode.INTERNAL, "there is no answer")


class BlockingConnection:
    """Belongs to one thread. Calls may be under way at once: begin them all, then end them all."""

    def __init__(self, address: str, *, deadline: float) -> None:
        """Connects, or raises ``Unavailable``."""
        self.address = address
        self._socket = dial(address, deadline=deadline)
        # Its owner may be one that nobody tells of the end.
        weakref.finalize(self, self._socket.close)
        self._connection = Connection(
            is_client=True, settings=_SETTINGS, limits=Limits(), acceptor=self, now=time.monotonic()
        )
        self._connection.on_full = self._write
        #: of the step that is being taken
        self._deadline = deadline
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        #: how much of the buffer is the beginning of a frame
        self._rest_bytes = 0

    def begin(self, method: Method[Any, Any], content: bytes, *, deadline: float) -> UnaryClientCall:
        """Sends a request, which is serialized already: who asks it again and again does that once."""
        connection = self._connection
        if connection.is_used_up or len(connection.streams) >= connection.peer.streams_max:
            self.close()
            raise Unavailable(f"{self.address} takes no more calls", address=self.address)
        timeout_s = self._left_s(deadline)
        call = UnaryClientCall(method, _ANSWER_BYTES_MAX, lambda: None)
        call.stream = connection.open(call)
        call.stream.send_headers(request_headers(method.path, self.address, b"http", timeout_s))
        call.stream.send(message_prefix(len(content)), content, END_STREAM)
        self._send(deadline)
        return call

    def end(self, call: UnaryClientCall, method: Method[Any, Any], *, deadline: float) -> Any:
        """The answer, an instance of the method's type."""
        while call.status is None:
            self._send(deadline)
            self._receive(deadline)
        status = call.status
        if not status.code and call.response is not None:
            return call.response
        self.close()
        if call.failure is not None:
            raise call.failure
        if not status.code:
            status = _NO_ANSWER
        raise error_from_status(status.code.name, status.message, status.details, method, self.address)

    def close(self) -> None:
        self._socket.close()

    def _send(self, deadline: float) -> None:
        self._deadline = deadline
        self._write()

    def _write(self) -> None:
        """All that the server takes by now. Also amid what it says, if that lets much of a request leave."""
        connection = self._connection
        while connection.output:
            left_s = self._left_s(self._deadline)
            try:
                self._socket.settimeout(left_s)
                self._socket.sendall(b"".join(connection.take_output()))
            except OSError as error:
                raise self._broken(error) from error
            # A large request leaves piece by piece.
            connection.pump_all()

    def _receive(self, deadline: float) -> None:
        rest_bytes = self._rest_bytes
        left_s = self._left_s(deadline)
        try:
            self._socket.settimeout(left_s)
            count = self._socket.recv_into(self._buffer[rest_bytes:])
        except OSError as error:
            raise self._broken(error) from error
        if not count:
            raise self._broken("it hung up")
        end = rest_bytes + count
        used = self._connection.receive(self._buffer[:end], time.monotonic())
        self._rest_bytes = end - used
        if self._rest_bytes:
            self._buffer[: self._rest_bytes] = bytes(self._buffer[used:end])

    def _left_s(self, deadline: float) -> float:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            self.close()
            raise RequestTimedOut(f"{self.address} did not answer in time", address=self.address)
        return left_s

    def _broken(self, reason: object) -> Unavailable:
        self.close()
        return Unavailable(f"the connection to {self.address} broke: {reason}", address=self.address)

    # ---- what the connection tells

    def on_stream(self, stream: Stream, found: HeaderList) -> StreamListener:  # noqa: ARG002 - the acceptor's
        raise AssertionError("a client accepts no streams")

    def on_goaway(self) -> None:
        """Calls that it did not see have been lost by now, and `begin` looks for itself."""

    def on_settings(self) -> None:
        """`begin` looks at what is granted."""
