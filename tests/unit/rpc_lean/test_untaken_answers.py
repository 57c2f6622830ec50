"""What answers hold that their clients do not take is bounded, over all connections together."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from structlog.testing import capture_logs

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    FrameType,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.status import StatusCode
from tests.unit.rpc_lean.fake_socket import FakeSocket
from tests.unit.rpc_lean.fed_server import FedServer, echo_with, feed, prefixed
from tests.unit.rpc_lean.peers import data, frame, request_headers
from tests.unit.seams.echo_service import CHAT, FAIL, NODE_ECHO, EchoServer, text

MIB = 1 << 20
#: from a client that takes no answers until it says so
RELUCTANT = PREFACE + settings_frame([(4, 0)])
ANSWER = 60_000
#: of a method that is known for large ones once it has given one
LARGE = 100_000


async def answer(_request: StringValue, _call: Call) -> StringValue:
    return text("x" * ANSWER)


async def large(_request: StringValue, _call: Call) -> StringValue:
    return text("x" * LARGE)


def server_with(handler: Any = answer, **options: Any) -> FedServer:
    return FedServer(echo_with(Fail=handler)[1], hello=RELUCTANT, **options)


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
    server = server_with(untaken_bytes_max=MIB)
    await ask(server, range(1, 200, 2))
    assert MIB * 7 / 8 - ANSWER < waiting_bytes(server) <= MIB
    assert waiting_bytes(server) == server.untaken_bytes
    left = len(server.link.connection.streams)
    assert cut(server) == list(range(1, 200 - 2 * left, 2)), "of equals, who has waited longest"
    await server.close()


async def test_cut_answers_are_logged_once_for_each_look() -> None:
    server = server_with(untaken_bytes_max=MIB)
    with capture_logs() as logs:
        await ask(server, range(1, 2 * 21, 2))
    told = [each for each in logs if each["event"] == "untaken_answers_cut"]
    # An eighth is free afterwards, and room for two.
    assert [each["calls"] for each in told] == [3, 3]
    await server.close()


async def test_connection_that_takes_nothing_pays_for_itself_before_others_do() -> None:
    server = server_with(untaken_bytes_max=MIB)
    modest = server.another_link(RELUCTANT)
    await ask(server, range(1, 2, 2), modest)
    await ask(server, range(1, 200, 2))
    [stream] = modest.connection.streams.values()
    assert stream.waiting_bytes >= ANSWER
    await server.close()


async def test_what_a_client_has_taken_of_an_answer_does_not_count() -> None:
    server = server_with(untaken_bytes_max=MIB)
    await ask(server, range(1, 33, 2))
    for stream_id in range(1, 33, 2):
        await server.send(window_update_frame(stream_id, ANSWER // 2), window_update_frame(0, ANSWER))
    await ask(server, range(33, 49, 2))
    assert not cut(server)
    await server.close()


async def test_answers_that_are_taken_are_no_longer_held() -> None:
    server = server_with(untaken_bytes_max=MIB)
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
    for stream_id in range(201, 401, 2):
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
    assert MIB * 7 / 8 - ANSWER < waiting_bytes(server) <= MIB
    for stream_id in list(server.link.connection.streams):
        await server.send(window_update_frame(stream_id, MIB), window_update_frame(0, MIB))
    assert not server.untaken_bytes
    assert server.link.connection.streams, "they go on"
    await server.close()


async def test_answer_behind_one_that_waits_gives_its_client_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchanges: list[ServedExchange] = []

    class Answering(ExchangeHandler):
        def open(self, exchange: ServedExchange, _call: Call) -> Any:
            exchanges.append(exchange)
            exchange.send(text("x" * ANSWER))
            return SimpleNamespace(on_ready=lambda: None, on_over=lambda: None)

    server = FedServer(echo_with(Chat=Answering())[1], hello=RELUCTANT, taking_s_max=8.0)
    at = At(server, monkeypatch)
    await server.send(request_headers(1, path=CHAT.path))
    await at.look(6.0)
    exchanges[0].send(text("x" * ANSWER))
    exchanges[0].end()
    assert server.untaken_bytes > 2 * ANSWER
    assert not cut(server)
    await at.look(2.0)
    assert cut(server) == [1]
    await server.close()


class Full(FakeSocket):
    """It takes nothing: what is written lies with it, and its link is told of it as by a loop."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.size = 0
        self.is_aborted = False
        #: what it has passed on, since the beginning
        self.taken = 0

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if not self._link.is_paused:
            self._link.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True
        self.size = 0

    def takes(self, size: int) -> None:
        """Of what lies here; when that is all, the link is told so."""
        size = min(size, self.size)
        self.taken += size
        self.size -= size
        if not self.size and self._link.is_paused:
            self._link.resume_writing()

    def takes_all(self) -> None:
        self.size = 0
        if self._link.is_paused:
            self._link.resume_writing()


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
            while full.size:
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
    server = server_with(very_large, untaken_bytes_max=16 * MIB)
    stuck = Stuck(server, 3)
    await stuck.ask(FAIL.path, prefixed(text("a")))
    assert not any(link.connection.streams for link in stuck.links)
    # Trailers are written behind, and found when it is looked.
    assert 3 * MIB - 300 < server.untaken_bytes <= stuck.lying_bytes < 3 * MIB
    for full in stuck.sockets:
        while full.size:
            full.takes_all()
    assert not server.untaken_bytes
    await server.close()


