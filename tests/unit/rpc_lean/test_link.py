"""What a link does with a socket that has broken, before the loop has told it so."""

from __future__ import annotations

from typing import Any

from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from tests.unit.rpc_lean.peers import HELLO
from tests.unit.seams.echo_service import EchoServer


class BreakingSocket:
    """As uvloop's: once a write has failed it takes no more, and ``connection_lost`` comes a turn later."""

    def __init__(self) -> None:
        self.is_broken = False
        self.writes = 0

    def write(self, _piece: bytes) -> None:
        if self.is_broken:
            raise RuntimeError("unable to perform operation; the handler is closed")
        self.writes += 1

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self.is_broken

    def get_extra_info(self, _name: str) -> Any:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...
    def close(self) -> None: ...


async def test_what_is_left_to_say_to_a_broken_socket_is_not_said() -> None:
    server = LeanServer("127.0.0.1:0", [EchoServer().service], LeanOptions())
    link, socket = server._make_link(), BreakingSocket()
    link.connection_made(socket)
    link.get_buffer(-1)[: len(HELLO)] = HELLO
    link.buffer_updated(len(HELLO))
    link.flush()
    before = socket.writes
    assert before > 0
    socket.is_broken = True
    link.connection.ping(b"12345678")
    link.flush()
    link.close()
    assert socket.writes == before
    link.connection_lost(ConnectionResetError())
