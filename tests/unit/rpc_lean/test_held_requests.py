"""What requests hold before a handler takes them is bounded, however they are cut to pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.served_exchange import ExchangeHandler, RequestListener, ServedExchange
from quorate.core.transport import Call
from quorate.rpc.dispatch import parse_request
from quorate.rpc.lean import unary_call
from quorate.rpc.lean.frames import PREFACE, Flag, FrameType, settings_frame, window_update_frame
from quorate.rpc.lean.held import Held
from quorate.rpc.lean.status import StatusCode
from quorate.rpc.lean.unary_call import UnaryCall
from quorate.rpc.lean.wire import message_prefix
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed
from tests.unit.rpc_lean.peers import data, frame, request_headers
from tests.unit.seams.echo_service import CHAT, ECHO, ENDLESS, NODE_ECHO, NODE_ENDLESS, EchoServer, text

MIB = 1 << 20
#: of every call, with the least that may be arriving
WINDOW = 64 << 10
#: a client that takes answers of any size
EAGER = PREFACE + settings_frame([(4, 16 * MIB)]) + window_update_frame(0, 16 * MIB)
OVERLOADED = StatusCode.RESOURCE_EXHAUSTED


def statuses(server: FedServer, count: int) -> list[int | None]:
    return [server.status(2 * number + 1) for number in range(count)]


async def fill(server: FedServer, count: int, content: bytes, *, path: str | None = None) -> None:
    """So many calls, each with this and no end."""
    await fill_more(server, range(1, 2 * count, 2), content, path=path)


async def fill_more(server: FedServer, stream_ids: range, content: bytes, *, path: str | None = None) -> None:
    for stream_id in stream_ids:
        await server.send(request_headers(stream_id, path=path), data(content, stream_id))


async def test_whole_request_without_an_end_counts_as_arriving() -> None:
    echo, service = echo_with()
    server = FedServer(service, arriving_bytes_max=MIB)
    await fill(server, 40, prefixed(BytesValue(value=bytes(60_000))))
    assert 0 < server.held_bytes <= MIB
    assert set(statuses(server, 40)) == {None, OVERLOADED}
    # One that comes whole is with its handler at once, and needs no room.
    await server.send(request_headers(99), data(prefixed(BytesValue(value=b"x")), 99, ends=True))
    assert echo.echoed == [b"x"]
    await server.close()


async def test_whole_request_without_an_end_is_kept_as_it_was_sent(monkeypatch: Any) -> None:
    """As objects, one of many empty messages is forty times as much."""
    parsed: list[int] = []

    def counting(method: Any, content: bytes) -> Any:
        parsed.append(len(content))
        return parse_request(method, content)

    monkeypatch.setattr(unary_call, "parse_request", counting)
    echo, service = echo_with()
    server = FedServer(service, arriving_bytes_max=MIB)
    of_nothing = prefixed(BytesValue())
    broken = message_prefix(2) + b"\xff\xff"
    await fill(server, 2, of_nothing)
    await fill_more(server, range(5, 7, 2), broken)
    assert not parsed, "not before its end"
    for stream_id in (1, 3, 5):
        await server.send(data(b"", stream_id, ends=True))
    assert echo.echoed == [b"", b""]
    assert server.status(5) == StatusCode.INVALID_ARGUMENT
    await server.close()


async def test_bound_that_is_kept_full_is_not_looked_at_for_every_call(monkeypatch: Any) -> None:
    looks: list[int] = []
    look = Held.look

    def counted(held: Held) -> None:
        looks.append(held.bytes)
        look(held)

    monkeypatch.setattr(Held, "look", counted)
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB)
    await fill(server, 400, message_prefix(60_000) + bytes(5_000))
    # What one look leaves free has room for some twenty-five of them.
    assert len(looks) <= 400 // 20
    assert server.held_bytes <= MIB
    await server.close()


async def test_request_that_waits_for_its_turn_counts_as_arriving() -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB)
    await fill(server, 40, message_prefix(2 * MIB) + bytes(60_000))
    turns = server.server.options.reading_turns
    assert 0 < server.held_bytes <= MIB
    assert statuses(server, turns) == [None] * turns
    assert set(statuses(server, 40)) == {None, OVERLOADED}
    await server.close()


async def test_small_request_in_pieces_gets_through_between_those_that_never_end() -> None:
    echo, service = echo_with()
    server = FedServer(service, arriving_bytes_max=MIB)
    await fill(server, 40, message_prefix(2 * MIB) + bytes(60_000))
    small = prefixed(BytesValue(value=bytes(50_000)))
    await server.send(request_headers(99), data(small[:30_000], 99))
    await fill_more(server, range(101, 141, 2), message_prefix(2 * MIB) + bytes(60_000))
    await server.send(data(small[30_000:], 99, ends=True))
    assert echo.echoed == [bytes(50_000)]
    assert server.held_bytes <= MIB
    await server.close()


async def test_nodes_hold_a_share_of_their_own_and_no_more() -> None:
    server = FedServer(
        echo_with()[1],
        EchoServer().node_service,
        arriving_bytes_max=MIB,
        internal_arriving_bytes_max=2 * MIB,
    )
    half = message_prefix(2 * MIB) + bytes(60_000)
    await fill(server, 20, half, path=NODE_ECHO.path)
    assert statuses(server, 20) == [None] * 20
    # Clients cannot take it from them, however much they send.
    await fill_more(server, range(41, 141, 2), half)
    assert statuses(server, 20) == [None] * 20
    assert server.held_bytes <= 3 * MIB
    await fill_more(server, range(141, 241, 2), half, path=NODE_ECHO.path)
    assert MIB < server.held_bytes <= 3 * MIB
    # A small one gets through between those that never end, and its answer back.
    small = prefixed(BytesValue(value=bytes(50_000)))
    await server.send(request_headers(999, path=NODE_ECHO.path), data(small[:30_000], 999))
    await server.send(data(small[30_000:], 999, ends=True))
    assert server.status(999) == StatusCode.OK
    await server.close()


async def test_streams_of_nodes_count_as_well() -> None:
    server = FedServer(EchoServer().node_service, internal_arriving_bytes_max=2 * MIB)
    await fill(server, 100, prefixed(text("x" * 60_000)), path=NODE_ENDLESS.path)
    assert MIB < server.held_bytes <= 2 * MIB
    assert set(statuses(server, 100)) == {None, OVERLOADED}
    await server.close()


async def test_many_large_requests_of_one_connection_pay_before_a_large_one_of_another() -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB)
    other = server.another_link()
    await server.send(request_headers(1), data(message_prefix(2 * MIB) + bytes(64_000), 1), to=other)
    await fill(server, 40, message_prefix(2 * MIB) + bytes(60_000))
    assert OVERLOADED in statuses(server, 40)
    assert other.connection.streams
    await server.close()


async def test_large_messages_of_streams_take_turns() -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB)
    turns = server.server.options.reading_turns
    await fill(server, turns + 2, message_prefix(2 * MIB), path=CHAT.path)
    windows = [server.link.connection.streams[2 * number + 1].receive_window for number in range(turns + 2)]
    assert [window > MIB for window in windows] == [True] * turns + [False] * 2
    await server.close()


async def test_turn_of_a_stream_ends_with_its_message() -> None:
    server = FedServer(echo_with()[1], hello=EAGER, arriving_bytes_max=MIB)
    turns = server.server.options.reading_turns
    message = prefixed(text("x" * 2 * WINDOW))
    for number in range(turns + 2):
        stream_id = 2 * number + 1
        await server.send(request_headers(stream_id, path=CHAT.path), data(message[:5], stream_id))
        await server.send(data(message[5:], stream_id))
        await server.send(data(prefixed(text("y")), stream_id, ends=True))
        assert server.status(stream_id) == StatusCode.OK
    await server.close()


@pytest.mark.parametrize("first", [4, 10, 500_000])
async def test_request_that_fits_into_its_window_needs_no_turn_wherever_its_frame_is_cut(first: int) -> None:
    echo, service = echo_with()
    server = FedServer(service)
    window = server.server.options.window_bytes
    sent = data(prefixed(BytesValue(value=bytes(window - 100))), 1, ends=True)
    await server.send(request_headers(1), sent[: first + 9])
    [call] = server.server._calls()
    assert isinstance(call, UnaryCall)
    assert call._reading is None
    await server.send(sent[first + 9 :])
    assert [len(each) for each in echo.echoed] == [window - 100]
    assert not [each for each in server.frames if each.kind == FrameType.WINDOW_UPDATE and each.stream_id]
    await server.close()


@pytest.mark.parametrize("path", [ECHO.path, CHAT.path])
@pytest.mark.parametrize("cut", [10, 3 * WINDOW // 4])
async def test_window_of_a_large_request_is_opened_by_what_is_missing(path: str, cut: int) -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB)
    message = prefixed(BytesValue(value=bytes(3 * WINDOW)))
    first = data(message[:WINDOW], 1)
    await server.send(request_headers(1, path=path), first[: cut + 9])
    await server.send(first[cut + 9 :])
    stream = server.link.connection.streams[1]
    assert stream.receive_window == len(message) - WINDOW
    await server.send(data(message[WINDOW:], 1, ends=True))
    assert 1 in server.headers
    await server.close()


class EchoExchange(ExchangeHandler):
    """Whose requests are told one by one."""

    def open(self, exchange: ServedExchange, _call: Call) -> RequestListener:
        return Echoing(exchange)


class Echoing:
    def __init__(self, exchange: ServedExchange) -> None:
        self._exchange = exchange

    def on_request(self, request: StringValue) -> None:
        self._exchange.send(request)

    def on_requests_end(self) -> None:
        self._exchange.end()

    def on_ready(self) -> None: ...
    def on_over(self) -> None: ...


@pytest.mark.parametrize("kind", ["unary", "generator", "exchange"])
@pytest.mark.parametrize("size", [WINDOW - 10, 3 * WINDOW], ids=["a window", "a turn"])
@pytest.mark.parametrize("step", [1_000, 30_000])
async def test_padding_keeps_no_message_from_its_window(kind: str, size: int, step: int) -> None:
    """Beside its content, and in frames of nothing else."""
    handlers: dict[str, Any] = {"Chat": EchoExchange()} if kind == "exchange" else {}
    server = FedServer(echo_with(**handlers)[1], hello=EAGER, arriving_bytes_max=MIB)
    message = prefixed(BytesValue(value=b"x" * size))
    await server.send(request_headers(1, path=ECHO.path if kind == "unary" else CHAT.path))
    at = 0
    while at < len(message):
        room = server.link.connection.streams[1].receive_window
        assert room, f"stuck after {at} of {len(message)} bytes"
        padding = min(200, room - 1)
        nothing = frame(FrameType.DATA, bytes([padding]) + bytes(padding), flags=Flag.PADDED, stream_id=1)
        part = message[at : at + max(1, min(step, room - padding - 1))]
        at += len(part)
        flags = Flag.END_STREAM if at == len(message) else 0
        if len(part) + padding < room:
            part = bytes([padding]) + part + bytes(padding)
            flags |= Flag.PADDED
        await server.send(nothing, frame(FrameType.DATA, part, flags=flags, stream_id=1))
    assert server.status(1) == StatusCode.OK
    await server.close()


async def test_second_request_of_a_unary_call_is_refused_when_it_begins() -> None:
    server = FedServer(echo_with()[1])
    await server.send(request_headers(1), data(prefixed(BytesValue()) + message_prefix(50 * MIB), 1))
    assert server.status(1) == StatusCode.INVALID_ARGUMENT
    await server.close()


async def test_message_that_a_handler_waits_for_has_to_arrive_in_time() -> None:
    server = FedServer(echo_with()[1])
    await server.send(request_headers(1, path=CHAT.path), data(prefixed(text("x")) + b"\0", 1))
    [call] = server.server._calls()
    begun = call.arriving_since
    assert begun is not None
    await server.send(data(message_prefix(100)[1:] + b"half", 1))
    assert call.arriving_since is not None
    call.refuse_late()
    await server.send()
    assert server.status(1) == StatusCode.DEADLINE_EXCEEDED
    await server.close()


async def test_stream_between_two_messages_is_never_late() -> None:
    server = FedServer(echo_with()[1])
    await server.send(request_headers(1, path=CHAT.path), data(prefixed(text("x")), 1))
    assert [call.arriving_since for call in server.server._calls()] == [None]
    await server.close()


async def test_requests_that_nobody_asks_for_stay_as_they_were_sent() -> None:
    """Taken apart, each of these would be a hundred times as large."""
    server = FedServer(echo_with()[1])
    await server.send(request_headers(1, path=ENDLESS.path), data(prefixed(StringValue()) * 10_000, 1))
    assert server.held_bytes == 5 * 10_000
    await server.close()


async def test_unread_requests_of_streams_are_bounded_together() -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB, streams_max=1_000)
    limit = server.server.options.unread_bytes_max
    count = limit // 60_000 + 20
    await fill(server, count, prefixed(text("x" * 60_000)), path=ENDLESS.path)
    assert limit * 7 / 8 - WINDOW < server.held_bytes <= limit
    assert statuses(server, count)[0] == OVERLOADED
    assert statuses(server, count)[-1] is None
    await server.close()


async def test_stream_whose_handler_waits_gets_its_message_while_others_hold_all_there_is() -> None:
    server = FedServer(echo_with()[1], arriving_bytes_max=MIB, streams_max=1_000)
    limit = server.server.options.unread_bytes_max
    count = limit // 60_000
    await fill(server, count, prefixed(text("x" * 60_000)), path=ENDLESS.path)
    message = prefixed(text("y" * 60_000))
    await server.send(request_headers(9_999, path=CHAT.path), data(message, 9_999, ends=True))
    assert server.status(9_999) == StatusCode.OK
    await server.close()


async def test_slow_handler_gets_every_request_in_order_through_a_small_window() -> None:
    heard: list[str] = []
    taken = asyncio.Event()

    async def chat(requests: AsyncIterator[StringValue], _call: Call) -> AsyncGenerator[StringValue, None]:
        async for request in requests:
            heard.append(request.value)
            await taken.wait()
        yield text("bye")

    server = FedServer(echo_with(Chat=chat)[1], arriving_bytes_max=MIB)
    sizes = [0, 1, WINDOW // 2, WINDOW - 20, 3 * WINDOW, 10, WINDOW, 2]
    wanted = [str(number) * size for number, size in enumerate(sizes)]
    content = b"".join(prefixed(text(each)) for each in wanted)
    await server.send(request_headers(1, path=CHAT.path))
    stream = server.link.connection.streams[1]
    at = 0
    while at < len(content):
        room = stream.receive_window
        if room == 0:
            assert not taken.is_set(), "a handler that waits always gets its message"
            taken.set()
        part = content[at : at + min(room, 10_000)]
        at += len(part)
        await server.send(data(part, 1, ends=at == len(content)) if part else b"")
        server.link.connection.validate()
    taken.set()
    await server.send()
    assert heard == wanted
    assert server.status(1) == StatusCode.OK
    await server.close()