async def test_sockets_are_given_little_once_they_hold_half_of_the_bound_together() -> None:
    server = server_with(very_large, untaken_bytes_max=64 * MIB)
    stuck = Stuck(server, 1_000)
    await stuck.ask(FAIL.path, prefixed(text("a")))
    with_sockets = sum(full.size for full in stuck.sockets)
    assert 32 * MIB < with_sockets < 32 * MIB + 2 * MIB + 1_000 * 10_000
    assert server.untaken_bytes <= 64 * MIB
    assert not any(full.is_aborted for full in stuck.sockets)
    # What they take makes it as before.
    for full in stuck.sockets:
        full.takes_all()
    while any(full.size for full in stuck.sockets):
        for full in stuck.sockets:
            full.takes_all()
        await server.send()
    late = Stuck(server, 1)
    await late.ask(FAIL.path, prefixed(text("a")))
    assert late.sockets[0].size > MIB - 200
    await server.close()


async def test_calls_of_large_answers_wait_for_room_and_others_do_not() -> None:
    server = FedServer(echo_with(Fail=large)[1], hello=GREEDY, untaken_bytes_max=MIB)
    slow = server.another_link(RELUCTANT)
    await ask(server, range(1, 17, 2), slow)
    untaken = server.server._untaken
    assert untaken.is_full
    # It has been looked for room a moment ago.
    untaken._looked_at = asyncio.get_running_loop().time() + 1_000
    await ask(server, range(1, 5, 2))
    await server.send(request_headers(5), data(prefixed(BytesValue(value=b"x")), 5, ends=True))
    assert [server.status(each) for each in (1, 3, 5)] == [None, None, StatusCode.OK]
    assert server.held_bytes == 2 * (len(prefixed(text("a"))) - 5), "they stay as they were sent"
    for each in range(1, 7, 2):
        feed(slow, window_update_frame(each, MIB) + window_update_frame(0, MIB))
    await server.send()
    assert [server.status(each) for each in (1, 3)] == [StatusCode.OK] * 2
    assert not server.held_bytes
    await server.close()


async def test_call_that_waits_for_room_is_let_go_of_when_its_client_gives_it_up() -> None:
    server = FedServer(echo_with(Fail=large)[1], hello=GREEDY, untaken_bytes_max=MIB)
    slow = server.another_link(RELUCTANT)
    await ask(server, range(1, 17, 2), slow)
    server.server._untaken._looked_at = asyncio.get_running_loop().time() + 1_000
    await ask(server, range(1, 5, 2))
    await server.send(reset_frame(1, ErrorCode.CANCEL))
    assert not server.server.surroundings.ending
    assert len(server.server._untaken._waiting) == 1
    for each in range(1, 7, 2):
        feed(slow, window_update_frame(each, MIB) + window_update_frame(0, MIB))
    await server.send()
    assert [server.status(each) for each in (1, 3)] == [None, StatusCode.OK]
    await server.close()


