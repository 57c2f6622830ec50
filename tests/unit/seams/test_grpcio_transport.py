"""What only real gRPC has: statuses, trailers, health, reflection, foreign clients and servers."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import grpc
import pytest
import structlog
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from google.rpc import status_pb2  # type: ignore[import-untyped]  # it has no types
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # it has no types
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # it has no types
    reflection_pb2,
    reflection_pb2_grpc,
)

from quorate.core.transport import Channel, Server, UnaryHandler
from quorate.errors import (
    ERRORS_BY_CODE,
    BatchTooLarge,
    CannotListen,
    InvalidRequest,
    OffsetOutOfRange,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.rpc.grpc_errors import error_from_rpc, status_from_error
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.v1 import errors_pb2
from tests.unit.seams.echo_service import CHAT, ECHO, FAIL, WAIT, EchoServer, one, text

AMPLE_S = 30.0


@asynccontextmanager
async def connected(
    fail: UnaryHandler[Any, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[EchoServer, Channel, Server]]:
    transport = GrpcioTransport(GrpcioOptions(**options))
    echo = EchoServer(fail)
    server = await transport.serve("127.0.0.1:0", [echo.service])
    channel = transport.connect(server.address)
    try:
        yield echo, channel, server
    finally:
        await channel.close()
        await server.stop(0)


def raw_error(status: grpc.StatusCode, details: str = "", trailers: Any = None) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*(trailers or [])), details)


# ---- errors on the wire


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_error_has_its_status_and_comes_back_from_it(kind: type[QuorateError]) -> None:
    status = status_from_error(kind("message", offset=3))
    assert status.code is grpc.StatusCode[kind.grpc_status]
    assert status.details == f"{kind.code}: message"
    raw = raw_error(status.code, status.details, status.trailing_metadata)
    error = error_from_rpc(raw, ECHO, "host:1")
    assert type(error) is kind
    assert (error.message, error.facts) == ("message", {"offset": 3})


@pytest.mark.parametrize(
    ("status", "details", "expected"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", RequestTimedOut),
        (grpc.StatusCode.UNAVAILABLE, "connection refused", Unavailable),
        (grpc.StatusCode.CANCELLED, "", Unavailable),
        # Whoever was reset may have been served before: only a detail of ours says that nothing was done.
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11", Unavailable),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Sent message larger than max (9 vs. 4)", BatchTooLarge),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Received message larger than max (9 vs. 4)",
            BatchTooLarge,
        ),
        # An answer, or perhaps one: the request was carried out.
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Sent message larger than max (9 vs. 4)",
            UnknownServerError,
        ),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT: Received message larger than max (9 vs. 4)",
            UnknownServerError,
        ),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "a message larger than max", UnknownServerError),
        (grpc.StatusCode.INVALID_ARGUMENT, "", InvalidRequest),
        (grpc.StatusCode.INTERNAL, "", UnknownServerError),
        (grpc.StatusCode.UNKNOWN, "", UnknownServerError),
        (grpc.StatusCode.PERMISSION_DENIED, "", UnknownServerError),
    ],
)
def test_status_without_our_detail_decides_by_itself(
    status: grpc.StatusCode, details: str, expected: type[QuorateError]
) -> None:
    error = error_from_rpc(raw_error(status, details), ECHO, "host:1")
    assert type(error) is expected
    told = details if details and status.name == error.code else f"{status.name}: {details}"
    assert error.message == f"Echo at host:1: {told}"
    assert error.facts == {"address": "host:1", "method": ECHO.path, "grpc_status": status.name}


def test_server_that_is_no_node_of_ours_is_told_as_such() -> None:
    raw = raw_error(grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404")
    error = error_from_rpc(raw, ECHO, "host:1")
    assert type(error) is InvalidRequest
    assert error.message.startswith("something answers at host:1, but it is no Quorate node with Echo: ")


def _foreign_status() -> bytes:
    status = status_pb2.Status(code=5, message="not ours")
    status.details.add().Pack(StringValue(value="something else"))
    return bytes(status.SerializeToString())


def _detail_without_code() -> bytes:
    status = status_pb2.Status()
    status.details.add().Pack(errors_pb2.ErrorDetail())
    return bytes(status.SerializeToString())


def _broken_detail() -> bytes:
    status = status_pb2.Status()
    status.details.add(type_url="type.googleapis.com/quorate.v1.ErrorDetail", value=b"\xff\xff")
    return bytes(status.SerializeToString())


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xff\xff", _foreign_status(), _detail_without_code(), _broken_detail()]
)
def test_details_that_are_not_ours_are_ignored(content: bytes) -> None:
    raw = raw_error(grpc.StatusCode.NOT_FOUND, "x", [("grpc-status-details-bin", content)])
    assert type(error_from_rpc(raw, ECHO, "host:1")) is UnknownServerError


def test_our_detail_is_found_among_others() -> None:
    status = status_pb2.Status()
    status.details.add().Pack(StringValue(value="something else"))
    status.details.add().Pack(detail_from_error(Overloaded("busy")))
    raw = raw_error(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "", [("grpc-status-details-bin", status.SerializeToString())]
    )
    assert type(error_from_rpc(raw, ECHO, "host:1")) is Overloaded


async def test_largest_error_fits_into_the_trailers() -> None:
    async def fail(request: object, call: object) -> StringValue:
        error = InvalidRequest("€" * 5000)
        error.facts.update({f"{number:02}" + "ü" * 200: "ß" * 200 for number in range(50)})
        raise error

    async with connected(fail=fail) as (_, channel, _):
        with pytest.raises(InvalidRequest) as caught:
            await channel.call(FAIL, text("x"), timeout_s=AMPLE_S)
        assert len(caught.value.message) == 500
        assert len(caught.value.facts) == 16


def test_largest_error_stays_below_what_peers_grant_for_trailers() -> None:
    error = InvalidRequest("€" * 5000)
    error.facts.update({f"{number:02}" + "ü" * 200: "ß" * 200 for number in range(50)})
    status = status_from_error(error)
    ((_, content),) = status.trailing_metadata
    assert isinstance(content, bytes)
    assert len(base64.b64encode(content)) + len(quote(status.details)) < 7_500


async def test_unexpected_failure_is_logged_with_its_traceback() -> None:
    with structlog.testing.capture_logs() as logs:
        async with connected() as (_, channel, _):
            with pytest.raises(UnknownServerError):
                await channel.call(FAIL, text("crash"), timeout_s=AMPLE_S)
    (event,) = [event for event in logs if event["event"] == "handler_failed"]
    assert event["method"] == FAIL.path
    assert event["exc_info"]
    assert "127.0.0.1" in event["peer"]


async def test_status_of_a_stream_survives_requests_that_could_not_be_sent() -> None:
    """Whether the status or the failure to send comes first is a race, so it is run often."""

    async def flood() -> AsyncIterator[StringValue]:
        yield text("fail")
        while True:
            yield text("x" * 10_000)

    async with connected() as (_, channel, _):
        for _ in range(100):
            with pytest.raises(OffsetOutOfRange) as caught:
                async for _ in channel.stream(CHAT, flood(), timeout_s=AMPLE_S):
                    pass
            assert caught.value.facts == {"log_end_offset": 9}


# ---- bounds


async def test_request_beyond_the_size_limit_is_refused_clearly() -> None:
    async with connected(message_bytes_max=100_000) as (echo, channel, server):
        generous = GrpcioTransport().connect(server.address)
        for sender in (channel, generous):
            with pytest.raises(BatchTooLarge, match="larger than max"):
                await sender.call(ECHO, BytesValue(value=bytes(200_000)), timeout_s=AMPLE_S)
        assert echo.echoed == []
        await generous.close()


async def test_answer_beyond_the_size_limit_leaves_the_outcome_unknown() -> None:
    """The server has done what it was asked for, and cannot take it back."""
    async with connected() as (_, _, server):
        narrow = GrpcioTransport(GrpcioOptions(message_bytes_max=100_000)).connect(server.address)
        with pytest.raises(UnknownServerError, match="larger than max") as caught:
            async for _ in narrow.stream(CHAT, one("x" * 99_996), timeout_s=AMPLE_S):
                pass
        assert caught.value.outcome_unknown
        await narrow.close()


async def test_client_without_a_deadline_gets_the_servers() -> None:
    async with (
        connected(default_timeout_s=0.1) as (echo, _, server),
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        wait: Callable[..., Any] = channel.unary_unary(WAIT.path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await wait(b"")
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await echo.ended.get() == "wait"
        error = error_from_rpc(caught.value, WAIT, server.address)
        assert error.message == "not done within 0.1 s, the limit for calls that set none"


# ---- what every server offers


async def test_health_follows_the_server() -> None:
    async with connected() as (_, _, server), grpc.aio.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        states = health_pb2.HealthCheckResponse.ServingStatus
        for name in ("", "quorate.test.EchoService"):
            await server.set_serving(serving=True)
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == states.SERVING
            await server.set_serving(serving=False)
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == states.NOT_SERVING


async def test_reflection_names_every_service_and_describes_it() -> None:
    async with connected() as (_, _, server), grpc.aio.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        async def ask(request: Any) -> Any:
            return await stub.ServerReflectionInfo(iter([request])).read()

        listed = await ask(reflection_pb2.ServerReflectionRequest(list_services=""))
        assert sorted(service.name for service in listed.list_services_response.service) == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "quorate.test.EchoService",
        ]
        symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="quorate.test.EchoService")
        described = await ask(symbol)
        assert described.file_descriptor_response.file_descriptor_proto


async def test_ipv6_address_keeps_its_brackets() -> None:
    echo = EchoServer()
    transport = GrpcioTransport()
    server = await transport.serve("[::1]:0", [echo.service])
    channel = transport.connect(server.address)
    assert server.address.startswith("[::1]:")
    await channel.call(ECHO, BytesValue(value=b"six"), timeout_s=AMPLE_S)
    assert echo.echoed == [b"six"]
    await channel.close()
    await server.stop(0)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("192.0.2.1:0", "Cannot assign requested address"),
        ("no-such-host.invalid:0", "cannot listen on no-such-host.invalid:0: "),
        ("127.0.0.1:99999", "not HOST:PORT with a port up to 65535"),
        ("127.0.0.1", "not HOST:PORT"),
        ("127.0.0.1:http", "not HOST:PORT"),
        (":9092", "not HOST:PORT"),
    ],
)
async def test_address_that_cannot_be_had_is_refused_with_the_reason(address: str, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason) as caught:
        await GrpcioTransport().serve(address, [EchoServer().service])
    assert address in caught.value.message


def test_a_ping_whose_answer_was_lost_holds_up_a_dead_connection_no_longer_than_keepalive_does() -> None:
    """gRPC's own default is a minute, on either side; a link that was cut for a moment lost that long."""
    options = GrpcioOptions(keepalive_timeout_s=3.0)
    for arguments in (options.channel_arguments(), options.server_arguments()):
        assert dict(arguments)["grpc.http2.ping_timeout_ms"] == 3_000
