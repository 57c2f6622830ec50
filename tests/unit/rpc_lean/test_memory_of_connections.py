"""What a server's connections hold, in bytes that Python has handed out: a thousand of them, without sockets.

Machines and their load do not change it, so that a bound on it turns red for the change that adds something
to every connection. Sockets and their buffers are the kernel's and not counted, nor is what asyncio keeps for
each. What a run has found is shown with ``-rP``.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.rpc.lean.link import Link
from quorate.rpc.lean.wire import message_prefix
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, feed, prefixed
from tests.unit.rpc_lean.peers import HELLO, data, request_headers
from tests.unit.seams.echo_service import ENDLESS, WAIT, text

CONNECTIONS: Final = 1_000
#: of these each makes more calls than a connection remembers
CALLED_CONNECTIONS: Final = 100
CALLS: Final = 70
#: of each connection, a quarter above what was found
FRESH_BYTES_MAX: Final = 9_000
CALLED_BYTES_MAX: Final = 22_000
#: beside that
HALF_ARRIVED_BYTES_MAX: Final = 4_800
WAITING_BYTES_MAX: Final = 7_200
STREAMING_BYTES_MAX: Final = 10_000


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


async def connected(server: FedServer, count: int) -> list[Link]:
    links = [server.server._make_link() for _ in range(count)]
    for link in links:
        link.connection_made(FakeSocket())
        feed(link, HELLO)
    await turns()
    return links


async def send(links: list[Link], content: bytes) -> None:
    for link in links:
        feed(link, content)
    await turns()


@pytest.fixture
async def server() -> FedServer:
    server = FedServer(echo_with()[1])
    # What is made once, and not for each connection.
    await send(await connected(server, 2), call(1))
    return server


def call(stream_id: int) -> bytes:
    return request_headers(stream_id) + data(prefixed(BytesValue(value=b"x")), stream_id, ends=True)


async def test_idle_connections_hold_little(server: FedServer) -> None:
    with traced():
        before = held_bytes()
        await connected(server, CONNECTIONS)
        fresh = (held_bytes() - before) / CONNECTIONS
    show("fresh", fresh)
    assert fresh <= FRESH_BYTES_MAX
    await server.close()


async def test_connections_that_idle_after_calls_hold_little(server: FedServer) -> None:
    with traced():
        before = held_bytes()
        links = await connected(server, CALLED_CONNECTIONS)
        for number in range(CALLS):
            await send(links, call(2 * number + 1))
        called = (held_bytes() - before) / CALLED_CONNECTIONS
    assert not any(link.connection.streams for link in links)
    show(f"after {CALLS} calls", called)
    assert called <= CALLED_BYTES_MAX
    await server.close()


ACTIVE = {
    "half of a small request": (
        request_headers(1) + data(message_prefix(2_000) + bytes(1_000), 1),
        HALF_ARRIVED_BYTES_MAX,
    ),
    "a call that waits": (
        request_headers(1, path=WAIT.path) + data(prefixed(text("x")), 1, ends=True),
        WAITING_BYTES_MAX,
    ),
    "a stream": (
        request_headers(1, path=ENDLESS.path) + data(prefixed(text("x")), 1),
        STREAMING_BYTES_MAX,
    ),
}


@pytest.mark.parametrize("what", ACTIVE)
async def test_active_connections_hold_little_more(server: FedServer, what: str) -> None:
    content, bytes_max = ACTIVE[what]
    with traced():
        links = await connected(server, CONNECTIONS)
        before = held_bytes()
        await send(links, content)
        active = (held_bytes() - before) / CONNECTIONS
    assert all(len(link.connection.streams) == 1 for link in links)
    show(what, active)
    assert active <= bytes_max
    await server.close()


def show(what: str, held: float) -> None:
    sys.stdout.write(f"{what}: {held:,.0f} bytes for each connection\n")
