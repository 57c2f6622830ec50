"""The bytes around every message: a frame's header (RFC 9113, section 4.1), and a prefix, which is gRPC's.

``wire.pxd`` has the same in C, for the modules that are compiled. Whoever changes one of them changes both.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "DATA",
    "END_STREAM",
    "HEADER_BYTES",
    "PADDED",
    "PREFIX_BYTES",
    "data_frame",
    "frame_header",
    "message_prefix",
    "read_frame_header",
    "read_prefix",
]

#: of every frame, before its content
HEADER_BYTES: Final = 9
#: of every message, before its content
PREFIX_BYTES: Final = 5

#: a type of frame, and flags of it
DATA: Final = 0x0
END_STREAM: Final = 0x1
PADDED: Final = 0x8

_STREAM_ID_MASK: Final = (1 << 31) - 1
_HEADER: Final = struct.Struct(">IBI")
_PREFIX: Final = struct.Struct(">BI")


def frame_header(length: int, frame_type: int, flags: int, stream_id: int) -> bytes:
    return _HEADER.pack(length << 8 | frame_type, flags, stream_id)


def data_frame(stream_id: int, flags: int, prefix: bytes, content: bytes) -> bytes:
    """All of it in one piece."""
    return _HEADER.pack(len(prefix) + len(content) << 8 | DATA, flags, stream_id) + prefix + content


def read_frame_header(view: memoryview, at: int) -> tuple[int, int, int, int]:
    """Length, type, flags and stream id."""
    length_and_type, flags, stream_id = _HEADER.unpack_from(view, at)
    return length_and_type >> 8, length_and_type & 0xFF, flags, stream_id & _STREAM_ID_MASK


def message_prefix(message_bytes: int) -> bytes:
    return _PREFIX.pack(0, message_bytes)


def read_prefix(content: memoryview | bytearray, at: int) -> tuple[int, int]:
    """The flag, and how many bytes follow."""
    flag, length = _PREFIX.unpack_from(content, at)
    return flag, length
