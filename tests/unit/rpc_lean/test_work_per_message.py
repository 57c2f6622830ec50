"""What a message costs the lean transport: calls, counted over a connection without a socket.

Of the Python that it is: compiled code makes no calls that can be counted (``test_compiled`` runs this
without). A regression here is a decision: where a message is worth more work, say why and raise its bound.
Where it needs less, lower it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call, Handler
from quorate.rpc.lean.frames import Flag, FrameType, SettingCode, settings_frame, window_update_frame
from quorate.rpc.lean.grpc_headers import request_headers
from quorate.rpc.lean.header_codec import HeaderEncoder
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from quorate.rpc.lean.wire import message_prefix
from tests.counted_work import counted_calls
from tests.unit.rpc_lean.compiled_modules import IS_COMPILED
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.peers import HELLO, data, frame
from tests.unit.seams.echo_service import CHAT, ECHO, EchoServer

pytestmark = pytest.mark.skipif(IS_COMPILED, reason="test_compiled counts without the compiled modules")

MESSAGES = 200
WINDOW = (1 << 31) - 1
#: of the loop, until an answer is there
TURNS_MAX = 20
#: calls of a server for one message, alone in its turn of the loop, and for its answer
STREAM_BOUND = 68
EXCHANGE_BOUND = 58
UNARY_BOUND = 142


class Socket(FakeSocket):
    """Counts what is written."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, piece: bytes) -> None:
        self.written += len(piece)

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += sum(map(len, pieces))


class Client:
    """What it sends arrives at a server at once; every message is answered before the next."""

    def __init__(self, chat: Handler | None = None) -> None:
        service = EchoServer().service
        if chat is not None:
            service.handlers = {**service.handlers, CHAT: chat}
        self.server = LeanServer("127.0.0.1:0", [service], LeanOptions())
        self.link: Link = self.server._make_link()
        self.socket = Socket()
        self._encoder = HeaderEncoder()
        self.link.connection_made(self.socket)
        self.send(HELLO)
        # It takes all that comes.
        self.send(
            settings_frame([(SettingCode.INITIAL_WINDOW_SIZE, WINDOW)]) + window_update_frame(0, WINDOW >> 1)
        )
        self.link.flush()

    def send(self, content: bytes) -> None:
        self.link.get_buffer(-1)[: len(content)] = content
        self.link.buffer_updated(len(content))

    async def ask(self, content: bytes) -> None:
        before = self.socket.written
        self.send(content)
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if self.socket.written != before:
                return
        raise AssertionError("there is no answer")

    def headers(self, path: str, stream_id: int, timeout_s: float | None) -> bytes:
        block = self._encoder.encode(request_headers(path, "localhost", b"http", timeout_s, ()))
        return frame(FrameType.HEADERS, block, flags=Flag.END_HEADERS, stream_id=stream_id)

    async def close(self) -> None:
        self.link.connection_lost(None)
        await asyncio.wait(self.server.surroundings.ending or [asyncio.create_task(asyncio.sleep(0))])


def prefixed(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return message_prefix(len(content)) + content


async def calls_for_each_message(client: Client) -> int:
    message = prefixed(StringValue(value="x" * 1_000))
    await client.ask(client.headers(CHAT.path, 1, None) + data(message, 1))
    with counted_calls() as calls:
        for _ in range(MESSAGES):
            await client.ask(data(message, 1))
    await client.close()
    return round(calls["rpc"] / MESSAGES)


async def test_message_of_a_stream_costs_no_more_calls_than_it_did() -> None:
    assert await calls_for_each_message(Client()) <= STREAM_BOUND


class Echo(ExchangeHandler):
    def open(self, exchange: ServedExchange, _call: Call) -> Echoing:
        return Echoing(exchange)


class Echoing:
    def __init__(self, exchange: ServedExchange) -> None:
        self._exchange = exchange

    def on_request(self, request: StringValue) -> None:
        assert self._exchange.is_ready
        self._exchange.send(request)

    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...
    def on_over(self) -> None: ...


async def test_message_of_an_exchange_costs_no_more_calls_than_it_did() -> None:
    assert await calls_for_each_message(Client(Echo())) <= EXCHANGE_BOUND


async def test_unary_call_costs_no_more_calls_than_it_did() -> None:
    client = Client()
    message = prefixed(StringValue(value="x" * 1_000))

    async def ask(number: int) -> None:
        stream_id = 2 * number + 1
        await client.ask(client.headers(ECHO.path, stream_id, 30.0) + data(message, stream_id, ends=True))

    for number in range(3):
        await ask(number)
    with counted_calls() as calls:
        for number in range(3, 3 + MESSAGES):
            await ask(number)
    await client.close()
    assert round(calls["rpc"] / MESSAGES) <= UNARY_BOUND, calls
