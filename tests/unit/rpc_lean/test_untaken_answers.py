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
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.status import StatusCode
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, feed, prefixed
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


class Full(FakeSocket):
    """It takes nothing: what is written lies with it, and its link is told of it as by a loop."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.size = 0
        self.is_aborted = False

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > SOCKET_BYTES_MAX and self._link.paused_since is None:
            self._link.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True
        self.size = 0

    def takes_all(self) -> None:
        self.size = 0
        if self._link.paused_since is not None:
            self._link.resume_writing()


SOCKET_BYTES_MAX = 256 << 10
#: frames of a megabyte, and more than one of them at once
GREEDY = PREFACE + settings_frame([(4, 16 * MIB), (5, MIB)]) + window_update_frame(0, 16 * MIB)


class Stuck:
    """Clients that ask, take whatever they are sent by their windows, and read nothing."""

    def __init__(self, server: FedServer, count: int) -> None:
        self._server = server
        self.links = [server.server._make_link() for _ in range(count)]
        self.sockets = [Full(link) for link in self.links]
        for link, full in zip(self.links, self.sockets, strict=True):
            link.connection_made(full)
            feed(link, GREEDY)
            full.takes_all()

    async def ask(self, path: str, content: bytes) -> None:
        for link, full in zip(self.links, self.sockets, strict=True):
            if not full.is_aborted:
                await self._server.send(request_headers(1, path=path), data(content, 1, ends=True), to=link)

    @property
    def lying_bytes(self) -> int:
        return sum(
            full.size + link.connection.output_bytes
            for link, full in zip(self.links, self.sockets, strict=True)
        )


async def very_large(_request: Any, _call: Call) -> Any:
    return text("x" * (MIB - 100))


async def test_what_lies_with_sockets_counts_after_its_calls_are_over() -> None:
    server = FedServer(echo_with(Fail=very_large)[1], hello=RELUCTANT, untaken_bytes_max=4 * MIB)
    stuck = Stuck(server, 3)
    await stuck.ask(FAIL.path, prefixed(text("a")))
    assert not any(link.connection.streams for link in stuck.links)
    assert 3 * MIB - 300 < stuck.lying_bytes == server.untaken_bytes
    for full in stuck.sockets:
        full.takes_all()
    assert not server.untaken_bytes
    await server.close()


async def test_connections_that_read_nothing_are_ended_before_they_hold_too_much_together() -> None:
    server = FedServer(echo_with(Fail=very_large)[1], hello=RELUCTANT, untaken_bytes_max=4 * MIB)
    stuck = Stuck(server, 20)
    await stuck.ask(FAIL.path, prefixed(text("a")))
    assert 3 * MIB < stuck.lying_bytes == server.untaken_bytes <= 4 * MIB
    assert [full.is_aborted for full in stuck.sockets] == [True] * 16 + [False] * 4, "who was first"
    await server.close()


async def test_answers_on_their_way_to_nodes_count_apart() -> None:
    server = FedServer(
        echo_with(Fail=very_large)[1],
        EchoServer().node_service,
        hello=RELUCTANT,
        untaken_bytes_max=2 * MIB,
        internal_untaken_bytes_max=8 * MIB,
    )
    nodes, clients = Stuck(server, 5), Stuck(server, 5)
    await nodes.ask(NODE_ECHO.path, prefixed(BytesValue(value=bytes(MIB - 100))))
    await clients.ask(FAIL.path, prefixed(text("a")))
    assert [full.is_aborted for full in nodes.sockets] == [False] * 5
    assert [full.is_aborted for full in clients.sockets] == [True] * 3 + [False] * 2
    await server.close()


async def look(server: FedServer) -> None:
    """As its timer does, which is not waited for."""
    server.server._look()
    timer = server.server._looking
    assert timer is not None
    timer.cancel()
    await server.send()


async def test_little_that_lies_with_a_socket_is_found_when_the_server_looks() -> None:
    server = FedServer(echo_with(Fail=large)[1], hello=RELUCTANT, untaken_bytes_max=MIB)
    stuck = Stuck(server, 8)
    await stuck.ask(FAIL.path, prefixed(text("a")))
    assert not server.untaken_bytes
    assert server.server._looking is None
    for _ in range(2):
        await look(server)
    assert 8 * ANSWER < stuck.lying_bytes == server.untaken_bytes
    await Stuck(server, 4).ask(FAIL.path, prefixed(text("a")))
    await look(server)
    assert MIB - 2 * ANSWER < server.untaken_bytes <= MIB
    await server.close()
