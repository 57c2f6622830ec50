"""Requests of an exchange in parts of any size, and in any number."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.errors import OffsetOutOfRange
from quorate.rpc.lean.frames import FrameType
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.status import StatusCode
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed
from tests.unit.rpc_lean.peers import data, request_headers
from tests.unit.seams.echo_service import CHAT, text

WINDOW = LeanOptions().window_bytes


class Heard:
    def __init__(self) -> None:
        self.values: list[str] = []
        #: heard within one turn of the loop
        self.at_once_max = 0
        self._at_once = 0
        self.is_over = False

    def on_request(self, request: StringValue) -> None:
        if not self._at_once:
            asyncio.get_running_loop().call_soon(self._turn_is_over)
        self._at_once += 1
        self.values.append(request.value)

    def _turn_is_over(self) -> None:
        self.at_once_max = max(self.at_once_max, self._at_once)
        self._at_once = 0

    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...
    def on_over(self) -> None:
        self.is_over = True


class Hearing(ExchangeHandler):
    def __init__(self) -> None:
        self.heard = Heard()

    def open(self, _exchange: ServedExchange, _call: Call) -> Heard:
        return self.heard


def granted(server: FedServer) -> int:
    """What the client may have sent on its stream by now."""
    updates = [each for each in server.frames if each.kind == FrameType.WINDOW_UPDATE and each.stream_id == 1]
    return WINDOW + sum(int.from_bytes(each.content, "big") for each in updates)


@pytest.mark.parametrize("first", [1, 3, 4, 5, 6, 100_000])
@pytest.mark.parametrize("size", [WINDOW // 2, WINDOW + 1, 3 * WINDOW])
async def test_request_larger_than_the_window_is_let_in_wherever_it_is_cut(first: int, size: int) -> None:
    handler = Hearing()
    server = FedServer(echo_with(Chat=handler)[1])
    await server.send(request_headers(1, path=CHAT.path))
    message = prefixed(text("x" * size))
    sent = 0
    while sent < len(message):
        part = min(first if sent == 0 else 400_000, len(message) - sent, granted(server) - sent)
        assert part > 0, f"stuck after {sent} of {len(message)} bytes"
        await server.send(data(message[sent : sent + part], 1))
        sent += part
    assert [len(value) for value in handler.heard.values] == [size]
    await server.close()


async def test_tiny_requests_of_one_read_are_spread_over_turns_of_the_loop() -> None:
    handler = Hearing()
    server = FedServer(echo_with(Chat=handler)[1])
    await server.send(request_headers(1, path=CHAT.path))
    values = [str(number) for number in range(2_000)]
    await server.send(*(data(prefixed(text(value)), 1) for value in values))
    assert handler.heard.values == values
    assert handler.heard.at_once_max <= 2 * 256
    await server.close()


async def test_stream_that_cannot_be_opened_leaves_its_place_to_others() -> None:
    class Refusing(ExchangeHandler):
        def open(self, _exchange: ServedExchange, _call: Call) -> Heard:
            raise OffsetOutOfRange("not now")

    server = FedServer(echo_with(Chat=Refusing())[1], streams_max=1)
    for stream_id in (1, 3, 5):
        await server.send(request_headers(stream_id, path=CHAT.path))
        assert server.status(stream_id) == StatusCode.OUT_OF_RANGE
    await server.close()


async def test_end_of_the_connection_is_heard() -> None:
    handler = Hearing()
    server = FedServer(echo_with(Chat=handler)[1])
    await server.send(request_headers(1, path=CHAT.path))
    await server.send(data(prefixed(text("a"))[:3], 1))
    await server.close()
    assert handler.heard.is_over


class Pausing(ExchangeHandler):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ends = 0

    def open(self, exchange: ServedExchange, _call: Call) -> Pausing:
        self.exchange = exchange
        return self

    def on_request(self, request: StringValue) -> None:
        self.heard.append(request.value)

    def on_requests_end(self) -> None:
        self.ends += 1

    def on_ready(self) -> None: ...
    def on_over(self) -> None: ...


async def test_turn_of_a_message_ends_once_all_of_it_is_here_though_its_handler_pauses() -> None:
    handler = Pausing()
    server = FedServer(echo_with(Chat=handler)[1], arriving_bytes_max=1 << 20, message_bytes_max=1 << 20)
    large = prefixed(text("x" * 300_000))
    await server.send(request_headers(1, path=CHAT.path), data(large[:60_000], 1))
    [call] = server.server._calls()
    assert call._has_turn  # type: ignore[union-attr]
    handler.exchange.pause()
    await server.send(data(large[60_000:-1], 1))
    assert call._has_turn  # type: ignore[union-attr]
    await server.send(data(large[-1:], 1))
    assert not call._has_turn  # type: ignore[union-attr]
    assert server.held_bytes == len(large)
    handler.exchange.resume()
    await server.send()
    assert [len(each) for each in handler.heard] == [300_000]
    await server.close()


async def test_end_of_requests_is_told_once() -> None:
    handler = Pausing()
    server = FedServer(echo_with(Chat=handler)[1])
    await server.send(request_headers(1, path=CHAT.path), data(b"", 1, ends=True))
    handler.exchange.pause()
    handler.exchange.resume()
    await server.send()
    assert handler.ends == 1
    await server.close()
