"""The bytes around a message, at their bounds."""

from __future__ import annotations

import pytest

from quorate.rpc.lean import wire
from quorate.rpc.lean.messages import BrokenMessage, MessageTooLarge, whole_bytes


@pytest.mark.parametrize("length", [0, 1, 255, 256, (1 << 24) - 1])
@pytest.mark.parametrize("stream_id", [0, 1, (1 << 31) - 1])
def test_header_is_read_as_it_was_written(length: int, stream_id: int) -> None:
    header = wire.frame_header(length, wire.DATA, wire.END_STREAM | wire.PADDED, stream_id)
    assert len(header) == wire.HEADER_BYTES
    assert wire.read_frame_header(memoryview(b"?" + header), 1) == (length, 0, 0x9, stream_id)


def test_reserved_bit_of_a_stream_id_is_ignored() -> None:
    header = wire.frame_header(3, 0x6, 0xFF, (1 << 32) - 1)
    assert wire.read_frame_header(memoryview(header), 0) == (3, 6, 0xFF, (1 << 31) - 1)


def test_frame_in_one_piece_is_its_header_and_its_parts() -> None:
    written = wire.data_frame(7, wire.END_STREAM, b"prefix", b"content")
    assert written == wire.frame_header(13, wire.DATA, wire.END_STREAM, 7) + b"prefixcontent"


@pytest.mark.parametrize("length", [0, 1, 255, 65_536, (1 << 32) - 1])
@pytest.mark.parametrize("kind", [memoryview, bytearray])
def test_length_of_a_message_is_read_as_it_was_written(
    length: int, kind: type[memoryview] | type[bytearray]
) -> None:
    content = kind(b"??" + wire.message_prefix(length))
    assert whole_bytes(content, 2, 1 << 32) == wire.PREFIX_BYTES + length


def test_message_that_is_compressed_or_too_large_is_told() -> None:
    with pytest.raises(BrokenMessage):
        whole_bytes(bytearray(b"\x01\x00\x00\x00\x00"), 0, 10)
    with pytest.raises(MessageTooLarge):
        whole_bytes(bytearray(wire.message_prefix((1 << 32) - 1)), 0, 10)