async def test_who_takes_nothing_for_seconds_makes_room_for_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = FedServer(echo_with(Fail=large)[1], hello=GREEDY, untaken_bytes_max=MIB)
    at = At(server, monkeypatch)
    slow = server.another_link(RELUCTANT)
    await ask(server, range(1, 17, 2), slow)
    await ask(server, range(1, 3, 2))
    for _ in range(4):
        await at.look(1.0)
        assert server.status(1) is None
        assert len(slow.connection.streams) == 8
    await at.look(1.0)
    assert server.status(1) == StatusCode.OK
    assert list(slow.connection.streams) == list(range(5, 17, 2)), "who has waited longest"
    await server.close()


async def test_calls_that_came_at_once_wait_as_they_were_sent_once_others_have_answered() -> None:
    """Taken apart together, before the first of them made it full."""
    server = FedServer(echo_with(Fail=large)[1], hello=RELUCTANT, untaken_bytes_max=MIB)
    await ask(server, range(1, 3, 2))
    ids = range(3, 41, 2)
    asked = prefixed(text("a" * 1_000))
    await server.send(*(request_headers(each, path=FAIL.path) + data(asked, each, ends=True) for each in ids))
    answered = [each.waiting_bytes for each in server.link.connection.streams.values() if each.waiting_bytes]
    assert MIB * 3 / 4 < sum(answered) <= MIB
    assert server.held_bytes == (1 + len(ids) - len(answered)) * (len(asked) - 5)
    assert len(server.server._untaken._waiting) == 1 + len(ids) - len(answered)
    await server.close()
    assert not server.server._untaken._waiting, "who is gone waits for nothing"


