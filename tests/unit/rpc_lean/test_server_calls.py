"""How a server's calls end, whatever their clients send and whenever they send it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # it has no types
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]  # it has no types
from structlog.testing import capture_logs

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.rpc.lean import server as server_module
from quorate.rpc.lean.frames import PREFACE, FrameType, SettingCode, settings_frame, window_update_frame
from quorate.rpc.lean.server_call import ServerCall
from quorate.rpc.lean.status import StatusCode
from quorate.rpc.lean.unary_call import UnaryCall
from quorate.rpc.lean.wire import message_prefix
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed
from tests.unit.rpc_lean.peers import data, frame, frames_in, request_headers
from tests.unit.seams.echo_service import CHAT, COUNT, ECHO, FAIL, WAIT, text

#: from a client that takes no answers until it says so
RELUCTANT = PREFACE + settings_frame([(4, 0)])
HALF = message_prefix(100) + b"half"
RESET = frame(FrameType.RST_STREAM, b"\0\0\0\x08", stream_id=1)


class Listener:
    """A handler that reads in a task of its own, as that of a replication stream does."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        #: how the requests ended
        self.end: Any = None

    async def chat(
        self, requests: AsyncIterator[StringValue], _call: Call
    ) -> AsyncGenerator[StringValue, None]:
        reading = asyncio.create_task(self._read(requests))
        try:
            yield text("welcome")
            await asyncio.Event().wait()
        finally:
            reading.cancel()

    async def _read(self, requests: AsyncIterator[StringValue]) -> None:
        try:
            async for request in requests:
                self.heard.append(request.value)
            self.end = "clean"
        except Exception as error:
            self.end = type(error).__name__
            raise


def limit_passes(server: FedServer, stream_id: int) -> None:
    """That for calls without a deadline."""
    call = server.link.connection.streams[stream_id].listener
    assert isinstance(call, UnaryCall)
    call._limit_passed()


# ---- one status


async def test_answer_that_waits_to_be_taken_keeps_its_status() -> None:
    echo, service = echo_with()
    server = FedServer(service, hello=RELUCTANT)
    await server.send(request_headers(1), data(prefixed(BytesValue(value=b"a")), 1, ends=True))
    assert echo.echoed == [b"a"]
    limit_passes(server, 1)
    await server.send(window_update_frame(1, 1_000))
    assert server.status(1) == StatusCode.OK
    assert [each.content for each in server.frames if each.kind == FrameType.DATA] == [
        prefixed(BytesValue(value=b"a"))
    ]
    await server.close()


async def test_nothing_is_read_after_a_refusal() -> None:
    listener = Listener()
    server = FedServer(echo_with(Chat=listener.chat)[1], hello=RELUCTANT, message_bytes_max=1_000)
    await server.send(request_headers(1, path=CHAT.path), data(prefixed(text("ok")), 1))
    await server.send(data(message_prefix(5_000), 1))
    await server.send(data(prefixed(text("smuggled")), 1, ends=True))
    assert listener.heard == ["ok"]
    assert listener.end != "clean"
    await server.send(window_update_frame(1, 1_000))
    assert server.status(1) == StatusCode.RESOURCE_EXHAUSTED
    await server.close()


# ---- what ends too soon


async def test_stream_that_ends_within_a_message_has_no_clean_end() -> None:
    listener = Listener()
    server = FedServer(echo_with(Chat=listener.chat)[1])
    await server.send(request_headers(1, path=CHAT.path), data(prefixed(text("ok")) + HALF, 1, ends=True))
    assert listener.heard == ["ok"]
    assert listener.end == "InvalidRequest"
    assert server.status(1) == StatusCode.INVALID_ARGUMENT
    await server.close()


@pytest.mark.parametrize("rest", [HALF, b"\0"], ids=["half a message", "half a prefix"])
async def test_unary_request_that_ends_within_a_message_reaches_no_handler(rest: bytes) -> None:
    echo, service = echo_with()
    server = FedServer(service)
    await server.send(request_headers(1), data(prefixed(BytesValue(value=b"a")) + rest, 1, ends=True))
    assert echo.echoed == []
    assert server.status(1) == StatusCode.INVALID_ARGUMENT
    await server.close()


# ---- admission


async def test_call_counts_until_its_handler_has_ended_however_soon_its_client_gave_up() -> None:
    put_away = asyncio.Event()

    async def slow(_request: BytesValue, _call: Call) -> BytesValue:
        try:
            await asyncio.Event().wait()
        finally:
            await put_away.wait()
        return BytesValue()

    server = FedServer(echo_with(Echo=slow)[1], requests_max=1)
    call = data(prefixed(BytesValue()), 1, ends=True)
    await server.send(request_headers(1), call)
    await server.send(RESET)
    await server.send(request_headers(3))
    assert server.status(3) == StatusCode.RESOURCE_EXHAUSTED
    put_away.set()
    await server.send()
    await server.send(request_headers(5))
    assert server.status(5) is None
    await server.close()


async def test_handler_that_never_began_counts_no_longer_than_its_call() -> None:
    server = FedServer(echo_with()[1], requests_max=1)
    await server.send(request_headers(1), data(prefixed(BytesValue()), 1, ends=True), RESET)
    await server.send(request_headers(3), data(prefixed(BytesValue()), 3, ends=True))
    assert server.status(3) == StatusCode.OK
    await server.close()


# ---- answers that are none


