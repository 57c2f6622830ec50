"""Connections that are encrypted, and those that are not yet, or never."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.errors import Unavailable
from quorate.rpc.lean.encryption import Encryption
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from quorate.rpc.lean.tls_listener import TlsListener
from quorate.rpc.lean.transport import LeanTransport
from tests.unit.rpc_lean.peers import Rude, rude_client, served
from tests.unit.seams.echo_service import COUNT, ECHO, one
from tools.certificate import Tls

AMPLE_S = 30.0


@pytest.fixture
def tls(certificate: Tls) -> Tls:
    return certificate


@pytest.fixture
def both_sides(tls: Tls) -> dict[str, Any]:
    return {"server_tls": tls.of_server(), "client_tls": tls.of_client()}


async def test_encrypted_calls_work_between_ours_and_with_grpcs_client(
    tls: Tls, both_sides: dict[str, Any]
) -> None:
    root = Path(tls.certificate).read_bytes()  # noqa: ASYNC240 - a test may
    async with served(**both_sides) as (echo, channel, address):
        await channel.call(ECHO, BytesValue(value=bytes(3 << 20)), timeout_s=AMPLE_S)
        counted = [each async for each in channel.stream(COUNT, one("1000"), timeout_s=AMPLE_S)]
        assert len(counted) == 1_000
        credentials = grpc.ssl_channel_credentials(root)
        async with grpc.aio.secure_channel(address, credentials) as stock:
            start: Any = stock.unary_unary(ECHO.path)
            await start(BytesValue(value=b"stock").SerializeToString())
        assert [len(each) for each in echo.echoed] == [3 << 20, 5]
        plain = LeanTransport().connect(address)
        with pytest.raises(Unavailable):
            await plain.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        await plain.close()


async def test_connection_that_cannot_be_encrypted_leaves_nothing_behind(both_sides: dict[str, Any]) -> None:
    server = LeanServer("127.0.0.1:0", [], LeanOptions(server_tls=both_sides["server_tls"]))
    await server.start(serving=True)
    async with rude_client(server.address) as rude:
        await rude.send(b"this is not a handshake" * 100)
        assert await rude.last_words() is None
    assert not server.links
    await server.stop(0)


async def is_hung_up_on(client: Rude) -> bool:
    return not await client.reader.read(1)


async def test_who_does_not_begin_to_encrypt_counts_as_a_connection(both_sides: dict[str, Any]) -> None:
    async with (
        served(**both_sides, connections_max=4, greeting_s_max=AMPLE_S) as (_, channel, address),
        AsyncExitStack() as held,
        asyncio.timeout(AMPLE_S),
    ):
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        silent = [await held.enter_async_context(rude_client(address)) for _ in range(12)]
        still_there = {asyncio.create_task(is_hung_up_on(each)) for each in silent}
        while len(still_there) > 3:
            _, still_there = await asyncio.wait(still_there, return_when=asyncio.FIRST_COMPLETED)
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        assert len(still_there) == 3
        for each in still_there:
            each.cancel()


async def test_room_that_a_broken_handshake_held_is_there_again(both_sides: dict[str, Any]) -> None:
    async with served(**both_sides, connections_max=1) as (_, channel, address):
        for _ in range(3):
            async with rude_client(address) as rude:
                await rude.send(b"this is not a handshake" * 100)
                assert await rude.last_words() is None
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def test_server_that_stops_waits_for_no_handshake(both_sides: dict[str, Any]) -> None:
    options = LeanOptions(server_tls=both_sides["server_tls"], greeting_s_max=10 * AMPLE_S)
    server = LeanServer("127.0.0.1:0", [], options)
    await server.start(serving=True)
    async with rude_client(server.address) as rude, asyncio.timeout(AMPLE_S):
        while not server._handshakes:  # noqa: ASYNC110  # nobody tells of one
            await asyncio.sleep(0)
        await server.stop(0)
        assert await is_hung_up_on(rude)


class Accepted(socket.socket):
    """Notes who closes it, once it is closed."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(fileno=end.detach())
        self.closed_by = ""

    def close(self) -> None:
        self.closed_by = self.closed_by or sys._getframe(1).f_globals["__name__"]
        super().close()


class Listening:
    """Where one connection waits."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted
        self._socket = socket.create_server(("127.0.0.1", 0))

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> tuple[socket.socket, None]:
        return self._accepted, None

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_socket_of_a_handshake_that_is_given_up_is_closed_by_whoever_has_it(
    turns: int, both_sides: dict[str, Any]
) -> None:
    """By then its number may be another connection's: nobody else may."""
    ours, theirs = socket.socketpair()
    accepted = Accepted(theirs)
    handshakes: set[asyncio.Task[None]] = set()
    server_tls = both_sides["server_tls"]
    server = LeanServer("127.0.0.1:0", [], LeanOptions(server_tls=server_tls))
    listener = TlsListener(
        cast(socket.socket, Listening(accepted)),
        lambda: Encryption(server._make_link(), server_tls, is_server=True, within_s=10 * AMPLE_S),
        handshakes=handshakes,
        has_room=lambda: True,
    )
    listener._accept()
    for _ in range(turns):
        await asyncio.sleep(0)
    listener.close()
    async with asyncio.timeout(AMPLE_S):
        while handshakes or not accepted.closed_by:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0)
    assert (accepted.closed_by == "quorate.rpc.lean.tls_listener") == (turns == 0)
    ours.close()
