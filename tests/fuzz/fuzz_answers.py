"""Coverage-guided search for conversations that bring a connection of the lean transport off its course.

    python -m tests.fuzz.fuzz_answers -max_total_time=60       a minute; more in fuzz_transport

Beside ``fuzz_transport``, where nobody answers and no time passes, so that neither what waits to be sent nor
what is only too often can go wrong. Here the limits are so small that a search meets them, and an owner
answers, consumes and resets. An input is steps: how time, socket and owner behave, how many bytes come, and
the bytes. After each the invariants hold, and what is kept is bounded; at the end, whoever waited is sent on
once there is room.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import atheris  # type: ignore[import-untyped]

# Compiled code shows nothing of its branches to a search.
os.environ.setdefault("QUORATE_CODEC", "pure")

with atheris.instrument_imports(include=["quorate.rpc.lean", "hpack"]):
    from quorate.rpc.lean.connection import Connection

from quorate.rpc.lean.frames import (
    WINDOW_MAX,
    ErrorCode,
    Flag,
    FrameType,
    goaway_frame,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.limits import Limits, Rate
from quorate.rpc.lean.stream import Stream
from tests.fuzz.searching import search
from tests.unit.rpc_lean.peers import HELLO, Wire, data, frame, frames_in, request_headers

FEW: Final = Rate(6, 10)
LIMITS: Final = Limits(
    header_list_bytes_max=1_000,
    header_block_bytes_max=600,
    continuations_max=3,
    settings_max=4,
    unsent_control_bytes_max=400,
    resets=FEW,
    unwanted_headers=FEW,
    empty_data=FEW,
    unknown_frames=FEW,
    control_frames=dict.fromkeys(Limits().control_frames, FEW),
)
STREAMS_MAX: Final = 6
ANSWER: Final = b"y" * 30_000
#: what an owner holds of answers that it has given, for one stream
WAITING_BYTES_MAX: Final = 3 * len(ANSWER)
#: of one turn: what the socket is offered, and answers that nobody has read yet
OUTPUT_BYTES_MAX: Final = (512 << 10) + (16 << 10) + 1_000

# How a step goes, in bits.
SECONDS: Final = (0.0, 0.01, 0.3, 2.0)
IS_STUCK: Final = 1 << 2
ANSWERS: Final = 1 << 3
ENDS: Final = 1 << 4
CONSUMES: Final = 1 << 5
RESETS: Final = 1 << 6
GOES_AWAY: Final = 1 << 7


def act(connection: Connection, how: int) -> None:
    """As whoever owns the streams does."""
    if how & GOES_AWAY:
        connection.go_away("enough")
    for stream in list(connection.streams.values()):
        if how & CONSUMES:
            stream.consumed(stream.held_bytes)
        if how & ANSWERS and stream.is_drained and not stream.is_local_ended:
            answer(stream, ends=bool(how & ENDS))
        if how & RESETS and stream.id % 4 == 1:
            stream.reset(ErrorCode.CANCEL)


def answer(stream: Stream, *, ends: bool) -> None:
    stream.send(b"x" * 5, ANSWER)
    if ends and not stream.is_local_ended:
        stream.end(((b"grpc-status", b"0"),))


def check(wire: Wire) -> None:
    connection = wire.connection
    connection.validate()
    assert len(connection.streams) <= STREAMS_MAX
    assert connection.output_bytes <= OUTPUT_BYTES_MAX, connection.output_bytes
    for stream in connection.streams.values():
        assert stream.waiting_bytes <= WAITING_BYTES_MAX


def is_goaway(piece: bytes | memoryview) -> bool:
    return frames_in(bytes(piece))[-1].kind == FrameType.GOAWAY


def check_that_all_leaves(wire: Wire) -> None:
    """Once the socket takes it, and all windows are open."""
    connection = wire.connection
    if connection.fault is not None:
        assert is_goaway(connection.take_output()[-1])
        return
    connection.set_writable(is_writable=True)
    connection.send_window = WINDOW_MAX
    for stream in list(connection.streams.values()):
        stream.send_window = WINDOW_MAX
        if stream.waiting_bytes:
            stream.pump()
    while connection.take_output():
        connection.pump_all()
    connection.validate()
    assert not connection.blocked
    assert all(stream.is_drained for stream in connection.streams.values())


def test_one_input(content: bytes) -> None:
    wire = Wire(LIMITS, hello=b"", streams_max=STREAMS_MAX, window_bytes=300, connection_window_bytes=70_000)
    wire.send(HELLO)
    at = 0
    while at + 2 <= len(content):
        how, size = content[at], content[at + 1]
        wire.now += SECONDS[how & 3]
        wire.connection.set_writable(is_writable=not how & IS_STUCK)
        wire.send(content[at + 2 : at + 2 + size])
        at += 2 + size
        check(wire)
        act(wire.connection, how)
        check(wire)
        if not how & IS_STUCK and wire.connection.fault is None:
            wire.answers()
            wire.connection.pump_all()
    check_that_all_leaves(wire)


def step(content: bytes, how: int = ANSWERS | CONSUMES) -> bytes:
    assert len(content) < 256
    return bytes([how, len(content)]) + content


def seeds() -> Iterator[bytes]:
    """Conversations as they should be, and floods."""
    whole = Flag.END_HEADERS | Flag.END_STREAM
    yield (
        step(request_headers(1) + data(b"hello", 1, ends=True), how=0)
        + step(request_headers(3, flags=whole), how=ANSWERS | ENDS)
        + step(window_update_frame(1, 70_000) + window_update_frame(3, 70_000))
        + step(window_update_frame(0, 1), how=IS_STUCK)
        + step(window_update_frame(0, 200_000), how=0)
        + step(settings_frame([(4, 0)]) + settings_frame([(4, 100)]), how=2)
    )
    yield step(settings_frame([(4, 0)]) + request_headers(1, flags=whole)) + 20 * step(
        window_update_frame(1, 1), 2
    )
    yield b"".join(
        step(request_headers(number) + reset_frame(number, ErrorCode.CANCEL), how=1)
        for number in range(1, 31, 2)
    )
    yield 10 * step(frame(FrameType.PING, bytes(8)) + goaway_frame(0, ErrorCode.NO_ERROR, ""), how=IS_STUCK)
    yield step(request_headers(1), how=RESETS) + 9 * step(data(b"late", 1)) + 9 * step(request_headers(1))
    yield step(request_headers(1), how=GOES_AWAY) + 9 * step(request_headers(3), how=3) + step(data(b"", 1))


if __name__ == "__main__":
    search("answers", test_one_input, seeds())
