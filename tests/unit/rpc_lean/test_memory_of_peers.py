"""What one peer can make a server keep, or take for a moment: bytes that Python has allocated, counted.

Bounds are some way above what is kept now, and far below what it would be without one. The socket of these
tests keeps nothing, and the buffer that all connections share is there before anything is counted.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hpack import Encoder

from quorate.core.transport import Handler
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    FrameType,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.header_codec import HeaderDecoder, HeaderEncoder
from quorate.rpc.lean.limits import Limits, Rate
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, feed, prefixed
from tests.unit.rpc_lean.peers import HELLO, REQUEST, data, frame, request_headers

KIB: Final = 1 << 10
ASKED: Final = prefixed(BytesValue(value=b"x"))


class Taken:
    kept = 0
    most = 0


@contextmanager
def taken() -> Iterator[Taken]:
    """``kept`` after it, ``most`` meanwhile."""
    found = Taken()
    gc.collect()
    tracemalloc.start()
    try:
        yield found
        gc.collect()
        found.kept, found.most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def request(stream_id: int) -> bytes:
    return request_headers(stream_id) + data(ASKED, stream_id, ends=True)


async def server_that_has_answered(handler: Handler, *, hello: bytes = HELLO, **options: Any) -> FedServer:
    """Once: what is made only once is there by now."""
    server = FedServer(echo_with(Echo=handler)[1], hello=hello, **options)
    await send(server, request(1))
    return server


async def send(server: FedServer, content: bytes) -> ErrorCode | None:
    """What it answers is not kept; the code with which it hung up is told."""
    await server.send(content)
    codes = [each.code for each in server.frames if each.kind == FrameType.GOAWAY]
    server.frames.clear()
    server.headers.clear()
    return codes[-1] if codes else None


async def echo(asked: BytesValue, _call: Any) -> BytesValue:
    return asked


class Stuck(FakeSocket):
    """Keeps all of it, piece by piece."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += pieces


# ---- what stays


async def test_connection_that_idles_after_many_calls_keeps_little() -> None:
    server = await server_that_has_answered(echo)
    with taken() as found:
        for number in range(1, 400):
            await send(server, request(2 * number + 1))
    assert found.kept < 16 * KIB
    await server.close()


async def test_connections_that_have_said_half_of_what_they_are_keep_little() -> None:
    server = await server_that_has_answered(echo)
    links = []
    with taken() as found:
        for _ in range(100):
            link = server.server._make_link()
            link.connection_made(FakeSocket())
            link.get_buffer(-1)[:10] = HELLO[:10]
            link.buffer_updated(10)
            link.flush()
            links.append(link)
    assert found.kept < len(links) * 16 * KIB
    for each in links:
        each.connection_lost(None)
    await server.close()


async def test_beginnings_of_a_frame_and_of_a_header_block_are_all_that_is_kept_of_a_connection() -> None:
    server = await server_that_has_answered(echo)
    with taken() as found:
        begun = frame(FrameType.HEADERS, bytes(16_000), stream_id=3)
        begun += frame(FrameType.CONTINUATION, bytes(300), stream_id=3)
        assert (
            await send(server, begun + frame(FrameType.CONTINUATION, bytes(16_000), stream_id=3)[:-1]) is None
        )
    assert found.kept < 64 * KIB
    await server.close()


def small_block(number: int, filler: bytes) -> bytes:
    """One that is never the same, and changes no table: references, and a header that is not to be kept."""
    value = b"%03d" % number
    return filler + b"\x10\x01a" + bytes([len(value)]) + value


@pytest.mark.parametrize("filler", [b"\x84" * 106, b"\x84" * 50, b"\x90" * 40, b""])
def test_headers_that_are_remembered_are_bounded_by_what_they_take(filler: bytes) -> None:
    decoder = HeaderDecoder(16 * KIB)
    with taken() as found:
        for number in range(256):
            decoder.decode(small_block(number, filler))
    assert found.kept < 64 * KIB


def test_headers_to_send_that_are_remembered_are_bounded_by_what_they_take() -> None:
    encoder = HeaderEncoder()
    with taken() as found:
        for number in range(256):
            encoder.encode(((b"grpc-status", b"2"), (b"grpc-message", b"%03d" % number + b"x" * 450)))
    assert found.kept < 64 * KIB


# ---- what is taken for a moment


