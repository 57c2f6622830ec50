"""What an exchange handler may rely on: straight on lean's streams, as a generator on all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call, Channel, Server, Service
from quorate.errors import OffsetOutOfRange, QuorateError, UnknownServerError
from quorate.rpc.lean.exchange_call import ExchangeCall
from tests.unit.seams.echo_service import CHAT, EchoServer, text
from tests.unit.seams.transport_worlds import (
    EXCHANGING,
    Run,
    World,
    on_lean,
)

LARGE = "x" * 300_000
#: of LARGE: more than all windows and sockets take
MANY = 200


@pytest.fixture(params=EXCHANGING)
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


class Listener:
    """Answers each request, unless it is one that it knows."""

    def __init__(self, exchange: ServedExchange, changed: asyncio.Event) -> None:
        self.exchange = exchange
        self.heard: list[str] = []
        self.waiting: list[str] = []
        self.overs = 0
        self.is_at_end = False
        self.sends_at_once_max = 0
        self._changed = changed

    def on_request(self, request: StringValue) -> None:
        assert not self.overs
        assert not self.is_at_end
        self.heard.append(request.value)
        self._changed.set()
        match request.value:
            case "refuse":
                raise OffsetOutOfRange("beyond the end", offset=7)
            case "break":
                raise ZeroDivisionError("a secret")
            case "end":
                self.exchange.end()
            case "pause":
                self.exchange.pause()
            case "flood":
                self.waiting += [LARGE] * MANY
                self.on_ready()
            case other:
                self.waiting.append(f"re: {other}")
                self.on_ready()

    def on_requests_end(self) -> None:
        self.is_at_end = True
        self._changed.set()
        self.on_ready()

    def on_ready(self) -> None:
        assert not self.overs
        sent = 0
        while self.waiting and self.exchange.is_ready:
            self.exchange.send(text(self.waiting.pop(0)), is_last=not self.waiting)
            sent += 1
        self.sends_at_once_max = max(self.sends_at_once_max, sent)
        if self.is_at_end and not self.waiting:
            self.exchange.end()

    def on_over(self) -> None:
        self.overs += 1
        self._changed.set()


class Handler(ExchangeHandler):
    def __init__(self) -> None:
        self.opened: list[Listener] = []
        self.changed = asyncio.Event()

    def open(self, exchange: ServedExchange, _call: Call) -> Listener:
        self.opened.append(Listener(exchange, self.changed))
        return self.opened[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def served(world: World) -> AsyncIterator[tuple[Handler, Channel, Server]]:
    handler, echo = Handler(), EchoServer()
    service: Service = echo.service
    service.handlers = {**service.handlers, CHAT: handler}
    server = await world.server.serve(world.address, [service, echo.node_service])
    channel = world.client.connect(server.address)
    try:
        yield handler, channel, server
    finally:
        await channel.close()
        await server.stop(0)
    assert all(each.overs == 1 for each in handler.opened), "each is told once that it is over"


async def requests(*values: str) -> AsyncIterator[StringValue]:
    for value in values:
        yield text(value)


async def answers(channel: Channel, *values: str) -> list[str]:
    return [each.value async for each in channel.stream(CHAT, requests(*values), timeout_s=None)]


async def error_of(channel: Channel, *values: str) -> QuorateError:
    with pytest.raises(QuorateError) as raised:
        await answers(channel, *values)
    return raised.value


def test_requests_are_answered_in_order_and_the_end_is_heard(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            assert await answers(channel, "a", "b", "c") == ["re: a", "re: b", "re: c"]
            [listener] = handler.opened
            assert listener.is_at_end
            assert await answers(channel) == []

    run(scenario)


def test_lean_needs_neither_task_nor_generator() -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            await answers(channel, "a")
            assert isinstance(handler.opened[0].exchange, ExchangeCall)

    on_lean(scenario)


def test_what_a_listener_raises_ends_the_stream(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            refused = await error_of(channel, "refuse", "never heard")
            assert isinstance(refused, OffsetOutOfRange)
            assert refused.facts["offset"] == 7
            broken = await error_of(channel, "break")
            assert isinstance(broken, UnknownServerError)
            assert "secret" not in str(broken)
            assert [each.heard for each in handler.opened] == [["refuse"], ["break"]]

    run(scenario)


def test_handler_may_end_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            assert await answers(channel, "a", "end") == ["re: a"]
            assert handler.opened[0].heard == ["a", "end"]

    run(scenario)


def test_nothing_is_heard_while_it_is_paused_and_all_of_it_later(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            asking = asyncio.create_task(answers(channel, "pause", "a", "b"))
            await handler.until(lambda: bool(handler.opened and handler.opened[0].heard))
            [listener] = handler.opened
            # Another call goes all the way meanwhile, so those that wait have had the time to arrive.
            assert await answers(channel, "c") == ["re: c"]
            assert listener.heard == ["pause"]
            listener.exchange.resume()
            assert await asking == ["re: a", "re: b"]

    run(scenario)


def test_client_that_does_not_read_holds_up_its_handler_and_nobody_else(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):
            slow = channel.stream(CHAT, requests("flood"), timeout_s=None)
            assert (await anext(slow)).value == LARGE
            [listener] = handler.opened
            assert await answers(channel, "a") == ["re: a"]
            assert listener.waiting, "what the client does not take waits with the handler"
            assert listener.sends_at_once_max < MANY
            count = 1
            async for answer in slow:
                assert answer.value == LARGE
                count += 1
                if count == MANY:
                    break
            assert not listener.waiting
            await slow.aclose()

    run(scenario)


def test_client_that_goes_is_noticed(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):

            async def endless() -> AsyncIterator[StringValue]:
                yield text("a")
                await asyncio.get_running_loop().create_future()

            stream = channel.stream(CHAT, endless(), timeout_s=None)
            assert (await anext(stream)).value == "re: a"
            await stream.aclose()
            await handler.until(lambda: handler.opened[0].overs == 1)

    run(scenario)


def test_many_requests_at_once_are_all_heard(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (_handler, channel, _server):
            values = [str(number) for number in range(3_000)]
            assert await answers(channel, *values) == [f"re: {value}" for value in values]

    run(scenario)


def test_stream_with_a_deadline_ends_by_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, _server):

            async def endless() -> AsyncIterator[StringValue]:
                await asyncio.get_running_loop().create_future()
                yield text("never")

            with pytest.raises(QuorateError):
                await anext(channel.stream(CHAT, endless(), timeout_s=0.1))
            await handler.until(lambda: handler.opened[0].overs == 1)

    run(scenario)


def test_stop_of_the_server_ends_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with served(world) as (handler, channel, server):

            async def endless() -> AsyncIterator[StringValue]:
                yield text("a")
                await asyncio.get_running_loop().create_future()

            stream = channel.stream(CHAT, endless(), timeout_s=None)
            assert (await anext(stream)).value == "re: a"
            stopping = asyncio.create_task(server.stop(0.01))
            with pytest.raises(QuorateError):
                await anext(stream)
            await stopping
            await handler.until(lambda: handler.opened[0].overs == 1)

    run(scenario)
