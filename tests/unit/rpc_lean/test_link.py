"""What a link does with a socket that has broken, before the loop has told it so."""

from __future__ import annotations

import errno

from quorate.rpc.lean.link import Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.peers import HELLO
from tests.unit.seams.echo_service import EchoServer


class BreakingSocket(FakeSocket):
    """As uvloop's: once a write has failed it takes no more, and ``connection_lost`` comes a turn later."""

    def __init__(self) -> None:
        self.is_broken = False
        #: it was closed by the loop itself, which says so nowhere
        self.is_silent = False
        self.writes = 0
        self.is_aborted = False

    def write(self, piece: bytes) -> None:
        if self.is_broken:
            raise RuntimeError("unable to perform operation; the handler is closed")
        self.writes += 1

    def is_closing(self) -> bool:
        return self.is_broken and not self.is_silent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        raise OSError(errno.ENOTCONN, "not connected")

    def abort(self) -> None:
        self.is_aborted = True


def opened_link() -> tuple[Link, BreakingSocket]:
    server = LeanServer("127.0.0.1:0", [EchoServer().service], LeanOptions())
    link, socket = server._make_link(), BreakingSocket()
    link.connection_made(socket)
    link.get_buffer(-1)[: len(HELLO)] = HELLO
    link.buffer_updated(len(HELLO))
    link.flush()
    assert socket.writes > 0
    return link, socket


async def test_what_is_left_to_say_to_a_broken_socket_is_not_said() -> None:
    link, socket = opened_link()
    before = socket.writes
    socket.is_broken = True
    link.connection.ping(b"12345678")
    link.flush()
    link.close()
    assert socket.writes == before
    link.connection_lost(ConnectionResetError())


async def test_nothing_is_said_after_connecting_was_given_up() -> None:
    """Whoever gives up connecting has uvloop close the socket: there is no ``connection_lost`` then."""
    link, socket = opened_link()
    before = socket.writes
    socket.is_broken = socket.is_silent = True
    link.connection.ping(b"12345678")
    link.abort()
    link.flush()
    assert socket.writes == before


async def test_socket_that_broke_is_not_parted_from_in_peace() -> None:
    link, socket = opened_link()
    link.part(10.0)
    assert socket.is_aborted
    link.connection_lost(OSError())
