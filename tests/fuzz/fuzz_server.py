"""Coverage-guided search for bytes that bring a server of the lean transport off its course.

    python -m tests.fuzz.fuzz_server -max_total_time=60        a minute; more in fuzz_transport

All of a server but its socket: calls of every kind, with handlers that answer, wait, fail, and ask for more.
An input is steps: how many bytes come, and the bytes; after each, the loop turns until nothing moves.
Whatever came: nothing is raised into the loop, the invariants hold, what requests hold is bounded, and who
has gone leaves neither bytes nor tasks behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from typing import Any, Final

import atheris  # type: ignore[import-untyped]
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from hpack import Encoder

# Compiled code shows nothing of its branches to a search.
os.environ.setdefault("QUORATE_CODEC", "pure")

with atheris.instrument_imports(include=["quorate.rpc.lean", "hpack"]):
    from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.rpc.lean.frames import (
    ErrorCode,
    Flag,
    FrameType,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.limits import Limits, Rate
from tests.fuzz.searching import search
from tests.unit.rpc_lean.peers import REQUEST, data, frame
from tests.unit.seams.echo_service import CHAT, COUNT, ECHO, FAIL, WAIT, text

MANY: Final = Rate(50, 1)
OPTIONS: Final[dict[str, Any]] = {
    "message_bytes_max": 2_000,
    "arriving_bytes_max": 4_000,
    "requests_max": 3,
    "streams_max": 3,
    "connection_calls_max": 8,
    "limits": Limits(resets=MANY, unwanted_headers=MANY),
}

_loop: Final = asyncio.new_event_loop()


class Exchanges(ExchangeHandler):
    def open(self, exchange: ServedExchange, _call: Call) -> Exchanging:
        return Exchanging(exchange)


class Exchanging:
    """Answers each request by itself, and ends when the client does."""

    def __init__(self, exchange: ServedExchange) -> None:
        self._exchange = exchange
        self._kept: list[Any] = []

    def on_request(self, request: StringValue) -> None:
        self._kept.append(request)
        self.on_ready()

    def on_ready(self) -> None:
        while self._kept and self._exchange.is_ready:
            self._exchange.send(self._kept.pop())

    def on_requests_end(self) -> None: ...
    def on_over(self) -> None: ...


def raise_it(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    raised.append(context)


raised: Final[list[dict[str, Any]]] = []


async def serve(content: bytes) -> None:
    # The first byte: whether a stream is an exchange, and how large the client's windows are.
    chat = {"Chat": Exchanges()} if content[0] & 1 else {}
    server = FedServer(echo_with(**chat)[1], **OPTIONS)
    if content[0] & 2:
        await server.send(settings_frame([(4, 10)]))
    at = 1
    while at < len(content):
        part = content[at + 1 : at + 1 + content[at]]
        at += 1 + content[at]
        await server.send(part)
        server.link.connection.validate()
        assert len(server.link.connection.streams) <= OPTIONS["connection_calls_max"]
        assert server.held_bytes <= OPTIONS["arriving_bytes_max"] + server.server.options.unread_bytes_max
    await server.close()
    assert not server.server.surroundings.ending, server.server.surroundings.ending
    assert not raised, raised


def test_one_input(content: bytes) -> None:
    if content:
        _loop.run_until_complete(serve(content))


def step(content: bytes) -> bytes:
    assert len(content) < 256
    return bytes([len(content)]) + content


def headers(path: str, stream_id: int) -> bytes:
    """What every client sends, and a deadline that is far off."""
    found = [*REQUEST[:2], (":path", path), *REQUEST[3:], ("grpc-timeout", "9S")]
    block = Encoder().encode([(*each, True) for each in found])
    return frame(FrameType.HEADERS, block, flags=Flag.END_HEADERS, stream_id=stream_id)


def seeds() -> Iterator[bytes]:
    asked, said = prefixed(BytesValue(value=b"hello")), prefixed(text("hello"))
    for mode in (0, 1, 2, 3):
        yield (
            bytes([mode])
            + step(headers(ECHO.path, 1) + data(asked, 1, ends=True))
            + step(headers(CHAT.path, 3) + data(said + said, 3))
            + step(data(said[:3], 3))
            + step(data(said[3:], 3, ends=True) + window_update_frame(3, 1_000))
            + step(headers(FAIL.path, 5) + data(prefixed(text("OFFSET_OUT_OF_RANGE")), 5, ends=True))
            + step(headers(COUNT.path, 7) + data(prefixed(text("30")), 7, ends=True))
            + step(headers(WAIT.path, 9) + data(said, 9, ends=True))
            + step(reset_frame(9, ErrorCode.CANCEL))
        )
    yield b"\x01" + b"".join(
        step(headers(CHAT.path, number) + data(said * 3, number)) for number in range(1, 15, 2)
    )
    yield b"\x00" + b"".join(
        step(headers(ECHO.path, number) + data(asked[:7], number)) for number in range(1, 15, 2)
    )
    yield b"\x00" + step(headers("/grpc.health.v1.Health/Watch", 1) + data(bytes(5), 1, ends=True))
    yield b"\x00" + step(headers("/no/such", 1)) + step(headers(ECHO.path, 3) + data(b"\x01" + asked[1:], 3))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    _loop.set_exception_handler(raise_it)
    search("server", test_one_input, seeds())
