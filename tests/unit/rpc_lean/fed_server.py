"""A server on a connection without a socket: what is sent to it arrives at once, turn by turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from hpack import Decoder

from quorate.core.transport import Handler, Service
from quorate.rpc.lean.frames import FrameType
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server import LeanServer
from quorate.rpc.lean.wire import message_prefix
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.peers import HELLO, Frame, frames_in
from tests.unit.seams.echo_service import DESCRIPTOR, EchoServer

#: of the loop: more than anything takes that waits for nobody
TURNS = 20


def echo_with(**handlers: Handler) -> tuple[EchoServer, Service]:
    """The service for tests, some of its methods handled otherwise."""
    echo = EchoServer()
    known = {method.name: handler for method, handler in echo.service.handlers.items()}
    return echo, Service(DESCRIPTOR, {**known, **handlers})


def prefixed(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return message_prefix(len(content)) + content


class _Socket(FakeSocket):
    """Keeps all that was written."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, piece: bytes) -> None:
        self.written += piece

    def get_write_buffer_size(self) -> int:
        return len(self.written)


def feed(link: Link, content: bytes) -> None:
    buffer = link.get_buffer(-1)
    for at in range(0, len(content), len(buffer)):
        part = content[at : at + len(buffer)]
        buffer[: len(part)] = part
        link.buffer_updated(len(part))


class FedServer:
    """``hello``: what its client says first."""

    def __init__(self, *services: Service, hello: bytes = HELLO, **options: Any) -> None:
        self.server = LeanServer("127.0.0.1:0", services, LeanOptions(**options))
        self._socket = _Socket()
        self._decoder = Decoder()
        #: all that it answered, and its headers
        self.frames: list[Frame] = []
        self.headers: dict[int, dict[bytes, bytes]] = {}
        self.link = self._connect(self._socket, hello)

    def another_link(self, hello: bytes = HELLO) -> Link:
        """Of a further client, whose answers nobody reads."""
        return self._connect(FakeSocket(), hello)

    def _connect(self, socket: FakeSocket, hello: bytes) -> Link:
        link = self.server._make_link()
        link.connection_made(socket)
        feed(link, hello)
        return link

    async def send(self, *content: bytes, to: Link | None = None) -> None:
        """In one read, and until nothing moves any more. ``to``: the link of another client."""
        feed(to or self.link, b"".join(content))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.link.flush()
        written, self._socket.written = bytes(self._socket.written), bytearray()
        for each in frames_in(written):
            self.frames.append(each)
            if each.kind == FrameType.HEADERS:
                decoded = dict(self._decoder.decode(each.content, raw=True))
                self.headers.setdefault(each.stream_id, {}).update(decoded)

    def status(self, stream_id: int) -> int | None:
        """None: it has none yet."""
        number = self.headers.get(stream_id, {}).get(b"grpc-status")
        return None if number is None else int(number)

    @property
    def held_bytes(self) -> int:
        """By requests that no handler has, as the server counts them."""
        return sum(held.bytes for held in (*self.server._held.values(), self.server._held_of_nodes))

    @property
    def untaken_bytes(self) -> int:
        """By answers that no client has, as the server counts them."""
        return self.server._untaken.bytes + self.server._untaken_of_nodes.bytes

    async def close(self) -> None:
        for link in list(self.server.links):
            link.connection_lost(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert not self.held_bytes, "who is gone holds nothing"
        assert not self.untaken_bytes
