"""A server that stops loses no answer that it has handed over, and waits for nobody without need."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hpack import Encoder

from quorate.rpc.lean.frames import PREFACE, Flag, FrameType, settings_frame, window_update_frame
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed
from tests.unit.rpc_lean.peers import HELLO, Frame, data, frame, frames_in, request_headers, rude_client

AMPLE_S = 30.0
#: a client that takes answers of any size
EAGER = PREFACE + settings_frame([(4, 4 << 20), (5, 1 << 20)]) + window_update_frame(0, 64 << 20)
#: with clients that do not answer pings
PATIENT = LeanOptions(keepalive_s=10 * AMPLE_S)
GET = Encoder().encode([(":method", "GET", True), (":scheme", "http", True), (":path", "/", True)])


@asynccontextmanager
async def slow_reader(server: LeanServer) -> AsyncIterator[socket.socket]:
    """Whose machine takes next to nothing unless it is read."""
    host, _, port = server.address.rpartition(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
        yield client


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of the server's insides, which tell nobody
        await asyncio.sleep(0)


async def read_all(client: socket.socket) -> list[Frame]:
    loop, received = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(AMPLE_S):
        while part := await loop.sock_recv(client, 1 << 16):
            received += part
    return frames_in(bytes(received))


@pytest.mark.parametrize("says", [b"", window_update_frame(0, 100_000)], ids=["nothing", "a window"])
async def test_answer_that_was_handed_over_reaches_a_client_that_is_still_reading_it(says: bytes) -> None:
    echo, service = echo_with()
    server = LeanServer("127.0.0.1:0", [service], LeanOptions())
    await server.start(serving=True)
    size = 2_000_000
    content = prefixed(BytesValue(value=bytes(size)))
    loop = asyncio.get_running_loop()
    async with slow_reader(server) as client:
        parts = [content[at : at + 16_384] for at in range(0, len(content), 16_384)]
        request = b"".join(data(part, 1, ends=part is parts[-1]) for part in parts)
        await loop.sock_sendall(client, EAGER + request_headers(1) + request)
        async with asyncio.timeout(AMPLE_S):
            await echo.over.wait()
        stopping = asyncio.ensure_future(server.stop(AMPLE_S))
        # Until all that is left is to be read: the server has said its last word.
        [link] = server.links
        await until(lambda: link._is_said)
        assert link._timer is not None
        assert link._timer.cancelled(), "who only reads is not taken for dead"
        await loop.sock_sendall(client, says)
        # More than once it is looked whether the client has it all.
        link._part_if_taken(loop.time() + AMPLE_S)
        answers = await read_all(client)
    assert sum(len(each.content) for each in answers if each.kind == FrameType.DATA) == len(content)
    await stopping


async def test_client_that_has_all_and_does_not_hang_up_is_not_waited_for() -> None:
    server = LeanServer("127.0.0.1:0", [echo_with()[1]], PATIENT)
    await server.start(serving=True)
    async with rude_client(server.address) as rude:
        await rude.send(HELLO)
        await rude.reader.read(1)
        async with asyncio.timeout(AMPLE_S):
            await server.stop(10 * AMPLE_S)


async def test_stopped_server_serves_nobody_whom_it_had_just_accepted() -> None:
    server = FedServer(echo_with()[1])
    await server.close()
    await server.server.stop(0)
    late = server.server._make_link()

    class Accepted:
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

        def get_extra_info(self, _name: str) -> None:
            return None

        def set_write_buffer_limits(self, high: int) -> None: ...

    accepted = Accepted()
    late.connection_made(accepted)
    assert accepted.is_aborted
    late.connection_lost(None)
    assert not server.server.links


async def test_request_that_is_not_grpc_and_ends_holds_up_no_server_that_stops() -> None:
    server = LeanServer("127.0.0.1:0", [echo_with()[1]], PATIENT)
    await server.start(serving=True)
    async with rude_client(server.address) as rude:
        await rude.send(HELLO + frame(FrameType.HEADERS, GET, flags=Flag.END_HEADERS, stream_id=1))
        async with asyncio.timeout(AMPLE_S):
            await until(lambda: bool(server._calls()))
            stopping = asyncio.ensure_future(server.stop(10 * AMPLE_S))
            await asyncio.sleep(0)
            await rude.send(data(b"", 1, ends=True))
            await stopping
