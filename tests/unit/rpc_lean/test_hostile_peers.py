"""Peers that mean harm: each ends with a clean close, and costs the others nothing.

Without sockets where that is enough: every limit is a matter of bytes and time.
"""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hpack import Encoder

from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    FrameType,
    goaway_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.grpc_headers import status_trailers
from quorate.rpc.lean.limits import Limits, Rate
from quorate.rpc.lean.status import Status, StatusCode
from quorate.rpc.lean.wire import message_prefix
from tests.unit.rpc_lean.fed_server import FedServer, echo_with
from tests.unit.rpc_lean.peers import (
    HELLO,
    REQUEST,
    Frame,
    Rude,
    Wire,
    data,
    frame,
    request_headers,
    rude_client,
    served,
)
from tests.unit.seams.echo_service import COUNT, ECHO

AMPLE_S = 30.0
CALM = ErrorCode.ENHANCE_YOUR_CALM


def refusal(answers: list[Frame]) -> ErrorCode | None:
    """Of the connection."""
    goaways = [each for each in answers if each.kind == FrameType.GOAWAY]
    return goaways[-1].code if goaways else None


def flood(wire: Wire, one: Callable[[int], bytes], most: int) -> int:
    """How many of them were borne."""
    for number in range(most):
        if refusal(wire.exchange(one(number))) is CALM:
            return number
    return most


# ---- what it is refused for


async def test_peer_is_heard_out_in_what_it_is_refused_for_and_told_why() -> None:
    """Closed with some of that unread, the connection would be reset, and the reason lost with it."""
    begun = struct.pack(">I", 1 << 23)[1:] + bytes([FrameType.HEADERS, 0]) + struct.pack(">I", 1)
    async with served() as (_, _, address), rude_client(address) as rude:
        await rude.send(HELLO + begun)
        for _ in range(64):
            await rude.send(bytes(1 << 16))
        assert await rude.last_words() is ErrorCode.FRAME_SIZE_ERROR


# ---- too often


PING = frame(FrameType.PING, bytes(8))
FEW = Limits(
    resets=Rate(20, 10),
    empty_data=Rate(20, 10),
    unknown_frames=Rate(20, 10),
    unwanted_headers=Rate(20, 10),
    control_frames=dict.fromkeys(Limits().control_frames, Rate(20, 10)),
)
FLOODS = {
    "ping": lambda _: PING,
    "settings": lambda _: settings_frame([(1, 4096)]),
    "priority": lambda _: frame(FrameType.PRIORITY, bytes(5), stream_id=7),
    "window update": lambda _: window_update_frame(0, 1),
    "unknown": lambda _: frame(0x77, b"?"),
    "goaway": lambda _: goaway_frame(0, ErrorCode.NO_ERROR, ""),
}


def test_every_type_of_frame_that_costs_the_peer_nothing_has_a_limit() -> None:
    """All but those that belong to a call, and those that end a connection or are part of another frame."""
    kinds = {kind for name, kind in vars(FrameType).items() if name.isupper()}
    others = {FrameType.DATA, FrameType.HEADERS, FrameType.RST_STREAM, FrameType.PUSH_PROMISE}
    assert kinds - others - {FrameType.CONTINUATION} == Limits().control_frames.keys()


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_come_too_often_end_the_connection(name: str) -> None:
    wire = Wire(FEW)
    assert flood(wire, FLOODS[name], 100) in (19, 20), "the first SETTINGS count, too"


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_come_now_and_then_are_harmless(name: str) -> None:
    wire = Wire(FEW)
    for number in range(200):
        wire.now = number * 0.11
        assert refusal(wire.exchange(FLOODS[name](number))) is None


def test_client_that_pings_too_often_is_told_in_the_words_that_it_knows() -> None:
    """Of gRPC: its clients ask less often from then on."""
    wire = Wire()
    found = wire.exchange(PING * 2_000)
    assert found[-1].kind == FrameType.GOAWAY
    assert found[-1].content[8:] == b"too_many_pings"


def test_pings_and_windows_may_be_as_many_as_what_was_sent_calls_for() -> None:
    wire = Wire(FEW)
    wire.send(request_headers(1, flags=Flag.END_HEADERS | Flag.END_STREAM))
    [stream] = wire.recorder.streams
    for _ in range(100):
        stream.send(b"x" * 100, b"")
        assert (
            refusal(wire.exchange(window_update_frame(0, 100) + window_update_frame(1, 100) + PING)) is None
        )


