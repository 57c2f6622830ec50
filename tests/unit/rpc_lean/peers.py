"""Peers that send whatever bytes they like, to a connection without a socket and to a real server."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from hpack import Encoder

from quorate.core.transport import Channel
from quorate.rpc.lean.connection import Connection
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    FrameType,
    frame_header,
    settings_frame,
)
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.stream import Stream
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.seams.echo_service import EchoServer

#: what every client says first
HELLO = PREFACE + settings_frame()
REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/quorate.test.EchoService/Echo"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def frame(kind: int, content: bytes = b"", *, flags: int = 0, stream_id: int = 0) -> bytes:
    return frame_header(len(content), kind, flags, stream_id) + content


def request_headers(stream_id: int, *, flags: int = Flag.END_HEADERS, path: str | None = None) -> bytes:
    """In a block of its own, which touches no table."""
    headers = [(name, path if path and name == ":path" else value, True) for name, value in REQUEST]
    return frame(FrameType.HEADERS, Encoder().encode(headers), flags=flags, stream_id=stream_id)


def data(content: bytes, stream_id: int, *, ends: bool = False) -> bytes:
    flags = Flag.END_STREAM if ends else 0
    return frame(FrameType.DATA, content, flags=flags, stream_id=stream_id)


class Frame(NamedTuple):
    kind: int
    flags: int
    stream_id: int
    content: bytes

    @property
    def code(self) -> ErrorCode:
        """Of GOAWAY, or of RST_STREAM."""
        at = 4 if self.kind == FrameType.GOAWAY else 0
        return ErrorCode(struct.unpack_from(">I", self.content, at)[0])


def frames_in(content: bytes) -> list[Frame]:
    found, at = [], 0
    while at + 9 <= len(content):
        length_and_type, flags, stream_id = struct.unpack_from(">IBI", content, at)
        end = at + 9 + (length_and_type >> 8)
        found.append(Frame(length_and_type & 0xFF, flags, stream_id, content[at + 9 : end]))
        at = end
    return found


class Recorder:
    """Owns a connection and all of its streams, and notes what it is told."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.events: list[tuple[Any, ...]] = []

    def on_stream(self, stream: Stream, found: HeaderList) -> Recorder:
        self.streams.append(stream)
        self.events.append(("stream", stream.id, dict(found.headers)[b":path"]))
        return self

    def on_settings(self) -> None: ...

    def on_goaway(self) -> None:
        self.events.append(("goaway",))

    def on_headers(self, found: HeaderList) -> None:
        self.events.append(("headers", found.headers))

    def on_data(self, part: memoryview) -> None:
        self.events.append(("data", bytes(part)))

    def on_end(self) -> None:
        self.events.append(("end",))

    def on_drained(self) -> None:
        self.events.append(("drained",))

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:
        self.events.append(("lost", code, reason))


class Wire:
    """A server's connection without a socket, and what it answers."""

    def __init__(self, limits: Limits | None = None, *, hello: bytes = HELLO, **settings: Any) -> None:
        self.now = 0.0
        self.recorder = Recorder()
        self.connection = Connection(
            is_client=False,
            settings=LocalSettings(**{"streams_max": 100, **settings}),
            limits=limits or Limits(),
            acceptor=self.recorder,
            now=self.now,
        )
        self._rest = b""
        self.answers()
        if hello:
            self.send(hello)
            self.answers()

    def send(self, content: bytes) -> None:
        content = self._rest + content
        used = self.connection.receive(memoryview(content), self.now)
        self._rest = content[used:]

    def answers(self) -> list[Frame]:
        return frames_in(b"".join(self.connection.take_output()))

    def exchange(self, content: bytes) -> list[Frame]:
        self.send(content)
        return self.answers()

    @property
    def events(self) -> list[tuple[Any, ...]]:
        taken, self.recorder.events = self.recorder.events, []
        return taken


class Rude:
    """A client on a real connection that says what it is told to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    async def last_words(self) -> ErrorCode | None:
        """The code of the GOAWAY before the server hung up; None: it hung up without a word."""
        received = bytearray()
        try:
            async with asyncio.timeout(20):
                while part := await self.reader.read(1 << 16):
                    received += part
        except ConnectionResetError:
            pass
        goaways = [each for each in frames_in(bytes(received)) if each.kind == FrameType.GOAWAY]
        return goaways[-1].code if goaways else None


@asynccontextmanager
async def served(
    address: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[tuple[EchoServer, Channel, str]]:
    transport = LeanTransport(LeanOptions(**options))
    echo = EchoServer()
    server = await transport.serve(address, [echo.service])
    channel = transport.connect(server.address)
    try:
        yield echo, channel, server.address
    finally:
        await channel.close()
        await server.stop(0)


@asynccontextmanager
async def rude_client(address: str) -> AsyncIterator[Rude]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        yield Rude(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
