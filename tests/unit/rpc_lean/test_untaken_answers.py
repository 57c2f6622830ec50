"""What answers hold that their clients do not take is bounded, over all connections together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from structlog.testing import capture_logs

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.rpc.lean.frames import PREFACE, ErrorCode, FrameType, settings_frame, window_update_frame
from quorate.rpc.lean.status import StatusCode
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, prefixed
from tests.unit.rpc_lean.peers import data, request_headers
from tests.unit.seams.echo_service import CHAT, FAIL, NODE_ECHO, EchoServer, text

MIB = 1 << 20
#: from a client that takes no answers until it says so
RELUCTANT = PREFACE + settings_frame([(4, 0)])
ANSWER = 100_000


async def large(_request: StringValue, _call: Call) -> StringValue:
    return text("x" * ANSWER)


def large_answers(**options: Any) -> FedServer:
    return FedServer(echo_with(Fail=large)[1], hello=RELUCTANT, **options)


async def ask(server: FedServer, stream_ids: range, link: Any = None) -> None:
    for stream_id in stream_ids:
        await server.send(
            request_headers(stream_id, path=FAIL.path),
            data(prefixed(text("a")), stream_id, ends=True),
            to=link,
        )


def cut(server: FedServer) -> list[int]:
    """Calls that were given up."""
    return [
        each.stream_id
        for each in server.frames
        if each.kind == FrameType.RST_STREAM and each.code is ErrorCode.CANCEL
    ]


def waiting_bytes(server: FedServer) -> int:
    return sum(
        stream.waiting_bytes for link in server.server.links for stream in link.connection.streams.values()
    )


async def test_unary_answers_that_nobody_takes_hold_no_more_than_they_may() -> None:
    server = large_answers(untaken_bytes_max=MIB)
    await ask(server, range(1, 200, 2))
    assert MIB - 2 * ANSWER < waiting_bytes(server) <= MIB
    assert waiting_bytes(server) == server.untaken_bytes
    assert cut(server) == list(range(1, 200 - 20, 2)), "of equals, who has waited longest"
    await server.close()


async def test_cut_answers_are_logged_once_for_each_look() -> None:
    server = large_answers(untaken_bytes_max=MIB)
    with capture_logs() as logs:
        await ask(server, range(1, 2 * 12, 2))
    told = [each for each in logs if each["event"] == "untaken_answers_cut"]
    assert [each["calls"] for each in told] == [1, 1]
    await server.close()


async def test_connection_that_takes_nothing_pays_for_itself_before_others_do() -> None:
    server = large_answers(untaken_bytes_max=MIB)
    modest = server.another_link(RELUCTANT)
    await ask(server, range(1, 2, 2), modest)
    await ask(server, range(1, 200, 2))
    [stream] = modest.connection.streams.values()
    assert stream.waiting_bytes > ANSWER
    await server.close()


async def test_what_a_client_has_taken_of_an_answer_does_not_count() -> None:
    server = large_answers(untaken_bytes_max=MIB)
    await ask(server, range(1, 19, 2))
    for stream_id in range(1, 19, 2):
        await server.send(window_update_frame(stream_id, ANSWER // 2), window_update_frame(0, ANSWER))
    await ask(server, range(19, 27, 2))
    assert not cut(server)
    await server.close()


async def test_answers_that_are_taken_are_no_longer_held() -> None:
    server = large_answers(untaken_bytes_max=MIB)
    for stream_id in range(1, 101, 2):
        await ask(server, range(stream_id, stream_id + 1))
        await server.send(window_update_frame(stream_id, MIB), window_update_frame(0, MIB))
        assert server.status(stream_id) == StatusCode.OK
        assert not server.untaken_bytes
    assert not cut(server)
    await server.close()


async def test_nodes_have_a_bound_of_their_own_which_clients_cannot_fill() -> None:
    value = bytes(ANSWER)
    server = FedServer(
        echo_with(Fail=large)[1],
        EchoServer().node_service,
        hello=RELUCTANT,
        untaken_bytes_max=MIB,
        internal_untaken_bytes_max=2 * MIB,
    )
    for stream_id in range(1, 31, 2):
        call = data(prefixed(BytesValue(value=value)), stream_id, ends=True)
        await server.send(request_headers(stream_id, path=NODE_ECHO.path), call)
    await ask(server, range(31, 131, 2))
    of_nodes = [stream_id for stream_id in server.link.connection.streams if stream_id < 31]
    assert len(of_nodes) == 15
    assert MIB < waiting_bytes(server) <= 2.5 * MIB + ANSWER
    for stream_id in range(201, 301, 2):
        call = data(prefixed(BytesValue(value=value)), stream_id, ends=True)
        await server.send(request_headers(stream_id, path=NODE_ECHO.path), call)
    assert waiting_bytes(server) <= 3 * MIB
    await server.close()


@pytest.mark.parametrize("is_exchange", [False, True], ids=["generator", "exchange"])
async def test_answers_of_streams_count_while_they_wait(*, is_exchange: bool) -> None:
    class Answering(ExchangeHandler):
        def open(self, exchange: ServedExchange, _call: Call) -> Any:
            exchange.send(text("x" * ANSWER))
            return Listening()

    class Listening:
        def on_request(self, request: StringValue) -> None: ...
        def on_requests_end(self) -> None: ...
        def on_ready(self) -> None: ...
        def on_over(self) -> None: ...

    async def chat(_requests: Any, _call: Call) -> Any:
        yield text("x" * ANSWER)
        await asyncio.Event().wait()

    service = echo_with(Chat=Answering() if is_exchange else chat)[1]
    server = FedServer(service, hello=RELUCTANT, untaken_bytes_max=MIB)
    for stream_id in range(1, 101, 2):
        await server.send(request_headers(stream_id, path=CHAT.path))
    assert MIB - 2 * ANSWER < waiting_bytes(server) <= MIB
    for stream_id in list(server.link.connection.streams):
        await server.send(window_update_frame(stream_id, MIB), window_update_frame(0, MIB))
    assert not server.untaken_bytes
    assert server.link.connection.streams, "they go on"
    await server.close()


async def test_answer_behind_one_that_waits_gives_its_client_no_more_time() -> None:
    exchanges: list[ServedExchange] = []

    class Answering(ExchangeHandler):
        def open(self, exchange: ServedExchange, _call: Call) -> Any:
            exchanges.append(exchange)
            exchange.send(text("x" * ANSWER))
            return SimpleNamespace(on_ready=lambda: None, on_over=lambda: None)

    server = FedServer(echo_with(Chat=Answering())[1], hello=RELUCTANT)
    await server.send(request_headers(1, path=CHAT.path))
    [call] = server.server._calls()
    since = call.taking_since
    assert since is not None
    exchanges[0].send(text("x" * ANSWER))
    exchanges[0].end()
    assert call.taking_since == since
    assert server.untaken_bytes > 2 * ANSWER
    await server.close()
