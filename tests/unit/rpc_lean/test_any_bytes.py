"""Whatever bytes come, in whatever pieces: a connection goes on, or says why not; nothing else happens."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from quorate.rpc.lean.frames import ErrorCode, Flag, FrameType, settings_frame, window_update_frame
from tests.unit.rpc_lean.peers import HELLO, Wire, data, frame, request_headers

STREAM_IDS = st.sampled_from([0, 1, 1, 3, 5, 2, (1 << 31) - 1])
FLAGS = st.sampled_from([0, Flag.END_STREAM, Flag.END_HEADERS, 5, Flag.PADDED, 0x2D, 0xFF])
#: frames as they should be
GOOD = st.one_of(
    st.builds(request_headers, st.sampled_from([1, 3, 5, 7]), flags=st.sampled_from([0, 4, 5])),
    st.builds(data, st.binary(max_size=40), st.sampled_from([1, 3, 5]), ends=st.booleans()),
    st.builds(
        window_update_frame, st.sampled_from([0, 1, 3]), st.sampled_from([0, 1, 70_000, (1 << 31) - 1])
    ),
    st.builds(
        lambda code, value: settings_frame([(code, value)]),
        st.integers(0, 7),
        st.sampled_from([0, 1, 100, 16_384, 70_000, (1 << 32) - 1]),
    ),
    st.builds(
        lambda stream_id: frame(
            FrameType.RST_STREAM, struct.pack(">I", ErrorCode.CANCEL), stream_id=stream_id
        ),
        st.sampled_from([1, 3, 5]),
    ),
    st.just(frame(FrameType.PING, bytes(8))),
)
#: frames of any type with any content
ODD = st.builds(
    lambda kind, content, flags, stream_id: frame(kind, content, flags=flags, stream_id=stream_id),
    st.integers(0, 11),
    st.binary(max_size=30),
    FLAGS,
    STREAM_IDS,
)
CONVERSATIONS = st.lists(st.one_of(GOOD, GOOD, GOOD, ODD, st.binary(max_size=20)), max_size=20)


@given(CONVERSATIONS, st.lists(st.integers(1, 60), max_size=20))
def test_any_bytes_leave_a_connection_whole_or_closed(frames: list[bytes], sizes: list[int]) -> None:
    content, wire = HELLO + b"".join(frames), Wire(hello=b"")
    for size in [*sizes, len(content)]:
        wire.send(content[:size])
        content = content[size:]
        wire.connection.validate()
        answer_everybody(wire)
        wire.connection.validate()
    if wire.connection.fault is not None:
        assert wire.answers()[-1].kind == FrameType.GOAWAY


def answer_everybody(wire: Wire) -> None:
    """As an owner does: answers, consumes, and ends."""
    for stream in list(wire.connection.streams.values()):
        if stream.is_drained and not stream.is_local_ended:
            if stream.is_remote_ended:
                stream.end(((b"grpc-status", b"0"),))
            else:
                stream.send(b"x" * 5, b"y" * 20_000)
        stream.consumed(stream.held_bytes)


@given(st.binary(max_size=300))
def test_whoever_says_anything_else_at_first_is_hung_up_on(content: bytes) -> None:
    wire = Wire(hello=b"")
    wire.send(content)
    if not HELLO.startswith(content[: len(HELLO)]):
        assert wire.connection.fault is not None or len(content) < len(HELLO)
    wire.connection.validate()
