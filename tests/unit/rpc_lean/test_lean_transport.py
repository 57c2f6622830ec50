"""What only gRPC on a real connection has: health, reflection, foreign clients, addresses, encryption."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # it has no types
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # it has no types
    reflection_pb2,
    reflection_pb2_grpc,
)
from hpack import Decoder, Encoder

from quorate.core.transport import Channel
from quorate.errors import (
    BatchTooLarge,
    CannotListen,
    InvalidRequest,
    OffsetOutOfRange,
    Overloaded,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
)
from quorate.rpc.grpc_errors import error_from_rpc
from quorate.rpc.lean.frames import Flag, FrameType
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.rpc_lean.peers import HELLO, REQUEST, frame, frames_in, rude_client, served
from tests.unit.seams.echo_service import CHAT, ECHO, FAIL, WAIT, EchoServer, one, text

AMPLE_S = 30.0


# ---- errors and sizes


async def test_largest_error_fits_into_the_trailers() -> None:
    async def fail(_request: object, _call: object) -> StringValue:
        error = InvalidRequest("€" * 5000)
        error.facts.update({f"{number:02}" + "ü" * 200: "ß" * 200 for number in range(50)})
        raise error

    transport = LeanTransport()
    server = await transport.serve("127.0.0.1:0", [EchoServer(fail).service])
    channel = transport.connect(server.address)
    with pytest.raises(InvalidRequest) as caught:
        await channel.call(FAIL, text("x"), timeout_s=AMPLE_S)
    assert len(caught.value.message) == 500
    assert len(caught.value.facts) == 16
    await channel.close()
    await server.stop(0)


async def test_unexpected_failure_is_logged_with_its_traceback() -> None:
    with structlog.testing.capture_logs() as logs:
        async with served() as (_, channel, _):
            with pytest.raises(UnknownServerError):
                await channel.call(FAIL, text("crash"), timeout_s=AMPLE_S)
    (event,) = [event for event in logs if event["event"] == "handler_failed"]
    assert event["method"] == FAIL.path
    assert event["exc_info"]
    assert "ipv4:127.0.0.1" in event["peer"]


async def test_status_of_a_stream_survives_requests_that_could_not_be_sent() -> None:
    async def flood() -> AsyncIterator[StringValue]:
        yield text("fail")
        while True:
            yield text("x" * 10_000)

    async with served() as (_, channel, _):
        for _ in range(20):
            with pytest.raises(OffsetOutOfRange) as caught:
                [_ async for _ in channel.stream(CHAT, flood(), timeout_s=AMPLE_S)]
            assert caught.value.facts == {"log_end_offset": 9}


async def test_request_beyond_the_size_limit_is_refused_clearly() -> None:
    async with served(message_bytes_max=100_000) as (echo, channel, address):
        generous = LeanTransport().connect(address)
        for sender in (channel, generous):
            with pytest.raises(BatchTooLarge, match="larger than max"):
                await sender.call(ECHO, BytesValue(value=bytes(200_000)), timeout_s=AMPLE_S)
        assert echo.echoed == []
        await generous.close()


async def test_answer_beyond_the_size_limit_leaves_the_outcome_unknown() -> None:
    async with served() as (_, _, address):
        narrow = LeanTransport(LeanOptions(message_bytes_max=100_000)).connect(address)
        with pytest.raises(UnknownServerError, match="larger than max") as caught:
            [_ async for _ in narrow.stream(CHAT, one("x" * 99_996), timeout_s=AMPLE_S)]
        assert caught.value.outcome_unknown
        await narrow.close()


async def test_messages_larger_than_any_window_arrive_both_ways() -> None:
    value = bytes(range(256)) * (5 << 12)
    async with served() as (_, channel, _):
        response = await channel.call(ECHO, BytesValue(value=value), timeout_s=AMPLE_S)
        assert response.value == value
        responses = [each async for each in channel.stream(CHAT, one("x" * (3 << 20)), timeout_s=AMPLE_S)]
        assert [len(each.value) for each in responses] == [4 + (3 << 20), 3]


async def test_names_under_localhost_are_this_machine_also_where_no_resolver_knows_them() -> None:
    async with served() as (_, _, address):
        port = address.rpartition(":")[2]
        channel = LeanTransport().connect(f"broker-3.localhost:{port}")
        response = await channel.call(ECHO, BytesValue(value=b"here"), timeout_s=AMPLE_S)
        assert response.value == b"here"
        await channel.close()


async def test_a_name_that_nobody_knows_is_none_of_this_machine() -> None:
    async with served() as (_, _, address):
        port = address.rpartition(":")[2]
        channel = LeanTransport().connect(f"localhost.invalid:{port}")
        with pytest.raises(Unavailable, match="cannot connect"):
            await channel.call(ECHO, BytesValue(value=b"there"), timeout_s=AMPLE_S)
        await channel.close()


async def test_large_requests_take_turns_and_all_arrive() -> None:
    async with served(message_bytes_max=2 << 20, arriving_bytes_max=1 << 20) as (echo, channel, _):
        request = BytesValue(value=bytes(1_500_000))
        calls = [channel.call(ECHO, request, timeout_s=AMPLE_S) for _ in range(20)]
        assert [len(each.value) for each in await asyncio.gather(*calls)] == [1_500_000] * 20
        assert len(echo.echoed) == 20


async def test_client_without_a_deadline_gets_the_servers() -> None:
    async with (
        served(default_timeout_s=0.1) as (echo, _, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        wait: Callable[..., Any] = channel.unary_unary(WAIT.path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await wait(b"")
        assert await echo.ended.get() == "wait"
        error = error_from_rpc(caught.value, WAIT, address)
        assert type(error) is RequestTimedOut
        assert error.message == "not done within 0.1 s, the limit for calls that set none"


# ---- what clients of gRPC try


async def test_compressed_request_is_refused_with_what_would_be_accepted() -> None:
    async with served() as (echo, _, address):
        async with grpc.aio.insecure_channel(address, compression=grpc.Compression.Gzip) as channel:
            start: Any = channel.unary_unary(ECHO.path)
            call = start(BytesValue(value=bytes(1_000)).SerializeToString())
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "gzip" in await call.details()
        assert echo.echoed == []


async def test_refusal_of_compression_names_what_is_accepted() -> None:
    async with served() as (_, _, address), rude_client(address) as rude:
        headers = Encoder().encode([*REQUEST, ("grpc-encoding", "snappy")])
        await rude.send(HELLO + frame(FrameType.HEADERS, headers, flags=Flag.END_HEADERS, stream_id=1))
        received = b""
        async with asyncio.timeout(AMPLE_S):
            while not (told := [each for each in frames_in(received) if each.kind == FrameType.HEADERS]):
                received += await rude.reader.read(1 << 16)
        answer = dict(Decoder().decode(told[0].content, raw=True))
        assert (answer[b"grpc-status"], answer[b"grpc-accept-encoding"]) == (b"12", b"identity")


async def test_call_without_a_request_and_with_two_are_invalid() -> None:
    async with served() as (_, _, address), grpc.aio.insecure_channel(address) as channel:
        for requests in ((), (b"", b"")):
            start: Any = channel.stream_unary(ECHO.path)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await start(iter(requests))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_calls_beyond_what_a_connection_takes_wait_at_the_client() -> None:
    async with served(connection_calls_max=2) as (echo, channel, _):
        waiting = [asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S)) for _ in range(2)]
        await echo.waiting.wait()
        third = asyncio.ensure_future(channel.call(ECHO, BytesValue(value=b"3"), timeout_s=AMPLE_S))
        await asyncio.sleep(0.1)
        assert not third.done()
        waiting[0].cancel()
        assert (await third).value == b"3"
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_call_that_waits_at_the_client_has_its_deadline() -> None:
    async with served(connection_calls_max=1) as (echo, channel, _):
        waiting = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
        await echo.waiting.wait()
        with pytest.raises(RequestTimedOut):
            await channel.call(ECHO, BytesValue(), timeout_s=0.1)
        waiting.cancel()


async def test_call_counts_until_its_answer_is_taken() -> None:
    """A stock client that does not read."""
    async with served(requests_max=1) as (_, channel, address):
        options = [("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(address, options=options) as other:
            start: Any = other.stream_stream(ECHO.path)
            call = start()
            await call.write(BytesValue(value=bytes(3 << 20)).SerializeToString())
            await call.done_writing()
            with pytest.raises(Overloaded):
                await asyncio.wait_for(call_for_ever(channel), AMPLE_S)
            call.cancel()


async def call_for_ever(channel: Channel) -> None:
    while True:
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)


async def test_health_follows_the_server() -> None:
    transport = LeanTransport()
    server = await transport.serve("127.0.0.1:0", [EchoServer().service])
    states = health_pb2.HealthCheckResponse.ServingStatus
    async with grpc.aio.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=""))
        assert (await watch.read()).status == states.SERVING
        for name in ("", "quorate.test.EchoService"):
            await server.set_serving(serving=True)
            assert (await health.Check(health_pb2.HealthCheckRequest(service=name))).status == states.SERVING
            await server.set_serving(serving=False)
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == states.NOT_SERVING
        assert (await watch.read()).status == states.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health.Check(health_pb2.HealthCheckRequest(service="no such"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        unknown = health.Watch(health_pb2.HealthCheckRequest(service="no such"))
        assert (await unknown.read()).status == states.SERVICE_UNKNOWN
        # Whoever watches does not hold up a server that stops.
        async with asyncio.timeout(AMPLE_S):
            await server.stop(10 * AMPLE_S)


async def test_reflection_names_every_service_and_describes_it() -> None:
    async with served() as (_, _, address), grpc.aio.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        async def ask(**question: Any) -> Any:
            request = reflection_pb2.ServerReflectionRequest(**question)
            return await stub.ServerReflectionInfo(iter([request])).read()

        listed = await ask(list_services="")
        assert [service.name for service in listed.list_services_response.service] == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "quorate.test.EchoService",
        ]
        described = await ask(file_containing_symbol="quorate.test.EchoService")
        of_method = await ask(file_containing_symbol="quorate.test.EchoService.Echo")
        assert of_method.file_descriptor_response == described.file_descriptor_response
        for unknown in ("quorate.test.EchoService.Nothing", "nothing", ""):
            assert (await ask(file_containing_symbol=unknown)).error_response.error_code == 5
        assert len(described.file_descriptor_response.file_descriptor_proto) == 2, "it stands on another file"
        assert (await ask(file_by_filename="quorate/test/echo.proto")).HasField("file_descriptor_response")
        assert (await ask(file_by_filename="no such")).error_response.error_code == 5
        numbers = await ask(all_extension_numbers_of_type="google.protobuf.BytesValue")
        assert list(numbers.all_extension_numbers_response.extension_number) == []


# ---- addresses


async def test_ipv6_address_keeps_its_brackets() -> None:
    async with served("[::1]:0") as (echo, channel, address):
        assert address.startswith("[::1]:")
        await channel.call(ECHO, BytesValue(value=b"six"), timeout_s=AMPLE_S)
        assert echo.peers[0].startswith("ipv6:[::1]:")


async def test_unix_socket_serves_our_client_and_grpcs(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    async with served(address) as (echo, channel, told):
        assert told == address
        await channel.call(ECHO, BytesValue(value=b"1"), timeout_s=AMPLE_S)
        async with grpc.aio.insecure_channel(address) as stock:
            start: Any = stock.unary_unary(ECHO.path)
            await start(BytesValue(value=b"2").SerializeToString())
        assert echo.echoed == [b"1", b"2"]
        assert not await LeanTransport().is_refused(address, timeout_s=AMPLE_S)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("192.0.2.1:0", "annot assign requested address"),
        ("no-such-host.invalid:0", "cannot listen on no-such-host.invalid:0: "),
        ("127.0.0.1:99999", "not HOST:PORT with a port up to 65535"),
        ("127.0.0.1", "not HOST:PORT"),
        ("127.0.0.1:http", "not HOST:PORT"),
        (":9092", "not HOST:PORT"),
        ("unix:", "not HOST:PORT"),
        ("unix:/no/such/directory/socket", "No such file or directory"),
    ],
)
async def test_address_that_cannot_be_had_is_refused_with_the_reason(address: str, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason) as caught:
        await LeanTransport().serve(address, [EchoServer().service])
    assert address in caught.value.message


async def test_somebody_who_is_no_grpc_server_is_unavailable() -> None:
    async with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        channel = LeanTransport().connect(address)
        with pytest.raises(Unavailable, match="it does not speak HTTP/2") as told:
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        assert "is it a web server, such as that of a node's metrics?" in told.value.message
        await channel.close()


async def test_who_cannot_be_reached_is_told_once_and_without_the_numbers_of_the_system() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    channel = LeanTransport().connect(address)
    with pytest.raises(Unavailable) as caught:
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    assert caught.value.message == f"{ECHO.name} at {address}: cannot connect: Connection refused"
    await channel.close()


async def test_silent_server_is_unavailable_after_a_while() -> None:
    async with stranger(b"") as address:
        channel = LeanTransport(LeanOptions(connect_s_max=0.1)).connect(address)
        with pytest.raises(Unavailable, match="it took too long"):
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        await channel.close()


@asynccontextmanager
async def stranger(words: bytes) -> AsyncIterator[str]:
    """Somebody who says this to everybody, and listens until they hang up."""
    hung_up = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        hung_up.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await hung_up.wait()
    server.close()


async def test_server_that_vanished_is_found_by_keepalive() -> None:
    async with served() as (echo, _, address):
        options = LeanOptions(keepalive_s=0.1, keepalive_timeout_s=0.2)
        relay = await _Relay.start(address)
        channel = LeanTransport(options).connect(relay.address)
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
        call = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
        await echo.waiting.wait()
        relay.is_silent = True
        with pytest.raises(Unavailable):
            await call
        await channel.close()
        await relay.stop()


class _Relay:
    """Passes bytes on, until it does not."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.is_silent = False
        self.address = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, target: str) -> _Relay:
        relay = cls(target)
        relay._server = await asyncio.start_server(relay._serve, "127.0.0.1", 0)
        relay.address = f"127.0.0.1:{relay._server.sockets[0].getsockname()[1]}"
        return relay

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        for pair in ((reader, there[1]), (there[0], writer)):
            self._tasks.add(asyncio.ensure_future(self._pass_on(*pair)))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while part := await reader.read(1 << 16):
                if not self.is_silent:
                    writer.write(part)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


# ---- many


async def test_a_thousand_connections_are_served_side_by_side() -> None:
    needed = 2 * 1_000 + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed:
        pytest.skip(f"a process may have {hard} files open here, and this needs {needed}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        # A busy machine takes its time for as many.
        async with served(greeting_s_max=AMPLE_S) as (echo, _, address):
            transport = LeanTransport(LeanOptions(connect_s_max=AMPLE_S))
            channels = [transport.connect(address) for _ in range(1_000)]
            for value in (b"1", b"2"):
                request = BytesValue(value=value)
                await asyncio.gather(*(each.call(ECHO, request, timeout_s=AMPLE_S) for each in channels))
            assert sorted(echo.echoed) == [b"1"] * 1_000 + [b"2"] * 1_000
            await asyncio.gather(*(each.close() for each in channels))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