async def test_handler_that_answers_what_cannot_be_sent_ends_its_call() -> None:
    async def nothing(_request: BytesValue, _call: Call) -> Any:
        return None

    async def nothings(_requests: AsyncIterator[StringValue], _call: Call) -> AsyncGenerator[Any, None]:
        yield text("one")
        yield None

    server = FedServer(echo_with(Echo=nothing, Chat=nothings)[1])
    await server.send(request_headers(1), data(prefixed(BytesValue()), 1, ends=True))
    await server.send(request_headers(3, path=CHAT.path))
    assert {server.status(1), server.status(3)} == {StatusCode.INTERNAL}
    assert ECHO.path.encode() not in server.headers[1][b"grpc-message"]
    await server.close()


# ---- handlers' mistakes


class Over:
    def on_request(self, request: StringValue) -> None: ...
    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...
    def on_over(self) -> None: ...


class BrokenAtTheEnd(Over):
    def on_over(self) -> None:
        raise KeyError("secret of the server")


class Breaking(ExchangeHandler):
    """Breaks off where it is told to."""

    def __init__(self, where: str) -> None:
        self._where = where

    def open(self, exchange: ServedExchange, call: Call) -> Over:
        if self._where == "open, having sent":
            exchange.send(text("a"))
        if self._where == "open, having ended":
            exchange.end()
        if self._where == "when_over":
            call.when_over(self._fail)
        if self._where.startswith("open"):
            self._fail()
        return BrokenAtTheEnd() if self._where == "on_over" else Over()

    def _fail(self) -> None:
        raise KeyError("secret of the server")


BREAKING = ("open", "open, having sent", "open, having ended", "on_over", "when_over")


@pytest.mark.parametrize("where", BREAKING)
@pytest.mark.parametrize("ends", ["deadline", "reset", "stop"])
async def test_mistake_of_one_handler_is_its_own_calls_end_and_no_others(where: str, ends: str) -> None:
    heard: list[str] = []

    async def fail(request: StringValue, call: Call) -> StringValue:
        call.when_over(lambda: heard.append("before"))
        if where == "when_over":
            call.when_over(Breaking(where)._fail)
        call.when_over(lambda: heard.append("after"))
        return request

    server = FedServer(echo_with(Chat=Breaking(where), Fail=fail)[1], streams_max=1)
    await server.send(request_headers(1, path=WAIT.path), data(prefixed(text("x")), 1, ends=True))
    with capture_logs() as logs:
        await server.send(request_headers(3, path=CHAT.path))
        call = server.link.connection.streams.get(3)
        if call is not None:
            assert isinstance(call.listener, ServerCall)
            if ends == "deadline":
                call.listener._deadline_passed()
            elif ends == "stop":
                call.listener.stop()
            else:
                await server.send(frame(FrameType.RST_STREAM, b"\0\0\0\x08", stream_id=3))
        await server.send()
    assert server.link.connection.fault is None
    failures = [each for each in logs if each["event"] == "handler_failed"]
    assert len(failures) == 1, "told once"
    if where in ("open", "open, having sent"):
        assert server.status(3) == StatusCode.INTERNAL
        assert b"secret" not in server.headers[3][b"grpc-message"]
    # Its place is free again, once.
    await server.send(request_headers(5, path=COUNT.path), data(prefixed(text("1")), 5, ends=True))
    assert server.status(5) == StatusCode.OK
    # The neighbour's call goes on, and everybody else is told of their ends.
    assert server.status(1) is None
    assert 1 in server.link.connection.streams
    await server.send(request_headers(7, path=FAIL.path), data(prefixed(text("x")), 7, ends=True))
    assert server.status(7) == StatusCode.OK
    assert heard == ["before", "after"]
    await server.close()


async def test_those_who_watch_the_health_do_not_shut_out_those_who_check_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "_STANDARD_CALLS_MAX", 2)
    server = FedServer(echo_with()[1])
    watch = prefixed(health_pb2.HealthCheckRequest())
    for stream_id in (1, 3, 5):
        await server.send(
            request_headers(stream_id, path="/grpc.health.v1.Health/Watch"), data(watch, stream_id)
        )
    assert [server.status(each) for each in (1, 3, 5)] == [None, None, StatusCode.RESOURCE_EXHAUSTED]
    await server.send(request_headers(7, path="/grpc.health.v1.Health/Check"), data(watch, 7, ends=True))
    assert server.status(7) == StatusCode.NOT_FOUND, "it was not set, and is answered"
    asked = prefixed(reflection_pb2.ServerReflectionRequest(list_services=""))
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    await server.send(request_headers(9, path=path), data(asked, 9, ends=True))
    assert server.status(9) == StatusCode.OK
    await server.close()


# ---- how answers leave


async def test_large_answer_leaves_together_with_its_status() -> None:
    """Its client would be woken twice."""
    windows = [(SettingCode.INITIAL_WINDOW_SIZE, 1 << 20), (SettingCode.MAX_FRAME_SIZE, 1 << 20)]
    hello = PREFACE + settings_frame(windows) + window_update_frame(0, 1 << 20)
    server = FedServer(echo_with()[1], hello=hello)
    connection = server.link.connection
    left: list[list[int]] = []
    connection.on_full = lambda: left.append([each.kind for each in frames_in(b"".join(connection.output))])
    request = prefixed(BytesValue(value=bytes(700 << 10)))
    await server.send(request_headers(1), data(request, 1, ends=True))
    assert left == [[FrameType.HEADERS, FrameType.DATA, FrameType.HEADERS]]
    assert server.status(1) == StatusCode.OK
    await server.close()
