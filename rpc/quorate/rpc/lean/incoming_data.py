"""DATA as it arrives, in parts of any size: counted against the windows, and passed on to its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.rpc.lean import wire
from quorate.rpc.lean.ending_streams import check_unwanted, end_remote
from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.frames import ErrorCode, window_update_frame
from quorate.rpc.lean.stream import Stream

if TYPE_CHECKING:
    from quorate.rpc.lean.connection import Connection

__all__ = ["IncomingData"]


class IncomingData:
    """The frame that is being received, if any."""

    __slots__ = (
        "_connection",
        "_content_left",
        "_ends_stream",
        "_padding_left",
        "_receive_window",
        "_stream",
        "_window_bytes",
        "is_open",
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._window_bytes = self._receive_window = connection.settings.connection_window_bytes
        self.is_open = False
        #: None: the content goes nowhere
        self._stream: Stream | None = None
        self._content_left = 0
        self._padding_left = 0
        self._ends_stream = False

    def take_whole(self, view: memoryview, at: int, length: int, flags: int, stream_id: int) -> int:
        """As ``begin`` and ``receive`` for a frame without padding that is all there: nearly every one.

        What needs more than to be counted and passed on goes the long way.
        """
        connection = self._connection
        stream = connection.streams.get(stream_id)
        window_left = self._receive_window - length
        if (
            not length
            or stream is None
            or stream.is_remote_ended
            or not stream.has_headers
            or stream.content_bytes_left is not None
            or stream.receive_window < length
            or window_left * 2 <= self._window_bytes
        ):
            return self.begin(view, at, length, flags, stream_id)
        self._receive_window = window_left
        stream.receive_window -= length
        stream.held_bytes += length
        end = at + length
        stream.is_ending = bool(flags & wire.END_STREAM)
        stream.listener.on_data(view[at:end])
        # The listener may have reset it meanwhile.
        if flags & wire.END_STREAM and not stream.is_remote_ended:
            self._end(stream)
        return end

    def begin(self, view: memoryview, at: int, length: int, flags: int, stream_id: int) -> int:
        """Its header has come. Where its content begins."""
        self._count(length)
        self._content_left = length
        self._padding_left = 0
        self._ends_stream = bool(flags & wire.END_STREAM)
        if flags & wire.PADDED:
            if not length:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the padding's length is missing")
            self._padding_left = view[at]
            self._content_left -= 1 + self._padding_left
            at += 1
            if self._content_left < 0:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "there is more padding than frame")
        self._stream = self._find_stream(stream_id, length)
        if not self._content_left and not self._ends_stream:
            self._connection.rates.count_empty_data()
        self.is_open = True
        return at

    def receive(self, view: memoryview, at: int) -> int:
        """Where the part that belongs to the frame ends."""
        available = len(view) - at
        size = min(available, self._content_left)
        stream = self._stream
        if size:
            self._content_left -= size
            if stream is not None:
                rest = self._content_left + self._padding_left
                stream.is_ending = self._ends_stream and available - size >= rest
                stream.listener.on_data(view[at : at + size])
        skipped = min(available - size, self._padding_left)
        self._padding_left -= skipped
        if not self._content_left and not self._padding_left:
            self.is_open = False
            self._stream = None
            # The listener may have reset it meanwhile.
            if self._ends_stream and stream is not None and not stream.is_remote_ended:
                self._end(stream)
        return at + size + skipped

    def _find_stream(self, stream_id: int, length: int) -> Stream | None:
        connection = self._connection
        stream = connection.streams.get(stream_id)
        if stream is None or stream.is_remote_ended:
            check_unwanted(connection, stream_id)
            return None
        try:
            self._count_for_stream(stream, length)
        except StreamFault as fault:
            connection.reset_broken(stream_id, fault)
            return None
        return stream

    def _count(self, length: int) -> None:
        self._receive_window -= length
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        lacking = self._window_bytes - self._receive_window
        if lacking * 2 >= self._window_bytes:
            self._receive_window += lacking
            self._connection.write(window_update_frame(0, lacking))

    def _count_for_stream(self, stream: Stream, length: int) -> None:
        if not stream.has_headers:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "data before any headers")
        stream.receive_window -= length
        stream.held_bytes += length
        if stream.receive_window < 0:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the stream's window")
        if length != self._content_left:
            stream.passed_over(length - self._content_left)
        if stream.content_bytes_left is not None:
            stream.content_bytes_left -= self._content_left
            if stream.content_bytes_left < 0:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "more data than content-length")

    def _end(self, stream: Stream) -> None:
        try:
            end_remote(stream)
        except StreamFault as fault:
            self._connection.reset_broken(stream.id, fault)
