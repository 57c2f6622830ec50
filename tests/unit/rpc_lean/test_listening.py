"""Which addresses a server takes, and from whom."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.core.transport import Transport
from quorate.errors import CannotListen
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.rpc.lean.transport import LeanTransport
from tests.unit.seams.echo_service import ECHO, EchoServer

AMPLE_S = 30.0


@pytest.mark.parametrize("transport", [LeanTransport, GrpcioTransport])
async def test_every_address_of_ipv6_is_every_address_of_ipv4_as_well(
    transport: Callable[[], Transport],
) -> None:
    server = await transport().serve("[::]:0", [EchoServer().service])
    port = server.address.rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        channel = transport().connect(f"{host}:{port}")
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        await channel.close()
    await server.stop(0)


async def test_unix_socket_of_a_live_server_is_not_taken_from_it(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    echo = EchoServer()
    server = await LeanTransport().serve(address, [echo.service])
    with pytest.raises(CannotListen, match="another process listens there"):
        await LeanTransport().serve(address, [EchoServer().service])
    channel = LeanTransport().connect(address)
    await channel.call(ECHO, BytesValue(value=b"x"), timeout_s=AMPLE_S)
    assert echo.echoed == [b"x"]
    await channel.close()
    await server.stop(0)


async def test_unix_socket_of_a_dead_server_is_taken_over(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/socket")
        dead.listen()
    server = await LeanTransport().serve(f"unix:{tmp_path}/socket", [EchoServer().service])
    channel = LeanTransport().connect(server.address)
    await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    await channel.close()
    await server.stop(0)


async def test_name_of_which_one_address_cannot_be_had_leaves_nothing_that_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    begun: list[asyncio.Server] = []
    create_server = loop.create_server

    async def two_addresses(*_arguments: Any, **_options: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        ]

    async def one_server(*arguments: Any, **options: Any) -> Any:
        if begun:
            raise OSError("no more")
        begun.append(await create_server(*arguments, **options))
        return begun[0]

    monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
    monkeypatch.setattr(loop, "create_server", one_server)
    with pytest.raises(CannotListen, match="no more"):
        await LeanTransport().serve("two.example:0", [EchoServer().service])
    assert not begun[0].is_serving(), "it was told, and does not look at a socket that is gone"
