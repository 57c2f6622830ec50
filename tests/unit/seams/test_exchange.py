"""What an exchange promises, straight on lean's streams and made of the streams of all other transports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from quorate.core.exchange import Exchange, open_exchange
from quorate.core.transport import Channel
from quorate.errors import OffsetOutOfRange, QuorateError, Unavailable, UnknownServerError
from quorate.rpc.lean.client_exchange import LeanExchange
from tests.unit.seams.echo_service import CHAT, COUNT, ENDLESS, text
from tests.unit.seams.transport_worlds import (
    EXCHANGING,
    Run,
    World,
    on_lean,
)

LARGE = "x" * 3_000_000


@pytest.fixture(params=EXCHANGING)
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


class Listener:
    """Sends what it has as it may, and keeps what it is told."""

    def __init__(self, channel: Channel, *requests: str, method: object = CHAT) -> None:
        self.outgoing = list(requests)
        self.heard: list[str] = []
        self.ends: list[QuorateError | None] = []
        self.changed = asyncio.Event()
        self.on_heard: Callable[[str], None] = lambda _: None
        self.exchange: Exchange[StringValue] = open_exchange(channel, method, self)  # type: ignore[arg-type]

    def on_ready(self) -> None:
        assert not self.ends
        while self.outgoing and self.exchange.is_ready:
            self.exchange.send(text(self.outgoing.pop(0)), is_last=not self.outgoing)

    def on_response(self, response: StringValue) -> None:
        assert not self.ends
        self.heard.append(response.value)
        self.changed.set()
        self.on_heard(response.value)

    def on_end(self, error: QuorateError | None) -> None:
        self.ends.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def test_requests_are_answered_in_order(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "a", "b", "c")
            await listener.until(lambda: len(listener.heard) == 3)
            assert listener.heard == ["re: a", "re: b", "re: c"]
            second = Listener(channel, "d")
            if second.exchange.is_ready:  # it is open at once where a connection is there
                second.on_ready()
            await second.until(lambda: bool(second.heard))
            await listener.exchange.close()
            await second.exchange.close()
            assert listener.ends == second.ends == []

    run(scenario)


def test_answer_may_be_answered_at_once(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "0")

            def again(_: str) -> None:
                listener.outgoing.append(str(len(listener.heard)))
                listener.on_ready()

            listener.on_heard = again
            await listener.until(lambda: len(listener.heard) == 20)
            listener.on_heard = lambda _: None
            assert listener.heard[:20] == [f"re: {number}" for number in range(20)]
            await listener.exchange.close()

    run(scenario)


def test_peer_that_takes_no_more_makes_it_wait(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, *[LARGE] * 6)
            await listener.until(lambda: len(listener.heard) == 6)
            assert [len(each) for each in listener.heard] == [len(LARGE) + 4] * 6
            await listener.exchange.close()

    run(scenario)


def test_error_of_the_handler_is_the_end(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "a", "fail")
            await listener.until(lambda: bool(listener.ends))
            (error,) = listener.ends
            assert type(error) is OffsetOutOfRange
            assert error.facts["log_end_offset"] == 9
            assert not listener.exchange.is_ready
            await listener.exchange.close()
            assert len(listener.ends) == 1

    run(scenario)


def test_server_that_stops_ends_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, server):
            listener = Listener(channel, "x", method=ENDLESS)
            await listener.until(lambda: listener.heard == ["first"])
            await echo.waiting.wait()
            await server.stop(0)
            await listener.until(lambda: bool(listener.ends))
            assert isinstance(listener.ends[0], QuorateError)
            await listener.exchange.close()

    run(scenario)


def test_nobody_there_is_the_end(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, server):
            await server.stop(0)
            listener = Listener(channel, "a")
            assert not listener.ends, "never within open_exchange"
            await listener.until(lambda: bool(listener.ends))
            assert type(listener.ends[0]) is Unavailable
            await listener.exchange.close()

    run(scenario)


def test_closed_channel_ends_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "a")
            await listener.until(lambda: bool(listener.heard))
            await channel.close()
            await listener.until(lambda: bool(listener.ends))
            assert isinstance(listener.ends[0], QuorateError)
            late = Listener(channel, "a")
            await late.until(lambda: bool(late.ends))
            assert isinstance(late.ends[0], Unavailable)
            for each in (listener, late):
                await each.exchange.close()

    run(scenario)


def test_cancelled_one_tells_the_server_and_not_the_listener(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _server):
            listener = Listener(channel, "x", method=ENDLESS)
            await listener.until(lambda: listener.heard == ["first"])
            await echo.waiting.wait()
            listener.exchange.cancel()
            assert not listener.exchange.is_ready
            assert await echo.ended.get() == "endless"
            await listener.exchange.close()
            assert listener.ends == []
            early = Listener(channel, "a")
            await early.exchange.close()
            assert not early.heard
            assert not early.ends

    run(scenario)


def test_cancelled_within_an_answer_hears_no_other(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "1000", method=COUNT)
            listener.on_heard = lambda _: listener.exchange.cancel()
            await listener.until(lambda: bool(listener.heard))
            await listener.exchange.close()
            assert listener.heard == ["0"]
            assert listener.ends == []

    run(scenario)


def test_listener_that_fails_ends_its_own_exchange_alone(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            other = Listener(channel, "a")
            await other.until(lambda: bool(other.heard))
            listener = Listener(channel, "b", "c")

            def fail(_: str) -> None:
                raise ZeroDivisionError("a bug")

            listener.on_heard = fail
            if listener.exchange.is_ready:
                listener.on_ready()
            await listener.until(lambda: bool(listener.ends))
            assert type(listener.ends[0]) is UnknownServerError
            assert "ZeroDivisionError" in listener.ends[0].message
            assert listener.heard == ["re: b"]
            other.outgoing.append("d")
            other.on_ready()
            await other.until(lambda: len(other.heard) == 2)
            for each in (listener, other):
                await each.exchange.close()

    run(scenario)


def test_lean_needs_no_adapter() -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _server):
            listener = Listener(channel, "a")
            assert isinstance(listener.exchange, LeanExchange)
            await listener.exchange.close()

    on_lean(scenario)
