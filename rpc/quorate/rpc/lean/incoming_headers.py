"""Header blocks as they arrive: put together, unpacked, and checked for what they may be where they are."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.rpc.lean.ending_streams import check_unwanted, end_remote
from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.frames import STREAM_ID_MAX, ErrorCode, Flag, FrameType
from quorate.rpc.lean.header_codec import HeaderDecoder, HeaderList
from quorate.rpc.lean.header_rules import Role, check, content_length
from quorate.rpc.lean.stream import Stream

if TYPE_CHECKING:
    from quorate.rpc.lean.connection import Connection

__all__ = ["IncomingHeaders", "depends_on_itself"]

_UINT32: Final = struct.Struct(">I")
_PRIORITY_BYTES: Final = 5


@dataclass(slots=True)
class _Block:
    """One that is not complete yet."""

    stream_id: int
    ends_stream: bool
    content: bytearray
    continuations: int = 0


class IncomingHeaders:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._decoder = HeaderDecoder(connection.limits.header_list_bytes_max)
        self._block: _Block | None = None
        #: a block has begun: nothing but its continuation may come
        self.is_open = False

    def is_continued_by(self, kind: int, stream_id: int) -> bool:
        return self._block is not None and (kind, stream_id) == (
            FrameType.CONTINUATION,
            self._block.stream_id,
        )

    def on_headers(self, content: memoryview, flags: int, stream_id: int) -> None:
        at, end = 0, len(content)
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "headers of no stream")
        if flags & Flag.PADDED:
            if not content:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the padding's length is missing")
            at, end = 1, end - content[0]
        if flags & Flag.PRIORITY:
            if end - at < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the priority is cut short")
            if depends_on_itself(content[at:], stream_id):
                # To reset the stream would do, if its headers were unpacked first, for who comes after it.
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
            at += _PRIORITY_BYTES
        if at > end:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "there is more padding than frame")
        ends_stream = bool(flags & Flag.END_STREAM)
        if flags & Flag.END_HEADERS:
            self._on_block(bytes(content[at:end]), stream_id, ends_stream=ends_stream)
        else:
            self._block = _Block(stream_id, ends_stream, bytearray(content[at:end]))
            self.is_open = True

    def on_continuation(self, content: memoryview, flags: int, stream_id: int) -> None:
        block, limits = self._block, self._connection.limits
        if block is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        block.content += content
        block.continuations += 1
        is_too_long = len(block.content) > limits.header_block_bytes_max
        if is_too_long or block.continuations > limits.continuations_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the header block does not end")
        if flags & Flag.END_HEADERS:
            self._block = None
            self.is_open = False
            self._on_block(bytes(block.content), stream_id, ends_stream=block.ends_stream)

    def _on_block(self, block: bytes, stream_id: int, *, ends_stream: bool) -> None:
        # Also if nobody wants it: the tables of the two sides have to stay the same.
        found = self._decoder.decode(block)
        if len(found.headers) > self._connection.limits.headers_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "more headers than any call has")
        stream = self._connection.streams.get(stream_id)
        if stream is not None:
            self._on_more_headers(stream, found, ends_stream=ends_stream)
        elif self._connection.is_client:
            check_unwanted(self._connection, stream_id)
            self._connection.rates.count_unwanted_headers()
        else:
            self._on_new_stream(found, stream_id, ends_stream=ends_stream)

    def _on_more_headers(self, stream: Stream, found: HeaderList, *, ends_stream: bool) -> None:
        if stream.is_remote_ended:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "headers after the end of the stream")
        if stream.has_headers:
            if not ends_stream:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers that end nothing")
            check(found, Role.TRAILERS)
        else:
            check(found, Role.RESPONSE)
            stream.has_headers = not _is_interim(found)
            if not stream.has_headers:
                if ends_stream:
                    raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the end before any response")
                self._connection.rates.count_unwanted_headers()
        stream.listener.on_headers(found)
        # The listener may have reset it meanwhile.
        if ends_stream and not stream.is_remote_ended:
            end_remote(stream)

    def _on_new_stream(self, found: HeaderList, stream_id: int, *, ends_stream: bool) -> None:
        connection = self._connection
        if not connection.is_idle(stream_id):
            if stream_id not in connection.ended and not connection.is_late(stream_id):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the stream's number is not a new one")
            check_unwanted(connection, stream_id)
            connection.rates.count_unwanted_headers()
            return
        if not stream_id % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the stream's number is a server's")
        if connection.is_going_away:
            connection.ignore(stream_id)
            connection.rates.count_unwanted_headers()
            return
        connection.last_peer_stream_id = connection.last_taken_stream_id = stream_id
        if len(connection.streams) >= connection.settings.streams_max:
            raise StreamFault(ErrorCode.REFUSED_STREAM, "too many streams")
        check(found, Role.REQUEST)
        stream = Stream(connection, stream_id)
        stream.has_headers = True
        stream.content_bytes_left = content_length(found.headers)
        connection.streams[stream_id] = stream
        stream.listener = connection.acceptor.on_stream(stream, found)
        # It may have been refused already.
        if ends_stream and not stream.is_remote_ended:
            end_remote(stream)


def depends_on_itself(priority: memoryview, stream_id: int) -> bool:
    """Nobody heeds priorities; but they have to be some."""
    return bool(_UINT32.unpack_from(priority)[0] & STREAM_ID_MAX == stream_id)


def _is_interim(found: HeaderList) -> bool:
    """1xx: the response is yet to come."""
    return any(name == b":status" and value.startswith(b"1") for name, value in found.headers)
