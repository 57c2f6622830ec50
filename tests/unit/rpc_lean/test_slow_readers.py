"""Clients that read slowly or not at all, in clear text and encrypted, on both loops: real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import uvloop
from google.protobuf.wrappers_pb2 import StringValue

from quorate.core.transport import Call
from quorate.rpc.lean.frames import PREFACE, FrameType, settings_frame, window_update_frame
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from quorate.rpc.lean.transport import LeanTransport
from tests.unit.rpc_lean.fed_server import echo_with, prefixed
from tests.unit.rpc_lean.peers import data, frames_in, request_headers
from tests.unit.seams.echo_service import FAIL, text
from tools.certificate import Tls

AMPLE_S: Final = 30.0
MIB: Final = 1 << 20
#: more than the system takes for a socket that nobody reads
ANSWER: Final = 12 * MIB
#: a client that takes answers of any size, and asks for one
ASKS: Final = (
    PREFACE
    + settings_frame([(4, 64 * MIB), (5, MIB)])
    + window_update_frame(0, 64 * MIB)
    + request_headers(1, path=FAIL.path)
    + data(prefixed(text("a")), 1, ends=True)
)
#: of one that reads slowly
BYTES_PER_S: Final = 20 * MIB
#: of a frame
HEADER: Final = 9
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


async def large(_request: StringValue, _call: Call) -> StringValue:
    return text("x" * ANSWER)


@pytest.fixture(params=["clear", "encrypted"])
def tls(request: pytest.FixtureRequest) -> Tls | None:
    return None if request.param == "clear" else request.getfixturevalue("certificate")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    def run_on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(2 * AMPLE_S):
                await scenario()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(in_time())

    return run_on_loop


@asynccontextmanager
async def serving(tls: Tls | None, **options: Any) -> AsyncIterator[LeanServer]:
    # Its clients answer no pings.
    transport = LeanTransport(
        LeanOptions(server_tls=tls.of_server() if tls else None, keepalive_s=10 * AMPLE_S, **options)
    )
    server = await transport.serve("127.0.0.1:0", [echo_with(Fail=large)[1]])
    assert isinstance(server, LeanServer)
    try:
        yield server
    finally:
        await server.stop(0)


def asking(server: LeanServer, tls: Tls | None) -> socket.socket:
    """A client whose machine takes little unless it is read."""
    host, _, port = server.address.rpartition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.settimeout(AMPLE_S)
    client.connect((host, int(port)))
    if tls is not None:
        context = tls.of_client()
        context.set_alpn_protocols(["h2"])
        client = context.wrap_socket(client, server_hostname="localhost")
    client.sendall(ASKS)
    return client


async def until_stuck(server: LeanServer) -> None:
    """The system takes no more for its client."""
    while not any(link.is_paused for link in server.links):  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)


@asynccontextmanager
async def stuck(tls: Tls | None, **options: Any) -> AsyncIterator[tuple[LeanServer, socket.socket]]:
    """A server with an answer of which its only client has taken a part."""
    async with serving(tls, **options) as server:
        client = await asyncio.to_thread(asking, server, tls)
        with client:
            await until_stuck(server)
            yield server, client


def keep_open(client: socket.socket) -> None:
    """Alive, and not reading, until the other side has enough of it."""
    try:
        while True:
            client.sendall(window_update_frame(0, 1))
            time.sleep(0.05)
    except OSError:
        return


def take_more(client: socket.socket) -> None:
    """More at once than before: it is not the system's patience that is tested."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)


def read_all(client: socket.socket) -> tuple[int, bool]:
    """Slowly, and busy opening windows: the bytes of the answer, and whether it has ended."""
    received = bytearray()
    take_more(client)
    while part := client.recv(256 << 10):
        received += part
        client.sendall(window_update_frame(0, 1_000))
        time.sleep(len(part) / BYTES_PER_S)
    found = frames_in(bytes(received))
    size = sum(len(each.content) for each in found if each.kind == FrameType.DATA)
    return size, any(each.kind == FrameType.HEADERS and each.flags & 1 for each in found)


def test_who_takes_nothing_is_counted_and_then_cut(
    tls: Tls | None, run: Callable[[Callable[[], Awaitable[None]]], None]
) -> None:
    async def scenario() -> None:
        async with stuck(tls, taking_s_max=0.4) as (server, client):
            [link] = server.links
            assert 0 < link.untaken_bytes() <= 2 * MIB
            await asyncio.to_thread(keep_open, client)
            assert not server.links
            assert not server._untaken.bytes

    run(scenario)


def test_server_stops_though_a_client_takes_nothing(
    tls: Tls | None, run: Callable[[Callable[[], Awaitable[None]]], None]
) -> None:
    async def scenario() -> None:
        async with stuck(tls) as (server, _):
            async with asyncio.timeout(AMPLE_S):
                await server.stop(0)
            assert not server.links
            assert not server._untaken.bytes

    run(scenario)


def test_who_reads_slowly_gets_all_of_its_answer_though_the_server_stops(
    tls: Tls | None, run: Callable[[Callable[[], Awaitable[None]]], None]
) -> None:
    async def scenario() -> None:
        async with stuck(tls) as (server, client):
            stopping = asyncio.ensure_future(server.stop(AMPLE_S))
            await asyncio.sleep(0)
            size, has_ended = await asyncio.to_thread(read_all, client)
            assert (size, has_ended) == (len(prefixed(text("x" * ANSWER))), True)
            client.close()
            await stopping

    run(scenario)


def test_answers_that_have_no_room_together_reach_all_who_read(
    tls: Tls | None, run: Callable[[Callable[[], Awaitable[None]]], None]
) -> None:
    """Far more than may lie here."""

    async def scenario() -> None:
        async with serving(tls, untaken_bytes_max=3 * ANSWER) as server:
            clients = [await asyncio.to_thread(asking, server, tls) for _ in range(8)]
            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(len(clients)) as threads:
                reading = (loop.run_in_executor(threads, read_until_ended, each) for each in clients)
                assert await asyncio.gather(*reading) == [len(prefixed(text("x" * ANSWER)))] * len(clients)
            for each in clients:
                each.close()

    run(scenario)


def read_until_ended(client: socket.socket) -> int:
    """Slowly; the bytes of the answer."""
    received = bytearray()
    size = 0
    take_more(client)
    while part := client.recv(256 << 10):
        received += part
        while len(received) >= HEADER and len(received) >= (end := HEADER + int.from_bytes(received[:3])):
            [each] = frames_in(bytes(received[:end]))
            del received[:end]
            assert each.kind != FrameType.RST_STREAM, f"cut after {size} bytes"
            size += len(each.content) if each.kind == FrameType.DATA else 0
            if each.kind == FrameType.HEADERS and each.flags & 1:
                return size
        time.sleep(len(part) / BYTES_PER_S)
    raise EOFError(f"hung up on after {size} bytes of the answer")