def test_streams_that_are_opened_and_reset_at_once_end_the_connection() -> None:
    wire = Wire(FEW)

    def rapid(number: int) -> bytes:
        stream_id = 2 * number + 1
        reset = frame(FrameType.RST_STREAM, struct.pack(">I", ErrorCode.CANCEL), stream_id=stream_id)
        return request_headers(stream_id) + reset

    assert flood(wire, rapid, 100) == 20
    assert not wire.connection.streams


def test_streams_that_this_side_is_made_to_reset_count_as_well() -> None:
    wire = Wire(FEW)

    def provoked(number: int) -> bytes:
        stream_id = 2 * number + 1
        return request_headers(stream_id) + window_update_frame(stream_id, 0)

    assert flood(wire, provoked, 100) == 20


def test_headers_of_a_stream_that_this_side_has_reset_end_the_connection() -> None:
    wire = Wire(FEW)
    wire.send(request_headers(1))
    wire.recorder.streams[0].reset(ErrorCode.CANCEL)
    assert flood(wire, lambda _: request_headers(1), 100) == 20


def test_streams_that_are_opened_after_goaway_end_the_connection() -> None:
    wire = Wire(FEW)
    wire.connection.go_away()
    wire.answers()
    assert flood(wire, lambda number: request_headers(2 * number + 1), 100) == 20


def test_settings_that_no_one_has_so_many_of_end_the_connection() -> None:
    wire = Wire()
    assert refusal(wire.exchange(settings_frame([(0x1A1A, 0)] * 32))) is None
    assert refusal(wire.exchange(settings_frame([(0x1A1A, 0)] * 33))) is CALM


def test_window_of_very_many_streams_may_be_changed_less_often() -> None:
    def changes(streams: int) -> int:
        wire = Wire(FEW, streams_max=streams)
        wire.send(b"".join(request_headers(2 * number + 1) for number in range(streams)))
        wire.answers()
        return flood(wire, lambda number: settings_frame([(4, number)]), 100)

    assert (changes(499), changes(1_500), changes(9_999)) == (19, 4, 1)


def test_stock_client_with_all_the_calls_it_may_have_learns_how_fast_the_link_is() -> None:
    """A window that doubles, from the default up to the largest, and back."""
    wire = Wire(streams_max=2_000)
    wire.send(b"".join(request_headers(2 * number + 1) for number in range(2_000)))
    wire.answers()
    sizes = [1 << bits for bits in range(17, 24)]
    for size in (*sizes, *reversed(sizes)):
        assert refusal(wire.exchange(settings_frame([(4, size)]))) is None


def test_data_with_nothing_in_it_ends_the_connection() -> None:
    wire = Wire(FEW)
    wire.send(request_headers(1))
    assert flood(wire, lambda _: data(b"", 1), 100) == 20


def test_answers_that_nobody_reads_are_bounded() -> None:
    limits = Limits(unsent_control_bytes_max=1_000, control_frames={})
    wire = Wire(limits)
    wire.connection.set_writable(is_writable=False)
    for _ in range(1_000):
        wire.send(PING)
    assert wire.connection.fault is not None
    assert wire.connection.fault.code is CALM
    assert wire.connection.output_bytes < 2_000


def test_answers_are_bounded_within_one_read() -> None:
    limits = Limits(unsent_control_bytes_max=1_000, control_frames={})
    wire = Wire(limits)
    wire.send(PING * 1_000)
    assert wire.connection.fault is not None
    assert wire.connection.fault.code is CALM
    assert wire.connection.output_bytes < 2_000


def test_answers_that_the_socket_takes_are_as_many_as_are_asked_for() -> None:
    limits = Limits(unsent_control_bytes_max=1_000, control_frames={})
    wire = Wire(limits)
    answers: list[Frame] = []
    wire.connection.on_full = lambda: answers.extend(wire.answers())
    wire.send(PING * 1_000)
    assert wire.connection.fault is None
    assert len(answers + wire.answers()) == 1_000


