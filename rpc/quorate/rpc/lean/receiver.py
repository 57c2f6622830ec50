"""What arrives on a connection: frame by frame, each checked against what came before.

DATA is passed on as it arrives and is never collected, so a frame may be larger than any buffer
(``incoming_data``). All other frames are small, and taken whole.

The order of the checks is that of RFC 9113: what breaks the connection first, then what breaks a stream. A
``ConnectionFault`` leaves here; a ``StreamFault`` becomes a reset of the stream that the frame was for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from quorate.rpc.lean import wire
from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.frames import (
    FRAME_BYTES_MAX_DEFAULT,
    FRAME_BYTES_MAX_LIMIT,
    PREFACE,
    STREAM_ID_MAX,
    WINDOW_MAX,
    ErrorCode,
    Flag,
    FrameType,
    SettingCode,
    ping_frame,
    read_settings,
    settings_frame,
)
from quorate.rpc.lean.incoming_data import IncomingData
from quorate.rpc.lean.incoming_headers import IncomingHeaders, depends_on_itself

if TYPE_CHECKING:
    from quorate.rpc.lean.connection import Connection

__all__ = ["Receiver"]

_UINT32: Final = struct.Struct(">I")
_SETTING_BYTES: Final = 6


class Receiver:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._frame_bytes_max = connection.settings.frame_bytes_max
        self._preface_left = b"" if connection.is_client else PREFACE
        self._data = IncomingData(connection)
        self._headers = IncomingHeaders(connection)
        self._on_frame = {
            FrameType.HEADERS: self._headers.on_headers,
            FrameType.PRIORITY: self._on_priority,
            FrameType.RST_STREAM: self._on_reset,
            FrameType.SETTINGS: self._on_settings,
            FrameType.PUSH_PROMISE: self._on_push_promise,
            FrameType.PING: self._on_ping,
            FrameType.GOAWAY: self._on_goaway,
            FrameType.WINDOW_UPDATE: self._on_window_update,
            FrameType.CONTINUATION: self._headers.on_continuation,
        }

    def receive(self, view: memoryview) -> int:
        """How much of it was used up."""
        at, end = 0, len(view)
        if self._preface_left:
            at = self._receive_preface(view)
            if self._preface_left:
                return at
        data = self._data
        while True:
            if data.is_open:
                at = data.receive(view, at)
                if data.is_open:
                    return at
            content_at = at + wire.HEADER_BYTES
            if end < content_at:
                return at
            length, kind, flags, stream_id = wire.read_frame_header(view, at)
            self._check_frame(length, kind, stream_id)
            if kind == wire.DATA:
                if not flags & wire.PADDED and end - content_at >= length:
                    at = data.take_whole(view, content_at, length, flags, stream_id)
                elif flags & wire.PADDED and end == content_at:
                    return at
                else:
                    at = data.begin(view, content_at, length, flags, stream_id)
            elif end - content_at < length:
                return at
            else:
                at = content_at + length
                self._dispatch(kind, view[content_at:at], flags, stream_id)

    def _receive_preface(self, view: memoryview) -> int:
        size = min(len(view), len(self._preface_left))
        if view[:size] != self._preface_left[:size]:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
        self._preface_left = self._preface_left[size:]
        return size

    def _check_frame(self, length: int, kind: int, stream_id: int) -> None:
        connection = self._connection
        if length > self._frame_bytes_max:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the frame is larger than allowed")
        if self._headers.is_open and not self._headers.is_continued_by(kind, stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
        if kind != wire.DATA and length > connection.limits.header_block_bytes_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the frame is larger than any should be")
        if not connection.peer.are_known and kind != FrameType.SETTINGS:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS come first")

    def _dispatch(self, kind: int, content: memoryview, flags: int, stream_id: int) -> None:
        connection = self._connection
        on_frame = self._on_frame.get(kind)
        if on_frame is None:
            connection.rates.count_unknown_frame()
            return
        connection.rates.count_frame(kind)
        try:
            on_frame(content, flags, stream_id)
        except StreamFault as fault:
            connection.reset_broken(stream_id, fault)
        # Here and not only once for all that was read: a few bytes may ask for an answer of many.
        if connection.output_bytes > connection.limits.unsent_control_bytes_max:
            connection.check_output()

    # ---- frames of a stream

    def _on_priority(self, content: memoryview, _flags: int, stream_id: int) -> None:
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the priority of no stream")
        fault = None
        if len(content) != 5:
            fault = StreamFault(ErrorCode.FRAME_SIZE_ERROR, "a priority has five bytes")
        elif depends_on_itself(content, stream_id):
            fault = StreamFault(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
        if fault is None:
            return
        if self._connection.is_idle(stream_id):
            # No stream may be reset that nobody has opened (6.4).
            raise ConnectionFault(fault.code, fault.reason)
        raise fault

    def _on_reset(self, content: memoryview, _flags: int, stream_id: int) -> None:
        connection = self._connection
        if len(content) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a reset has four bytes")
        if connection.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a reset of a stream that was never opened")
        if not connection.is_client:
            connection.rates.count_reset()
        stream = connection.streams.get(stream_id)
        if stream is not None:
            connection.lose(stream, ErrorCode.of(_UINT32.unpack(content)[0]), "reset by the peer")

    def _on_window_update(self, content: memoryview, _flags: int, stream_id: int) -> None:
        connection = self._connection
        if len(content) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an increment has four bytes")
        increment = _UINT32.unpack(content)[0] & WINDOW_MAX
        if not stream_id:
            if not increment:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window opened by nothing")
            connection.open_window(increment)
            return
        stream = connection.streams.get(stream_id)
        if stream is None:
            if connection.is_idle(stream_id):
                message = "the window of a stream that was never opened"
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, message)
            return
        if not increment:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "a window opened by nothing")
        stream.send_window += increment
        if stream.send_window > WINDOW_MAX:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "no window is that large")
        if stream.waiting_bytes:
            stream.pump()

    def _on_push_promise(self, _content: memoryview, _flags: int, _stream_id: int) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "nobody asked for a push")

    # ---- frames of the connection

    def _on_settings(self, content: memoryview, flags: int, stream_id: int) -> None:
        connection = self._connection
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if flags & Flag.ACK:
            if content:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement is empty")
            return
        if len(content) % _SETTING_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a setting has six bytes")
        if len(content) > _SETTING_BYTES * connection.limits.settings_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "more settings than there are")
        window_bytes = connection.peer.window_bytes
        for code, value in read_settings(content):
            if code == SettingCode.INITIAL_WINDOW_SIZE:
                if value > WINDOW_MAX:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "no window is that large")
                window_bytes = value
            else:
                self._set(code, value)
        # Once, by the last that was said: it is a matter of every stream.
        connection.change_windows(window_bytes)
        connection.peer.are_known = True
        connection.write(settings_frame(flags=Flag.ACK))
        connection.acceptor.on_settings()
        if connection.blocked:
            connection.pump_all()

    def _set(self, code: int, value: int) -> None:
        connection = self._connection
        if code == SettingCode.HEADER_TABLE_SIZE:
            connection.encoder.allow_table_bytes(value)
        elif code == SettingCode.ENABLE_PUSH:
            if value > 1 or (connection.is_client and value):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is not 0 or 1")
        elif code == SettingCode.MAX_CONCURRENT_STREAMS:
            connection.peer.streams_max = value
        elif code == SettingCode.MAX_FRAME_SIZE:
            if not FRAME_BYTES_MAX_DEFAULT <= value <= FRAME_BYTES_MAX_LIMIT:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no frame has that size")
            connection.peer.frame_bytes_max = value

    def _on_ping(self, content: memoryview, flags: int, stream_id: int) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a ping of a stream")
        if len(content) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
        if not flags & Flag.ACK:
            self._connection.write(ping_frame(bytes(content), flags=Flag.ACK))

    def _on_goaway(self, content: memoryview, _flags: int, stream_id: int) -> None:
        connection = self._connection
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(content) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is cut short")
        connection.is_peer_going_away = True
        last_stream_id = _UINT32.unpack_from(content)[0] & STREAM_ID_MAX
        if connection.is_client:
            for stream in list(connection.streams.values()):
                if stream.id > last_stream_id:
                    connection.lose(stream, ErrorCode.REFUSED_STREAM, "the server is stopping")
        connection.acceptor.on_goaway()