async def test_headers_that_would_unpack_to_very_much_take_little() -> None:
    """A few kilobytes for 16 MB: one entry of the table, again and again."""
    server = await server_that_has_answered(echo)
    encoder = Encoder()
    large = [*REQUEST, ("bomb", "x" * 3_900)]
    first = encoder.encode(large, huffman=False)
    bomb = encoder.encode([*REQUEST, *[large[-1]] * 4_000], huffman=False)
    assert len(bomb) < 8_000
    with taken() as found:
        assert (
            await send(server, frame(FrameType.HEADERS, first, flags=Flag.END_HEADERS, stream_id=3)) is None
        )
        end = await send(server, frame(FrameType.HEADERS, bomb, flags=Flag.END_HEADERS, stream_id=5))
    assert end is ErrorCode.ENHANCE_YOUR_CALM
    assert found.most < 256 * KIB
    await server.close()


class Patient:
    """Handles calls for ever, and counts them."""

    def __init__(self) -> None:
        self.begun = self.running = self.running_most = 0

    async def __call__(self, asked: BytesValue, _call: Any) -> BytesValue:
        if not self.begun:
            self.begun = 1
            return asked  # the first is answered
        self.begun += 1
        self.running += 1
        self.running_most = max(self.running, self.running_most)
        try:
            await asyncio.Event().wait()
            return asked
        finally:
            self.running -= 1


@pytest.mark.parametrize("at_once", [1, 50], ids=["call by call", "in one read"])
async def test_calls_that_are_begun_and_reset_at_once_leave_nothing_behind(at_once: int) -> None:
    patient = Patient()
    server = await server_that_has_answered(patient, limits=Limits(resets=Rate(200, 0)))
    end, first = None, 1
    with taken() as found:
        while end is None and first < 1_000:
            ids = range(2 * first + 1, 2 * (first + at_once), 2)
            begun = b"".join(map(request, ids))
            resets = b"".join(reset_frame(each, ErrorCode.CANCEL) for each in ids)
            if at_once == 1:
                # Its handler has begun by then.
                assert await send(server, begun) is None
                begun = b""
            end = await send(server, begun + resets)
            first += at_once
    assert end is ErrorCode.ENHANCE_YOUR_CALM
    assert patient.begun == (202 if at_once == 1 else 1)
    assert (patient.running, patient.running_most) == ((0, 1) if at_once == 1 else (0, 0))
    assert not server.server.surroundings.ending
    assert found.kept < 96 * KIB
    assert found.most < 1024 * KIB
    await server.close()


async def test_answer_that_is_taken_byte_by_byte_is_kept_once_and_until_it_is_reset() -> None:
    answer = bytes(200_000)

    async def large(_asked: BytesValue, _call: Any) -> BytesValue:
        return BytesValue(value=answer)

    hello = PREFACE + settings_frame([(4, 1)])
    server = await server_that_has_answered(large, hello=hello)
    await send(server, reset_frame(1, ErrorCode.CANCEL))
    ids = range(3, 23, 2)
    with taken() as found:
        await send(server, b"".join(map(request, ids)))
        for _ in range(100):
            assert await send(server, b"".join(window_update_frame(each, 1) for each in ids)) is None
        await send(server, b"".join(reset_frame(each, ErrorCode.CANCEL) for each in ids))
    assert found.most < 1.3 * len(ids) * len(answer)
    assert found.kept < 64 * KIB
    assert not server.link.connection.streams
    await server.close()


async def test_rest_of_an_answer_keeps_no_more_than_it_counts_for() -> None:
    """Whoever takes all but one byte of each, and nothing more."""
    answer = bytes(200_000)

    async def large(_asked: BytesValue, _call: Any) -> BytesValue:
        return BytesValue(value=answer)

    whole = len(prefixed(BytesValue(value=answer)))
    hello = PREFACE + settings_frame([(4, whole - 1)]) + window_update_frame(0, 1 << 30)
    server = await server_that_has_answered(large, hello=hello)
    ids = range(3, 103, 2)
    with taken() as found:
        for each in ids:
            await send(server, request(each))
        assert server.untaken_bytes == 1 + len(ids)
    assert found.kept < len(ids) * 16 * KIB
    await server.close()


async def test_answer_that_is_reset_is_not_kept_by_the_little_that_was_sent_of_it() -> None:
    answer = bytes(200_000)

    async def large(_asked: BytesValue, _call: Any) -> BytesValue:
        return BytesValue(value=answer)

    server = await server_that_has_answered(large, hello=PREFACE + settings_frame([(4, 6)]))
    stuck = Stuck()
    link = server.server._make_link()
    link.connection_made(stuck)
    feed(link, PREFACE + settings_frame([(4, 6)]))
    with taken() as found:
        for each in range(1, 101, 2):
            await server.send(request(each), to=link)
            await server.send(reset_frame(each, ErrorCode.CANCEL), to=link)
    assert len(stuck.written) > 100
    assert found.kept < 256 * KIB
    await server.close()