@pytest.mark.parametrize(
    ("name", "value"), [(":path", "/no/such"), ("grpc-encoding", "gzip"), ("grpc-timeout", "soon")]
)
async def test_streams_that_are_refused_for_their_headers_count_as_resets(name: str, value: str) -> None:
    # By a real clock: a bucket that refills would grant more on a busy machine.
    server = FedServer(echo_with()[1], limits=Limits(resets=Rate(20, 0)))
    block = Encoder().encode([(*each, True) for each in {**dict(REQUEST), name: value}.items()])
    for number in range(100):
        await server.send(_headers(block, 2 * number + 1))
    assert refusal(server.frames) is CALM
    assert len(server.headers) == 20


def test_block_of_more_headers_than_any_call_has_ends_the_connection() -> None:
    """A call keeps them, and each takes ten times the memory that it takes on the wire."""
    wire = Wire()
    block = Encoder().encode([(*each, True) for each in REQUEST])
    [] = wire.exchange(_headers(block + b"\x0f\x06\x00" * 100, 1))
    [refused] = wire.exchange(_headers(block + b"\x0f\x06\x00" * 450, 3))
    assert (refused.kind, refused.code) == (FrameType.GOAWAY, CALM)


def stranger(stream_id: int, *, ends: bool = False) -> bytes:
    """A request that is no call."""
    flags = Flag.END_HEADERS | (Flag.END_STREAM if ends else 0)
    block = Encoder().encode([(*each, True) for each in {**dict(REQUEST), ":method": "GET"}.items()])
    return frame(FrameType.HEADERS, block, flags=flags, stream_id=stream_id)


@pytest.mark.parametrize("ends", [False, True], ids=["never end", "take no answer"])
async def test_requests_that_are_no_calls_are_bounded_over_all_connections(*, ends: bool) -> None:
    hello = PREFACE + settings_frame([(4, 0)])
    server = FedServer(echo_with()[1], hello=hello, limits=Limits(resets=Rate(20, 0)))
    await server.send(b"".join(stranger(2 * number + 1, ends=ends) for number in range(600)))
    other = server.another_link(hello)
    await server.send(b"".join(stranger(2 * number + 1, ends=ends) for number in range(400)), to=other)
    await server.send(stranger(1_201, ends=ends))
    assert [each.code for each in server.frames if each.kind == FrameType.RST_STREAM] == [
        ErrorCode.REFUSED_STREAM
    ]
    # Calls have places of their own; and who is refused again and again is sent away.
    await server.send(request_headers(1_203) + data(message_prefix(0), 1_203, ends=True))
    assert 1_203 in server.headers
    await server.send(b"".join(stranger(2 * number + 1) for number in range(602, 622)))
    assert refusal(server.frames) is CALM
    assert server.server.strangers.count == 400
    other.connection_lost(None)
    assert server.server.strangers.count == 0
    await server.close()


async def test_requests_that_are_no_calls_count_as_resets_once_they_were_cut() -> None:
    server = FedServer(echo_with()[1], limits=Limits(resets=Rate(20, 0)))
    await server.send(b"".join(stranger(2 * number + 1) for number in range(30)))
    for each in server.server._calls():
        each.refuse_late()
    await server.send()
    resets = [each for each in server.frames if each.kind == FrameType.RST_STREAM]
    assert {each.code for each in resets} == {ErrorCode.CANCEL}
    assert refusal(server.frames) is CALM
    assert server.server.strangers.count == 0
    await server.close()


async def test_request_that_is_no_call_is_answered_and_holds_no_place() -> None:
    server = FedServer(echo_with()[1], limits=Limits(resets=Rate(20, 0)))
    for number in range(1_100):
        await server.send(stranger(2 * number + 1, ends=True))
    assert len(server.headers) == 1_100
    assert server.headers[1][b":status"] == b"415"
    assert server.server.strangers.count == 0
    await server.close()


async def test_refusal_repeats_next_to_nothing_of_what_was_sent() -> None:
    server = FedServer(echo_with()[1])
    headers = [*((name.encode(), value.encode()) for name, value in REQUEST)]
    headers.append((b"grpc-encoding", b"\xff" * 3_700))
    await server.send(_headers(Encoder().encode(headers, huffman=False), 1))
    assert server.status(1) == StatusCode.UNIMPLEMENTED
    assert len(server.headers[1][b"grpc-message"]) < 300


def test_no_status_message_is_longer_than_anybody_reads() -> None:
    trailers = dict(status_trailers(Status(StatusCode.UNKNOWN, "€" * 50_000)))
    assert len(trailers[b"grpc-message"]) <= 3 * 1_000


# ---- too large


