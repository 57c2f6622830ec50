"""Whoever calls: in line where a server grants few streams, and no storm where it sends everybody away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from hpack import Decoder, Encoder

from quorate.core.exchange import open_exchange
from quorate.core.transport import Call, Channel
from quorate.errors import Overloaded, QuorateError, Unavailable
from quorate.rpc.lean import client_connection
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    FrameType,
    SettingCode,
    goaway_frame,
    settings_frame,
)
from quorate.rpc.lean.grpc_headers import parse_timeout
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.rpc_lean.fed_server import echo_with
from tests.unit.rpc_lean.peers import Frame, frame, frames_in, served
from tests.unit.seams.echo_service import CHAT, ECHO, WAIT, text

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


# ---- what a server has not seen


def head_of_an_answer(stream_id: int) -> bytes:
    headers = [(":status", "200"), ("content-type", "application/grpc")]
    return frame(FrameType.HEADERS, Encoder().encode(headers), flags=Flag.END_HEADERS, stream_id=stream_id)


REFUSAL = frame(FrameType.RST_STREAM, int(ErrorCode.REFUSED_STREAM).to_bytes(4), stream_id=1)
UNSEEN = {
    "above the last id of GOAWAY": goaway_frame(0, ErrorCode.NO_ERROR, "bye"),
    "above the last id of a second GOAWAY": goaway_frame((1 << 31) - 1, ErrorCode.NO_ERROR, "soon")
    + goaway_frame(0, ErrorCode.NO_ERROR, "bye"),
    "refused": REFUSAL,
}
PERHAPS_SEEN = {
    "up to the last id of GOAWAY": goaway_frame(1, ErrorCode.NO_ERROR, "bye"),
    "answered, and then above the last id": head_of_an_answer(1) + goaway_frame(0, ErrorCode.NO_ERROR, ""),
    "answered, and then refused": head_of_an_answer(1) + REFUSAL,
    "nothing said": b"",
}


async def failure_after(says: bytes) -> QuorateError:
    """Of a call whose server says this, and hangs up."""

    async def script(server: Scripted) -> None:
        server.say(settings_frame())
        await server.until(lambda found: bool(requests_in(found)))
        server.say(says)

    async with called(script) as channel:
        with pytest.raises(QuorateError) as caught:
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    return caught.value


@pytest.mark.parametrize("how", UNSEEN)
async def test_call_that_the_server_has_not_seen_may_be_repeated_at_once(how: str) -> None:
    error = await failure_after(UNSEEN[how])
    assert isinstance(error, Unavailable)
    assert error.retriable
    assert not error.outcome_unknown


@pytest.mark.parametrize("how", PERHAPS_SEEN)
async def test_call_that_the_server_may_have_seen_may_have_been_done(how: str) -> None:
    error = await failure_after(PERHAPS_SEEN[how])
    assert error.outcome_unknown


@pytest.mark.parametrize("is_seen", [False, True])
async def test_exchange_hears_whether_its_requests_may_have_been_seen(*, is_seen: bool) -> None:
    ended: asyncio.Future[QuorateError | None] = asyncio.get_running_loop().create_future()

    class Listener:
        def on_ready(self) -> None:
            exchange.send(text("a"), is_last=True)

        def on_response(self, response: StringValue) -> None: ...
        def on_end(self, error: QuorateError | None) -> None:
            ended.set_result(error)

    async def script(server: Scripted) -> None:
        server.say(settings_frame())
        await server.until(lambda found: any(each.kind == FrameType.DATA for each in found))
        server.say(goaway_frame(int(is_seen), ErrorCode.NO_ERROR, "bye"))

    async with called(script) as channel:
        exchange = open_exchange(channel, CHAT, Listener())
        error = await asyncio.wait_for(ended, AMPLE_S)
        assert isinstance(error, Unavailable)
        assert error.outcome_unknown == is_seen


async def test_stopping_server_has_done_no_call_that_is_told_so() -> None:
    """However its end and the calls of its clients fall together."""
    handled: list[bytes] = []

    async def echo(request: BytesValue, _call: Call) -> BytesValue:
        handled.append(request.value)
        return request

    untouched: list[bytes] = []
    transport = LeanTransport(LeanOptions())
    for number in range(10):
        server = await transport.serve("127.0.0.1:0", [echo_with(Echo=echo)[1]])
        channel = transport.connect(server.address)
        await channel.call(ECHO, BytesValue(value=b"first"), timeout_s=AMPLE_S)
        stopping = asyncio.ensure_future(server.stop(AMPLE_S))
        for _ in range(number):
            await asyncio.sleep(0)
        values = [f"{number}-{each}".encode() for each in range(20)]
        calls = [channel.call(ECHO, BytesValue(value=value), timeout_s=AMPLE_S) for value in values]
        for value, ended in zip(values, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if isinstance(ended, QuorateError) and not ended.outcome_unknown:
                untouched.append(value)
        await stopping
        await channel.close()
    assert not set(untouched) & set(handled)
