"""HTTP/2 frames (RFC 9113, section 4 and 6): their names, and their bytes.

Frames are written here and read in ``connection``, where what a frame means depends on what came before.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from quorate.rpc.lean import wire
from quorate.rpc.lean.wire import frame_header

__all__ = [
    "FRAME_BYTES_MAX_DEFAULT",
    "FRAME_BYTES_MAX_LIMIT",
    "PREFACE",
    "STREAM_ID_MAX",
    "WINDOW_DEFAULT",
    "WINDOW_MAX",
    "ErrorCode",
    "Flag",
    "FrameType",
    "SettingCode",
    "frame_header",
    "goaway_frame",
    "header_frames",
    "ping_frame",
    "read_settings",
    "reset_frame",
    "settings_frame",
    "window_update_frame",
]

#: what a client says first
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAM_ID_MAX: Final = (1 << 31) - 1
WINDOW_MAX: Final = (1 << 31) - 1
#: until SETTINGS say otherwise
WINDOW_DEFAULT: Final = 65_535
FRAME_BYTES_MAX_DEFAULT: Final = 16_384
FRAME_BYTES_MAX_LIMIT: Final = (1 << 24) - 1


class FrameType:
    """Plain integers: they are compared for every frame, and an enum's are slower."""

    DATA: Final = wire.DATA
    HEADERS: Final = 0x1
    PRIORITY: Final = 0x2
    RST_STREAM: Final = 0x3
    SETTINGS: Final = 0x4
    PUSH_PROMISE: Final = 0x5
    PING: Final = 0x6
    GOAWAY: Final = 0x7
    WINDOW_UPDATE: Final = 0x8
    CONTINUATION: Final = 0x9


class Flag:
    ACK: Final = 0x1
    END_STREAM: Final = wire.END_STREAM
    END_HEADERS: Final = 0x4
    PADDED: Final = wire.PADDED
    PRIORITY: Final = 0x20


class ErrorCode(enum.IntEnum):
    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD

    @classmethod
    def of(cls, number: int) -> ErrorCode:
        """A number that nobody knows is to be treated as an internal error (section 7)."""
        try:
            return cls(number)
        except ValueError:
            return cls.INTERNAL_ERROR


class SettingCode:
    HEADER_TABLE_SIZE: Final = 0x1
    ENABLE_PUSH: Final = 0x2
    MAX_CONCURRENT_STREAMS: Final = 0x3
    INITIAL_WINDOW_SIZE: Final = 0x4
    MAX_FRAME_SIZE: Final = 0x5
    MAX_HEADER_LIST_SIZE: Final = 0x6


_UINT32: Final = struct.Struct(">I")
_TWO_UINT32: Final = struct.Struct(">II")
_SETTING: Final = struct.Struct(">HI")


def settings_frame(settings: Iterable[tuple[int, int]] = (), *, flags: int = 0) -> bytes:
    content = b"".join(_SETTING.pack(code, value) for code, value in settings)
    return frame_header(len(content), FrameType.SETTINGS, flags, 0) + content


def read_settings(content: memoryview) -> Iterator[tuple[int, int]]:
    return _SETTING.iter_unpack(content)


def ping_frame(opaque: bytes, *, flags: int = 0) -> bytes:
    return frame_header(8, FrameType.PING, flags, 0) + opaque


def goaway_frame(last_stream_id: int, code: ErrorCode, reason: str) -> bytes:
    content = _TWO_UINT32.pack(last_stream_id, code) + reason.encode()
    return frame_header(len(content), FrameType.GOAWAY, 0, 0) + content


def reset_frame(stream_id: int, code: ErrorCode) -> bytes:
    return frame_header(4, FrameType.RST_STREAM, 0, stream_id) + _UINT32.pack(code)


def window_update_frame(stream_id: int, increment: int) -> bytes:
    return frame_header(4, FrameType.WINDOW_UPDATE, 0, stream_id) + _UINT32.pack(increment)


def header_frames(block: bytes, stream_id: int, *, ends_stream: bool, frame_bytes_max: int) -> bytes:
    """HEADERS, and as many CONTINUATIONs as the peer's limit asks for."""
    flags = Flag.END_STREAM if ends_stream else 0
    if len(block) <= frame_bytes_max:
        return frame_header(len(block), FrameType.HEADERS, flags | Flag.END_HEADERS, stream_id) + block
    pieces = [block[at : at + frame_bytes_max] for at in range(0, len(block), frame_bytes_max)]
    frames = [frame_header(len(pieces[0]), FrameType.HEADERS, flags, stream_id), pieces[0]]
    for piece in pieces[1:]:
        end = Flag.END_HEADERS if piece is pieces[-1] else 0
        frames += [frame_header(len(piece), FrameType.CONTINUATION, end, stream_id), piece]
    return b"".join(frames)