def test_header_block_that_does_not_end_is_not_collected() -> None:
    wire = Wire()
    assert refusal(wire.exchange(request_headers(1, flags=0))) is None
    assert flood(wire, lambda _: frame(FrameType.CONTINUATION, stream_id=1), 100) == 16


def test_header_block_that_grows_is_not_collected() -> None:
    wire = Wire()
    wire.send(request_headers(1, flags=0))
    piece = frame(FrameType.CONTINUATION, bytes(4_000), stream_id=1)
    assert flood(wire, lambda _: piece, 100) == 4


def test_headers_that_unpack_to_very_much_are_not_unpacked() -> None:
    """A few kilobytes that would become 4 MB: one entry of the table, told again and again."""
    wire = Wire()
    encoder = Encoder()
    headers = [*REQUEST, ("bomb", "x" * 3_900)]
    assert refusal(wire.exchange(_headers(encoder.encode(headers, huffman=False), 1))) is None
    bomb = encoder.encode([*REQUEST, *[("bomb", "x" * 3_900)] * 1_000], huffman=False)
    assert len(bomb) < 6_000
    assert refusal(wire.exchange(_headers(bomb, 3))) is CALM
    assert [event for event in wire.events if event[0] == "stream"] == [("stream", 1, REQUEST[2][1].encode())]


def _headers(block: bytes, stream_id: int) -> bytes:
    return frame(FrameType.HEADERS, block, flags=Flag.END_HEADERS, stream_id=stream_id)


def test_frame_that_announces_more_than_any_has_is_refused_before_it_comes() -> None:
    wire = Wire()
    announced = frame(FrameType.PING, bytes(500_000))[:9]
    assert refusal(wire.exchange(announced)) is CALM


def test_more_streams_than_allowed_are_refused_one_by_one() -> None:
    wire = Wire(streams_max=3)
    answers = wire.exchange(b"".join(request_headers(2 * number + 1) for number in range(5)))
    resets = [(each.stream_id, each.code) for each in answers if each.kind == FrameType.RST_STREAM]
    assert resets == [(7, ErrorCode.REFUSED_STREAM), (9, ErrorCode.REFUSED_STREAM)]
    assert refusal(answers) is None


def test_data_beyond_the_window_resets_its_stream() -> None:
    wire = Wire(window_bytes=1_000)
    answers = wire.exchange(request_headers(1) + data(bytes(1_001), 1))
    assert [each.code for each in answers if each.kind == FrameType.RST_STREAM] == [
        ErrorCode.FLOW_CONTROL_ERROR
    ]


def test_data_beyond_the_connections_window_ends_the_connection() -> None:
    wire = Wire(window_bytes=1 << 20, connection_window_bytes=70_000, frame_bytes_max=100_000)
    assert refusal(wire.exchange(request_headers(1) + data(bytes(70_001), 1))) is ErrorCode.FLOW_CONTROL_ERROR


def test_who_opens_a_window_byte_by_byte_earns_nothing_by_what_it_gets() -> None:
    hello = HELLO[:24] + settings_frame([(4, 1)])
    wire = Wire(FEW, hello=hello)
    wire.send(request_headers(1, flags=Flag.END_HEADERS | Flag.END_STREAM))
    [stream] = wire.recorder.streams
    stream.send(b"x" * 1_000, b"")
    assert [len(each.content) for each in wire.answers()] == [1]
    few = FEW.control_frames[FrameType.WINDOW_UPDATE].burst
    for opened in range(1, few + 1):
        [answer] = wire.exchange(window_update_frame(1, 1))
        assert (answer.kind, len(answer.content)) == (FrameType.DATA, 1)
        assert stream.waiting_bytes == 999 - opened
    [goaway] = wire.exchange(window_update_frame(1, 1))
    assert goaway.code is ErrorCode.ENHANCE_YOUR_CALM


# ---- on real connections


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\x00" * 1_000,
        HELLO[:24] + b"\xff" * 1_000,
        HELLO[:24] + frame(FrameType.PING, bytes(8)),
    ],
    ids=["http/1", "tls", "zeros", "no frame", "no settings"],
)
async def test_somebody_who_does_not_speak_http2_is_hung_up_on(garbage: bytes) -> None:
    async with served() as (_, channel, address), rude_client(address) as rude:
        await rude.send(garbage)
        assert await rude.last_words() in (ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR)
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