async def test_largest_answer_has_room_before_another_one_is_let_in() -> None:
    """A quarter of the bound is not enough for it: who takes his had lost it."""

    async def one_of_half(_request: StringValue, _call: Call) -> StringValue:
        return text("x" * (MIB // 2 - 1_000))

    server = FedServer(echo_with(Fail=one_of_half)[1], hello=RELUCTANT, untaken_bytes_max=MIB)
    await ask(server, range(1, 7, 2))
    assert [each.waiting_bytes > 0 for each in server.link.connection.streams.values()] == [True, True, False]
    assert not cut(server)
    await server.close()


async def test_connection_that_moves_loses_no_call_while_another_takes_nothing() -> None:
    server = server_with(untaken_bytes_max=MIB)
    moving = Stuck(server, 1)
    [link] = moving.links
    feed(link, b"".join(request_headers(each, path=FAIL.path) for each in range(1, 31, 2)))
    for each in range(1, 31, 2):
        await server.send(data(prefixed(text("a")), each, ends=True), to=link)
    # It holds most by far.
    held = len(link.connection.streams) * ANSWER + moving.lying_bytes
    await ask(server, range(1, 60, 2))
    assert cut(server)
    assert not moving.sockets[0].is_aborted
    assert held > MIB / 2
    while moving.sockets[0].size:
        moving.sockets[0].takes_all()
        await server.send()
    assert not link.connection.streams
    await server.close()


async def test_answers_on_their_way_to_nodes_count_apart() -> None:
    server = FedServer(
        echo_with(Fail=very_large)[1],
        EchoServer().node_service,
        hello=RELUCTANT,
        untaken_bytes_max=16 * MIB,
        internal_untaken_bytes_max=8 * MIB,
    )
    nodes, clients = Stuck(server, 3), Stuck(server, 2)
    await nodes.ask(NODE_ECHO.path, prefixed(BytesValue(value=bytes(MIB - 100))))
    await clients.ask(FAIL.path, prefixed(text("a")))
    assert 3 * MIB - 300 < server.server._untaken_of_nodes.bytes < 3 * MIB + 300
    assert 2 * MIB - 300 < server.server._untaken.bytes < 2 * MIB + 300
    await server.close()


class At:
    """A clock that stands where it is put."""

    def __init__(self, server: FedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        # Whole seconds: sums of them are exact.
        self.now = float(math.ceil(asyncio.get_running_loop().time()))
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    async def look(self, after_s: float) -> None:
        """As its timer does, which is not waited for."""
        self.now += after_s
        self._server.server._look()
        timer = self._server.server._looking
        assert timer is not None
        timer.cancel()
        await self._server.send()


@pytest.mark.parametrize("answers", [1, 20], ids=["beside the socket", "in its streams as well"])
async def test_connection_that_takes_nothing_is_ended_after_the_time_for_taking(
    answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_with(very_large, taking_s_max=8.0)
    at = At(server, monkeypatch)
    stuck = Stuck(server, 1)
    for each in range(1, 2 * answers, 2):
        call = request_headers(each, path=FAIL.path) + data(prefixed(text("a")), each, ends=True)
        await server.send(call, to=stuck.links[0])
    for _ in range(3):
        await at.look(2.0)
        assert not stuck.sockets[0].is_aborted
    await at.look(2.0)
    assert stuck.sockets[0].is_aborted
    await server.close()


async def test_connection_whose_socket_takes_bytes_is_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a call on it: not even if neither can be done within the time for taking."""
    server = server_with(very_large, taking_s_max=8.0)
    at = At(server, monkeypatch)
    slow = Stuck(server, 1)
    for each in (1, 3, 5):
        call = request_headers(each, path=FAIL.path) + data(prefixed(text("a")), each, ends=True)
        await server.send(call, to=slow.links[0])
    while slow.sockets[0].taken < 3 * MIB - 300:
        slow.sockets[0].takes(32 << 10)
        await at.look(2.0)
        assert not slow.sockets[0].is_aborted
    assert not slow.links[0].connection.streams
    await server.close()


@pytest.mark.parametrize("window", [4_000, 1], ids=["slowly", "byte by byte"])
async def test_client_that_opens_its_window_now_and_then_reads_unless_it_is_next_to_nothing(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is sent is acknowledged at once: nothing is on its way whenever it is looked."""
    server = server_with(taking_s_max=8.0)
    at = At(server, monkeypatch)
    await ask(server, range(1, 2))
    for _ in range(12):
        await server.send(window_update_frame(1, window))
        await at.look(2.0)
    assert cut(server) == ([] if window > 1 else [1])
    await server.close()


async def test_client_that_pauses_for_less_than_the_time_for_taking_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = server_with(taking_s_max=8.0)
    at = At(server, monkeypatch)
    await ask(server, range(1, 2))
    for _ in range(5):
        for _ in range(3):
            await at.look(2.0)
        await server.send(window_update_frame(1, 10_000))
    await server.send(window_update_frame(1, MIB))
    assert server.status(1) == StatusCode.OK
    await server.close()


async def test_call_whose_window_stays_shut_is_ended_though_others_move_on_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = server_with(taking_s_max=8.0)
    at = At(server, monkeypatch)
    await ask(server, range(1, 5, 2))
    for _ in range(5):
        await server.send(window_update_frame(3, 4_000), window_update_frame(0, 4_000))
        await at.look(2.0)
    assert cut(server) == [1]
    await server.close()


async def test_call_that_waits_for_others_on_its_connection_is_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own window is open: it is not its client that leaves it here."""
    server = server_with(very_large, taking_s_max=8.0)
    at = At(server, monkeypatch)
    slow = Stuck(server, 1)
    for each in (1, 3, 5):
        call = request_headers(each, path=FAIL.path) + data(prefixed(text("a")), each, ends=True)
        await server.send(call, to=slow.links[0])
    last = slow.links[0].connection.streams[5]
    for _ in range(12):
        slow.sockets[0].takes(16 << 10)
        await at.look(2.0)
    assert last.waiting_bytes > MIB - 200
    assert not slow.sockets[0].is_aborted
    await server.close()


async def test_call_whose_window_stays_shut_is_ended_though_its_client_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = server_with(taking_s_max=8.0)
    at = At(server, monkeypatch)
    await ask(server, range(1, 2))
    for _ in range(4):
        assert not cut(server)
        await server.send(frame(FrameType.PING, bytes(8)))
        await at.look(2.0)
    assert cut(server) == [1]
    await server.close()


async def test_peer_on_a_slow_link_is_not_dead_while_bytes_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is asked with waits behind them, and so does its answer."""
    server = server_with(very_large, keepalive_s=0.5, keepalive_timeout_s=0.5)
    at = At(server, monkeypatch)
    slow = Stuck(server, 1)
    [link], [full] = slow.links, slow.sockets
    await slow.ask(FAIL.path, prefixed(text("a")))
    for _ in range(5):
        at.now += 0.5
        link._look()
        assert not full.is_aborted
        full.takes(1_000)
    at.now += 0.5
    link._look()
    at.now += 0.5
    link._look()
    assert full.is_aborted
    await server.close()
