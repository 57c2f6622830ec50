"""What a client cannot hold for ever: requests that never end, answers that are never taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.transport import Channel, Server
from quorate.errors import Overloaded, RequestTimedOut
from quorate.rpc.grpc_errors import error_from_rpc
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.rpc.stalled_readers import cut_connection
from tests.unit.seams.echo_service import CHAT, COUNT, ECHO, FAIL, EchoServer, text

AMPLE_S: Final = 30.0
#: more than the sockets and windows of a connection hold
LARGE: Final = "x" * (8 << 20)


async def large(request: object, call: object) -> StringValue:
    return StringValue(value=LARGE)


@asynccontextmanager
async def served(
    host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[tuple[EchoServer, Channel, Server]]:
    transport = GrpcioTransport(GrpcioOptions(**options))
    echo = EchoServer(fail=large)
    server = await transport.serve(f"{host}:0", [echo.service])
    channel = transport.connect(server.address)
    try:
        yield echo, channel, server
    finally:
        await channel.close()
        await server.stop(0)


class RudeClient:
    """Stock gRPC on a connection of its own, that sends and reads as it is told, and as little as it can."""

    def __init__(self, address: str) -> None:
        options = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.aio.insecure_channel(address, options=options)

    async def open(self, path: str) -> Any:
        """Headers without a request."""
        start: Callable[..., Any] = self.channel.stream_stream(path)
        call = start()
        await call.wait_for_connection()
        return call

    async def ask(self, path: str, request: bytes = b"") -> Any:
        """All of a request, and does not read the answer."""
        call = await self.open(path)
        await call.write(request)
        await call.done_writing()
        return call


async def take_the_only_place(channel: Channel, begin: Callable[[], Awaitable[Any]]) -> Any:
    """The call that has it.

    Nobody tells when it has it. Whoever asks needs the place for a moment, too; a call that comes just then
    is refused, and begins again.
    """
    async with asyncio.timeout(AMPLE_S):
        call = await begin()
        while True:
            try:
                await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
            except Overloaded:
                return call
            if call.done():
                call = await begin()


async def until_let_in(channel: Channel) -> None:
    async with asyncio.timeout(AMPLE_S):
        while True:
            try:
                await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
                return
            except Overloaded:
                await asyncio.sleep(0.01)


async def test_call_counts_before_its_request_has_arrived() -> None:
    async with served(requests_max=1) as (_, channel, server):
        rude = RudeClient(server.address)
        call = await take_the_only_place(channel, lambda: rude.open(ECHO.path))
        call.cancel()
        await until_let_in(channel)
        await rude.channel.close()


async def test_call_whose_request_never_ends_is_refused_in_time() -> None:
    async with served(requests_max=1, arrival_s_max=0.2) as (_, channel, server):
        rude = RudeClient(server.address)
        call = await rude.open(ECHO.path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        error = error_from_rpc(caught.value, ECHO, server.address)
        assert type(error) is RequestTimedOut
        assert error.message == "the request did not arrive within 0.2 s"
        await until_let_in(channel)
        await rude.channel.close()


async def test_call_without_a_request_is_an_invalid_one() -> None:
    async with served() as (_, _, server):
        rude = RudeClient(server.address)
        call = await rude.open(ECHO.path)
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await rude.channel.close()


async def test_requests_that_never_end_hold_up_the_others_for_a_moment_only() -> None:
    async with served() as (echo, channel, server):
        rude = RudeClient(server.address)
        calls = [await rude.open(ECHO.path) for _ in range(GrpcioOptions().reading_turns)]
        await asyncio.sleep(0.1)
        await channel.call(ECHO, BytesValue(value=b"x"), timeout_s=AMPLE_S)
        assert echo.echoed == [b"x"]
        ended = [call for call in calls if call.done()]
        assert len(ended) <= 1, "one had to give way, or none had its turn yet"
        await rude.channel.close()


async def test_large_requests_that_are_refused_while_they_arrive_are_refused_clearly() -> None:
    async with served(requests_max=1) as (_, channel, server):
        rude = RudeClient(server.address)
        await take_the_only_place(channel, lambda: rude.open(ECHO.path))
        for _ in range(5):
            with pytest.raises(Overloaded):
                await channel.call(ECHO, BytesValue(value=bytes(4 << 20)), timeout_s=AMPLE_S)
        await rude.channel.close()


async def test_call_counts_until_its_answer_is_taken() -> None:
    async with served(requests_max=1) as (_, channel, server):
        rude = RudeClient(server.address)
        call = await take_the_only_place(channel, lambda: rude.ask(FAIL.path))
        assert StringValue.FromString(await call.read()).value == LARGE
        await until_let_in(channel)
        await rude.channel.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_client_that_does_not_take_its_answer_is_cut_off(host: str) -> None:
    async with served(host, requests_max=1, taking_s_max=0.5) as (_, channel, server):
        rude = RudeClient(server.address)
        call = await take_the_only_place(channel, lambda: rude.ask(FAIL.path))
        await until_let_in(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await rude.channel.close()


async def test_stream_whose_client_does_not_read_is_cut_off() -> None:
    async with served(streams_max=1, taking_s_max=0.5) as (_, channel, server):
        rude = RudeClient(server.address)
        call = await rude.open(CHAT.path)
        # Slowly, and for longer than the limit: that is allowed.
        for _ in range(8):
            await call.write(text("x" * 1_000_000).SerializeToString())
            await asyncio.sleep(0.1)
            await call.read()
        await call.write(text(LARGE).SerializeToString())
        async with asyncio.timeout(AMPLE_S):
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
        responses = [each async for each in channel.stream(COUNT, numbers("2"), timeout_s=AMPLE_S)]
        assert [each.value for each in responses] == ["0", "1"]
        await rude.channel.close()


async def numbers(*values: str) -> AsyncIterator[StringValue]:
    for value in values:
        yield text(value)


async def test_stream_that_is_idle_is_left_alone() -> None:
    async with served(taking_s_max=0.1) as (_, _, server):
        rude = RudeClient(server.address)
        call = await rude.open(COUNT.path)
        await call.write(text("1").SerializeToString())
        await call.read()
        await asyncio.sleep(0.5)
        await call.write(text("2").SerializeToString())
        assert StringValue.FromString(await call.read()).value == "0"
        await rude.channel.close()


@pytest.mark.parametrize("peer", ["ipv4:127.0.0.1:1", "unix:", "unix:/path", "", "ipv6:%5B::1%5D:1"])
def test_connection_that_is_not_there_is_not_cut(peer: str) -> None:
    assert not cut_connection(peer, port=1)


def test_connection_takes_no_more_calls_than_it_may() -> None:
    options = GrpcioOptions(connection_calls_max=7)
    assert dict(options.server_arguments())["grpc.max_concurrent_streams"] == 7


@pytest.mark.parametrize(
    ("arriving_bytes_max", "window_bytes"),
    [(1 << 20, 64 << 10), (8 << 20, 128 << 10), (64 << 20, 1 << 20), (1 << 30, 1 << 20)],
)
def test_windows_are_fixed_and_follow_what_may_be_arriving(
    arriving_bytes_max: int, window_bytes: int
) -> None:
    arguments = dict(GrpcioOptions(arriving_bytes_max=arriving_bytes_max).server_arguments())
    assert arguments["grpc.http2.lookahead_bytes"] == window_bytes
    assert not arguments["grpc.http2.bdp_probe"], "otherwise they grow without a bound"


def test_turns_are_as_many_of_the_largest_requests_as_may_be_arriving_and_a_few_at_least() -> None:
    assert GrpcioOptions(arriving_bytes_max=64 << 20, message_bytes_max=100 << 20).reading_turns == 8
    assert GrpcioOptions(arriving_bytes_max=64 << 20, message_bytes_max=4 << 20).reading_turns == 16