@pytest.mark.parametrize("said", [b"", HELLO[:10], HELLO[:24]], ids=["nothing", "half", "no settings"])
async def test_connection_that_never_says_what_it_is_is_closed(said: bytes) -> None:
    async with served(greeting_s_max=0.2) as (_, channel, address), rude_client(address) as rude:
        await rude.send(said)
        assert await rude.last_words() is ErrorCode.SETTINGS_TIMEOUT
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def test_peer_that_is_gone_without_a_word_is_found() -> None:
    dead_s: dict[str, Any] = {"keepalive_s": 0.1, "keepalive_timeout_s": 0.1}
    async with served(**dead_s) as (_, _, address), rude_client(address) as rude:
        await rude.send(HELLO)
        assert await rude.last_words() is None


async def test_peer_that_floods_is_hung_up_on_and_the_others_go_on() -> None:
    async with served() as (_, channel, address), rude_client(address) as rude:
        await rude.send(HELLO + PING * 3_000)
        assert await rude.last_words() is CALM
        await channel.call(ECHO, BytesValue(value=b"x"), timeout_s=AMPLE_S)


async def test_request_that_never_ends_is_refused_in_time_and_its_connection_lives() -> None:
    async with (
        served(arrival_s_max=0.2, requests_max=1) as (_, channel, address),
        rude_client(address) as rude,
    ):
        await rude.send(HELLO + request_headers(1) + data(message_prefix(1_000), 1))
        async with asyncio.timeout(AMPLE_S):
            received = b""
            while b"did not arrive within" not in received:
                received += await rude.reader.read(1 << 16)
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def test_requests_that_arrive_slowly_hold_no_more_than_they_may() -> None:
    """Each with most of a message, none of them ever whole."""
    options: dict[str, Any] = {"arriving_bytes_max": 4 << 20, "message_bytes_max": 64 << 10}
    async with served(**options) as (_, channel, address), rude_client(address) as rude:
        await rude.send(HELLO)
        part = message_prefix(60_000) + bytes(50_000)
        for number in range(200):
            await rude.send(request_headers(2 * number + 1) + data(part, 2 * number + 1))
        async with asyncio.timeout(AMPLE_S):
            received = b""
            while b"too many requests are arriving" not in received:
                received += await rude.reader.read(1 << 16)
        rude.writer.close()
        await channel.call(ECHO, BytesValue(value=b"x"), timeout_s=AMPLE_S)


async def test_answer_that_nobody_takes_is_given_up() -> None:
    """The client reads its socket, and opens no window."""
    async with served(taking_s_max=0.3, streams_max=1) as (_, channel, address), rude_client(address) as rude:
        asked = b"\x0a\x07" + b"1000000"
        request = request_headers(1, path=COUNT.path) + data(message_prefix(len(asked)) + asked, 1, ends=True)
        await rude.send(HELLO + request)
        async with asyncio.timeout(AMPLE_S):
            received = b""
            while struct.pack(">IBII", 4 << 8 | FrameType.RST_STREAM, 0, 1, ErrorCode.CANCEL) not in received:
                received += await rude.reader.read(1 << 16)
        assert len(received) < 200_000
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def test_client_that_does_not_read_its_socket_is_cut_off() -> None:
    async with served(taking_s_max=0.3) as (_, channel, address), rude_client(address) as rude:
        asked = b"\x0a\x07" + b"9000000"
        windows = window_update_frame(0, 1 << 30) + window_update_frame(1, 1 << 30)
        request = request_headers(1, path=COUNT.path) + data(message_prefix(len(asked)) + asked, 1, ends=True)
        await rude.send(HELLO + request + windows)
        # Not read until the server has given up, which shows in that it takes no more.
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ping_for_ever(rude), AMPLE_S)
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def ping_for_ever(rude: Rude) -> None:
    while True:
        await rude.send(PING)
        await asyncio.sleep(0.05)


async def test_connections_beyond_the_bound_are_closed() -> None:
    async with served(connections_max=2) as (_, channel, address):
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        async with rude_client(address) as first, rude_client(address) as second:
            await first.send(HELLO)
            await second.send(HELLO)
            assert await second.last_words() is CALM
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


def test_idle_connection_holds_little() -> None:
    """What Python's own objects of it take; the receive buffer is shared by all."""
    wire = Wire()
    held = sum(
        sys.getsizeof(each) for each in gc.get_referents(wire.connection) if not isinstance(each, type)
    )
    assert held < 5_000
