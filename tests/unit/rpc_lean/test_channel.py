"""Whoever calls: in line where a server grants few streams, and no storm where it sends everybody away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hpack import Decoder

from quorate.core.transport import Channel
from quorate.errors import Overloaded, Unavailable
from quorate.rpc.lean import client_connection
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    FrameType,
    SettingCode,
    goaway_frame,
    settings_frame,
)
from quorate.rpc.lean.grpc_headers import parse_timeout
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.rpc_lean.peers import Frame, frame, frames_in, served
from tests.unit.seams.echo_service import ECHO, WAIT, text

AMPLE_S = 30.0


class Scripted:
    """A server that says what it is told to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._received = bytearray()

    def say(self, content: bytes) -> None:
        self._writer.write(content)

    async def until(self, is_enough: Callable[[list[Frame]], bool]) -> list[Frame]:
        """Everything that came, once it is enough."""
        while not is_enough(found := frames_in(bytes(self._received[len(PREFACE) :]))):
            if not (part := await self._reader.read(1 << 16)):
                break
            self._received += part
        return found


@asynccontextmanager
async def called(script: Callable[[Scripted], Awaitable[None]]) -> AsyncIterator[Channel]:
    """A channel to a server that plays the script on every connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await script(Scripted(reader, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    channel = LeanTransport(LeanOptions()).connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield channel
    finally:
        await channel.close()
        server.close()
        await server.wait_closed()


def streams_max(count: int) -> bytes:
    return settings_frame([(SettingCode.MAX_CONCURRENT_STREAMS, count)])


def requests_in(found: list[Frame]) -> list[int]:
    return [each.stream_id for each in found if each.kind == FrameType.HEADERS]


async def test_everybody_in_line_begins_once_a_server_grants_places_for_all() -> None:
    has_all = asyncio.Event()

    async def script(server: Scripted) -> None:
        server.say(streams_max(1))
        await server.until(lambda found: len(requests_in(found)) == 1)
        server.say(streams_max(100))
        await server.until(lambda found: len(requests_in(found)) == 20)
        has_all.set()

    async with called(script) as channel:
        calls = [asyncio.create_task(channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)) for _ in range(20)]
        await asyncio.wait_for(has_all.wait(), AMPLE_S)
        for ended in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(ended, Unavailable)


async def test_whoever_comes_later_stands_behind_those_who_wait() -> None:
    order: list[int] = []

    async with served(connection_calls_max=1) as (_, channel, _address):

        async def call(number: int) -> None:
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
            order.append(number)
            if number < 3:
                # In the very turn in which its own place is free again.
                later.append(asyncio.create_task(call(number + 100)))

        later: list[asyncio.Task[None]] = []
        await asyncio.gather(*(call(number) for number in range(10)))
        await asyncio.gather(*later)
    assert order == [*range(10), 100, 101, 102]


async def test_place_of_somebody_who_gave_up_goes_to_the_next_in_line() -> None:
    async with served(connection_calls_max=1) as (_, channel, _address):
        waits = asyncio.create_task(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
        await asyncio.sleep(0)
        gives_up = asyncio.create_task(channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
        stays = asyncio.create_task(channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
        for _ in range(5):
            await asyncio.sleep(0)
        gives_up.cancel()
        waits.cancel()
        await stays
        await asyncio.wait((gives_up, waits))


async def test_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "_WAITING_MAX", 3)
    async with served(connection_calls_max=1) as (_, channel, _address):
        calls = [asyncio.create_task(channel.call(WAIT, text("x"), timeout_s=AMPLE_S)) for _ in range(5)]
        done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        [refused] = done
        assert isinstance(refused.exception(), Overloaded)
        for each in pending:
            each.cancel()
        await asyncio.wait(pending)


async def test_server_that_sends_everybody_away_is_not_asked_again_at_once() -> None:
    connections = 0

    async def script(server: Scripted) -> None:
        nonlocal connections
        connections += 1
        server.say(settings_frame() + goaway_frame(0, ErrorCode.NO_ERROR, "full"))
        await server.until(lambda _: False)

    async with called(script) as channel:
        for _ in range(50):
            with pytest.raises(Unavailable):
                await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    assert connections < 5


async def test_server_is_told_how_much_time_is_left_after_the_wait_for_a_place() -> None:
    waited_s = 0.3
    told_s: list[float | None] = []

    async def script(server: Scripted) -> None:
        server.say(streams_max(0))
        await asyncio.sleep(waited_s)
        server.say(streams_max(1))
        found = await server.until(lambda found: bool(requests_in(found)))
        [request] = [each for each in found if each.kind == FrameType.HEADERS]
        headers = dict(Decoder().decode(request.content, raw=True))
        told_s.append(parse_timeout(headers[b"grpc-timeout"]))
        server.say(frame(FrameType.RST_STREAM, int(ErrorCode.CANCEL).to_bytes(4), stream_id=1))

    async with called(script) as channel:
        with pytest.raises(Unavailable):
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    [timeout_s] = told_s
    assert timeout_s is not None
    assert timeout_s <= AMPLE_S - waited_s + 0.1, "rounded to three digits"


@pytest.mark.parametrize("code", [ErrorCode.ENHANCE_YOUR_CALM, ErrorCode.INTERNAL_ERROR, ErrorCode.CANCEL])
async def test_nobody_is_told_that_nothing_was_done_because_a_stream_was_reset(code: ErrorCode) -> None:
    """A retry would do it twice."""

    async def script(server: Scripted) -> None:
        server.say(settings_frame())
        await server.until(lambda found: bool(requests_in(found)))
        server.say(frame(FrameType.RST_STREAM, int(code).to_bytes(4), stream_id=1))
        await server.until(lambda _: False)

    async with called(script) as channel:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    assert caught.value.outcome_unknown  # type: ignore[attr-defined]  # all of ours have it
