"""One stream of a connection: its windows, and what waits to be sent on it.

Sending never waits here. What the peer's windows or the socket have no room for stays in the stream, in
order, and leaves when there is room; the listener is told when all of it has left (``on_drained``), and holds
back whoever produces it until then.

Receiving: the peer may send as much as this stream's window says. It is opened again by the listener, by what
was consumed (``consumed``), or for a message that is known to come and would not fit (``expect``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from quorate.rpc.lean import wire
from quorate.rpc.lean.frames import (
    ErrorCode,
    header_frames,
    reset_frame,
    window_update_frame,
)
from quorate.rpc.lean.header_codec import Header, HeaderList

if TYPE_CHECKING:
    from quorate.rpc.lean.connection import Connection

__all__ = ["Stream", "StreamListener"]

#: Below this, copying a piece behind the previous one costs less than another piece for the socket.
_COPIED_BYTES_MAX: Final = 16 << 10
#: A smaller one that is not the last was cut short by the peer's window, and earns the peer nothing: who
#: opens a window byte by byte would earn as many frames as it sends.
_WHOLE_FRAME_BYTES_MIN: Final = 1 << 10


class StreamListener(Protocol):
    """Whoever a stream belongs to. After ``on_lost``, or once both sides have ended, nothing more comes."""

    def on_headers(self, found: HeaderList) -> None:
        """Of a response, or trailers of either side."""
        ...

    def on_data(self, part: memoryview) -> None:
        """``part`` is only lent: what is to be kept has to be copied."""
        ...

    def on_end(self) -> None:
        """The peer has sent all that it is going to send."""
        ...

    def on_drained(self) -> None:
        """All that was to be sent has been handed to the socket, after it had to wait."""
        ...

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:
        """Reset by the peer; or, without a code, gone with the connection."""
        ...


class Stream:
    __slots__ = (
        "_trailers",
        "_waiting",
        "connection",
        "content_bytes_left",
        "end_follows",
        "has_headers",
        "held_bytes",
        "id",
        "is_ending",
        "is_local_ended",
        "is_remote_ended",
        "left_bytes",
        "listener",
        "receive_window",
        "send_window",
        "waiting_bytes",
        "window_bytes",
    )

    def __init__(self, connection: Connection, stream_id: int) -> None:
        self.id = stream_id
        self.connection = connection
        self.listener: StreamListener = connection.nobody
        #: what the peer grants; below zero after it has reduced its setting
        self.send_window = connection.peer.window_bytes
        #: the window that the peer gets, and what is left of it
        self.window_bytes = connection.settings.window_bytes
        self.receive_window = self.window_bytes
        #: received, and not consumed yet
        self.held_bytes = 0
        #: the peer's request or response has begun: further headers of it are trailers
        self.has_headers = False
        #: the peer's end comes with what its listener is being told of
        self.is_ending = False
        self.is_local_ended = False
        self.is_remote_ended = False
        #: whoever sends ends it within the same call, so that both leave together
        self.end_follows = False
        #: of the content-length that the peer has announced
        self.content_bytes_left: int | None = None
        self._waiting: deque[bytes | memoryview] = deque()
        self.waiting_bytes = 0
        #: of all that ever had to wait, what has not any more
        self.left_bytes = 0
        #: to be sent behind all that waits; empty: the last of it ends the stream
        self._trailers: tuple[Header, ...] | None = None

    # ---- sending

    @property
    def is_drained(self) -> bool:
        return not self._waiting and self._trailers is None

    def send_headers(self, headers: tuple[Header, ...], *, ends: bool = False) -> None:
        """Before any data, so never behind any that waits."""
        assert self.is_drained
        connection = self.connection
        block = connection.encoder.encode(headers)
        frame_bytes_max = connection.peer.frame_bytes_max
        connection.write(header_frames(block, self.id, ends_stream=ends, frame_bytes_max=frame_bytes_max))
        if ends:
            self._end_local()

    def send(self, prefix: bytes, content: bytes, flags: int = 0) -> None:
        """Data: two pieces, so that nobody has to join them. ``flags``: none, or that of the end."""
        connection = self.connection
        size = len(prefix) + len(content)
        if self._waiting or size > self._room():
            self._waiting.extend((prefix, content) if content else (prefix,))
            self.waiting_bytes += size
            if flags:
                self._trailers = ()
            self.pump()
            return
        self.send_window -= size
        connection.send_window -= size
        connection.rates.data_frames_sent += 1
        if len(content) <= _COPIED_BYTES_MAX:
            connection.write(wire.data_frame(self.id, flags, prefix, content))
        else:
            connection.write(wire.frame_header(size, wire.DATA, flags, self.id) + prefix)
            connection.write(content)
        if flags:
            self._end_local()
        if connection.output_bytes > connection.sent_at_once_bytes_max and not self.end_follows:
            # It leaves at once: what the socket does not take is to be known before others answer as much.
            connection.on_full()

    def end(self, trailers: tuple[Header, ...] = ()) -> None:
        """After all that was sent."""
        assert not self.is_local_ended
        connection = self.connection
        self._trailers = trailers
        if not self._waiting:
            self._send_end()
        if connection.output_bytes > connection.sent_at_once_bytes_max:
            connection.on_full()

    def pump(self) -> None:
        """Send of what waits as much as there is room for."""
        waiting, connection = self._waiting, self.connection
        # Whose it is now: a stream that has ended on both sides belongs to nobody.
        listener = self.listener
        while waiting:
            size = min(self._room(), self.waiting_bytes)
            if size <= 0:
                if self.send_window > 0:
                    connection.blocked[self.id] = self
                else:
                    connection.blocked.pop(self.id, None)
                self._let_go_of_sent()
                return
            self._send_waiting(size)
        connection.blocked.pop(self.id, None)
        if self._trailers is not None:
            self._send_end()
        listener.on_drained()

    def _room(self) -> int:
        """Bytes that the next DATA frame may have; zero or less: none."""
        connection = self.connection
        if not connection.is_writable or connection.output_bytes > connection.sent_at_once_bytes_max:
            return 0
        frame_bytes_max = min(connection.peer.frame_bytes_max, connection.sent_frame_bytes_max)
        return min(self.send_window, connection.send_window, frame_bytes_max)

    def _send_waiting(self, size: int) -> None:
        """One frame, of as many pieces as it takes."""
        waiting, connection = self._waiting, self.connection
        self.send_window -= size
        connection.send_window -= size
        self.waiting_bytes -= size
        self.left_bytes += size
        if size >= _WHOLE_FRAME_BYTES_MIN or not self.waiting_bytes:
            connection.rates.data_frames_sent += 1
        is_last = not self.waiting_bytes and self._trailers == ()
        flags = wire.END_STREAM if is_last else 0
        connection.write(wire.frame_header(size, wire.DATA, flags, self.id))
        while size:
            piece = waiting.popleft()
            if len(piece) > size:
                view = memoryview(piece)
                waiting.appendleft(view[size:])
                # Few bytes that wait for the socket must not keep an answer whose stream is reset meanwhile.
                piece = bytes(view[:size]) if size < _COPIED_BYTES_MAX else view[:size]
            connection.write(piece)
            size -= len(piece)
        if is_last:
            self._trailers = None
            self._end_local()

    def _let_go_of_sent(self) -> None:
        """A slice keeps all of the piece that it was cut from, and only what is left of it is counted.

        Copied when it is less than half: so what is kept is at most twice what is counted, and of a piece no
        more is copied than it has, however little the peer takes at a time.
        """
        rest = self._waiting[0]
        if isinstance(rest, memoryview) and len(rest) * 2 < len(rest.obj):  # type: ignore[arg-type]
            self._waiting[0] = bytes(rest)

    def _send_end(self) -> None:
        trailers, self._trailers = self._trailers, None
        assert trailers is not None
        if trailers:
            self.send_headers(trailers, ends=True)
        else:
            self.connection.write(wire.frame_header(0, wire.DATA, wire.END_STREAM, self.id))
            self._end_local()

    def _end_local(self) -> None:
        self.is_local_ended = True
        if self.is_remote_ended:
            self.connection.forget(self)

    # ---- receiving

    def consumed(self, size: int) -> None:
        """So much of what came is no longer held here."""
        self.held_bytes -= size
        lacking = self.window_bytes - self.held_bytes - self.receive_window
        # Half a window at a time: fewer frames, and the sender never has to stop for want of one.
        if lacking * 2 >= self.window_bytes:
            self._open_window(lacking)

    def passed_over(self, size: int) -> None:
        """Padding. Its room is given back at once: the window may be just what a message lacks."""
        self.held_bytes -= size
        self._open_window(size)

    def expect(self, size: int) -> None:
        """So much more of one message is on its way, and welcome."""
        if size > self.receive_window:
            self._open_window(size - self.receive_window)

    def _open_window(self, size: int) -> None:
        if not self.is_remote_ended:
            self.receive_window += size
            self.connection.write(window_update_frame(self.id, size))

    # ---- the end

    def reset(self, code: ErrorCode) -> None:
        """The listener is not told: it is who asked, or has been told."""
        connection = self.connection
        if connection.streams.get(self.id) is self:
            connection.write(reset_frame(self.id, code))
            connection.forget(self, was_reset=True)

    def validate(self) -> None:
        assert self.waiting_bytes == sum(map(len, self._waiting))
        assert self.receive_window >= 0
        assert self.held_bytes >= 0
        assert self.is_drained or not self.is_local_ended, "nothing may follow the end"

    def discard(self) -> None:
        """It is over, for both sides."""
        self.is_local_ended = self.is_remote_ended = True
        self._waiting.clear()
        self.waiting_bytes = 0
        self._trailers = None
        self.listener = self.connection.nobody
