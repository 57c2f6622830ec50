"""What callers and handlers may rely on, over every implementation of the seam alike."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.transport import Channel, Method
from quorate.errors import (
    ERRORS_BY_CODE,
    CannotListen,
    InvalidRequest,
    OffsetOutOfRange,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
)
from tests.unit.seams.echo_service import (
    CHAT,
    COUNT,
    ECHO,
    ENDLESS,
    FAIL,
    NODE_ECHO,
    NODE_ENDLESS,
    NODE_WAIT,
    POLL,
    WAIT,
    EchoServer,
    one,
    text,
)
from tests.unit.seams.transport_worlds import (
    INTERNAL_CALLS_MAX,
    REQUESTS_MAX,
    STREAMS_MAX,
    Run,
    World,
    from_grpcio_to_lean,
    from_lean_to_grpcio,
    on_grpcio,
    on_grpcio_with_uvloop,
    on_lean,
    on_lean_with_uvloop,
    on_sim,
)

#: long enough never to matter
AMPLE_S = 30.0


@pytest.fixture(
    params=[
        on_grpcio,
        on_grpcio_with_uvloop,
        on_lean,
        on_lean_with_uvloop,
        from_grpcio_to_lean,
        from_lean_to_grpcio,
        on_sim,
    ]
)
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


async def expect(error: type[QuorateError], call: Awaitable[object]) -> QuorateError:
    with pytest.raises(error) as caught:
        await call
    assert type(caught.value) is error
    return caught.value


async def collect(responses: AsyncIterator[StringValue]) -> list[str]:
    return [response.value async for response in responses]


# ---- unary calls


def test_unary_call_returns_the_handlers_answer(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            for value in (b"", b"x", b"y" * 1_000_000):
                response = await channel.call(ECHO, BytesValue(value=value), timeout_s=AMPLE_S)
                assert response == BytesValue(value=value)
            assert [len(value) for value in echo.echoed] == [0, 1, 1_000_000]
            assert all(echo.peers)
            assert all(0 < remaining < 2 * AMPLE_S for remaining in echo.remaining_s)

    run(scenario)


def test_calls_run_side_by_side(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            waiting = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
            await echo.waiting.wait()
            answers = await asyncio.gather(
                *(channel.call(ECHO, BytesValue(value=b"%d" % n), timeout_s=AMPLE_S) for n in range(2))
            )
            assert [answer.value for answer in answers] == [b"0", b"1"]
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(scenario)


@pytest.mark.parametrize("code", sorted(ERRORS_BY_CODE))
def test_every_error_arrives_as_the_class_that_was_raised(run: Run, code: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            call = channel.call(FAIL, text(code), timeout_s=AMPLE_S)
            error = await expect(ERRORS_BY_CODE[code], call)
            assert error.message == "told to fail"
            assert error.facts == {"offset": 5, "topic": "orders", "leader": None}

    run(scenario)


@pytest.mark.parametrize("how", ["crash", "timeout"])
def test_unexpected_failure_of_a_handler_tells_the_caller_nothing(run: Run, how: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            error = await expect(UnknownServerError, channel.call(FAIL, text(how), timeout_s=AMPLE_S))
            number = error.facts["request_id"]
            assert error.message == f"the server failed; its log says why, under request_id {number}"
            assert error.facts == {"method": FAIL.path, "request_id": number}

    run(scenario)


def test_deadline_ends_the_call_on_both_sides(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            await expect(RequestTimedOut, channel.call(WAIT, text("x"), timeout_s=0.2))
            assert await echo.ended.get() == "wait"

    run(scenario)


def test_cancelled_caller_cancels_the_handler(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            call = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
            await echo.waiting.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await echo.ended.get() == "wait"

    run(scenario)


def test_nobody_at_the_address_is_unavailable(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, server):
            await server.stop(0)
            await expect(Unavailable, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))

    run(scenario)


def test_channel_finds_a_server_that_came_back(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, server):
            await server.stop(0)
            await expect(Unavailable, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
            echo = EchoServer()
            again = await world.server.serve(server.address, [echo.service])
            while not echo.echoed:
                try:
                    await channel.call(ECHO, BytesValue(value=b"back"), timeout_s=AMPLE_S)
                except Unavailable:
                    await asyncio.sleep(0.05)
            await again.stop(0)

    run(scenario)


def test_closed_channel_fails_calls_under_way_and_later_ones(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            under_way = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
            await echo.waiting.wait()
            await channel.close()
            await expect(Unavailable, under_way)
            await expect(Unavailable, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
            await expect(Unavailable, collect(channel.stream(CHAT, one("x"), timeout_s=None)))
            assert await echo.ended.get() == "wait"

    run(scenario)


def test_calls_beyond_the_bound_are_refused_and_the_others_go_on(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            waiting = []
            for _ in range(REQUESTS_MAX):
                echo.waiting.clear()
                waiting.append(asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S)))
                await echo.waiting.wait()
            await expect(Overloaded, channel.call(ECHO, BytesValue(value=b"no"), timeout_s=AMPLE_S))
            assert await collect(channel.stream(CHAT, one("a"), timeout_s=None)) == ["re: a", "bye"]
            waiting[0].cancel()
            await echo.ended.get()
            await channel.call(ECHO, BytesValue(value=b"yes"), timeout_s=AMPLE_S)
            assert echo.echoed == [b"yes"]
            for call in waiting:
                call.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    run(scenario)


def test_long_polls_have_a_bound_of_their_own_and_shut_out_no_other_call(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _), waiting_calls(echo, channel, POLL, REQUESTS_MAX):
            await expect(Overloaded, channel.call(POLL, text("one too many"), timeout_s=AMPLE_S))
            await channel.call(ECHO, BytesValue(value=b"in"), timeout_s=AMPLE_S)
            assert echo.echoed == [b"in"]
            async with waiting_calls(echo, channel, WAIT, REQUESTS_MAX):
                await expect(Overloaded, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))

    run(scenario)


def test_handler_is_told_when_its_answer_was_taken(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
            async with asyncio.timeout(AMPLE_S):
                await echo.over.wait()

    run(scenario)


def test_handler_of_a_stream_is_told_when_the_stream_is_over(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            async with open_streams(channel, ENDLESS, 1):
                assert not echo.over.is_set()
            async with asyncio.timeout(AMPLE_S):
                await echo.over.wait()

    run(scenario)


def test_method_that_the_server_does_not_have_is_an_invalid_request(run: Run) -> None:
    async def scenario(world: World) -> None:
        server = await world.server.serve(world.address, [])
        channel = world.client.connect(server.address)
        await expect(InvalidRequest, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
        await channel.close()
        await server.stop(0)

    run(scenario)


def test_body_that_is_not_the_message_is_an_invalid_request(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            # The same field, and not UTF-8.
            broken: Any = BytesValue(value=b"\xff")
            error = await expect(InvalidRequest, channel.call(FAIL, broken, timeout_s=AMPLE_S))
            assert error.message == "the request is no google.protobuf.StringValue"

    run(scenario)


# ---- streams


def test_stream_carries_requests_and_responses_in_order(run: Run) -> None:
    async def scenario(world: World) -> None:
        async def requests() -> AsyncIterator[StringValue]:
            for number in range(100):
                yield text(str(number))

        async with world.connected() as (_, channel, _):
            responses = await collect(channel.stream(CHAT, requests(), timeout_s=AMPLE_S))
            assert responses == [f"re: {number}" for number in range(100)] + ["bye"]

    run(scenario)


def test_stream_is_a_dialogue(run: Run) -> None:
    async def scenario(world: World) -> None:
        said: asyncio.Queue[str | None] = asyncio.Queue()

        async def requests() -> AsyncIterator[StringValue]:
            while (value := await said.get()) is not None:
                yield text(value)

        async with (
            world.connected() as (_, channel, _),
            aclosing(channel.stream(CHAT, requests(), timeout_s=None)) as responses,
        ):
            for value in ("a", "b", "c"):
                said.put_nowait(value)
                assert (await anext(responses)).value == f"re: {value}"
            said.put_nowait(None)
            assert (await anext(responses)).value == "bye"
            with pytest.raises(StopAsyncIteration):
                await anext(responses)

    run(scenario)


def test_one_request_may_have_many_responses(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            responses = await collect(channel.stream(COUNT, one("1000"), timeout_s=AMPLE_S))
            assert responses == [str(number) for number in range(1000)]

    run(scenario)


def test_error_in_a_stream_comes_after_the_responses_before_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        async def requests() -> AsyncIterator[StringValue]:
            yield text("a")
            yield text("fail")

        async with world.connected() as (_, channel, _):
            stream = channel.stream(CHAT, requests(), timeout_s=None)
            assert (await anext(stream)).value == "re: a"
            error = await expect(OffsetOutOfRange, anext(stream))
            assert error.facts == {"log_end_offset": 9}

    run(scenario)


def test_unexpected_failure_of_a_stream_handler_tells_the_caller_nothing(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            error = await expect(
                UnknownServerError, collect(channel.stream(CHAT, one("crash"), timeout_s=None))
            )
            assert error.facts == {"method": CHAT.path, "request_id": error.facts["request_id"]}

    run(scenario)


def test_closing_the_stream_ends_the_handler(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            stream = channel.stream(ENDLESS, one("x"), timeout_s=None)
            assert (await anext(stream)).value == "first"
            await echo.waiting.wait()
            await stream.aclose()
            assert await echo.ended.get() == "endless"
            assert echo.remaining_s == [math.inf]

    run(scenario)


def test_deadline_ends_a_stream_on_both_sides(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _):
            await expect(RequestTimedOut, collect(channel.stream(ENDLESS, one("x"), timeout_s=0.5)))
            assert await echo.ended.get() == "endless"

    run(scenario)


def test_error_raised_by_the_requests_is_raised_by_the_stream(run: Run) -> None:
    async def scenario(world: World) -> None:
        async def requests() -> AsyncIterator[StringValue]:
            yield text("a")
            raise KeyError("mine")

        async with world.connected() as (_, channel, _):
            with pytest.raises(KeyError, match="mine"):
                await collect(channel.stream(CHAT, requests(), timeout_s=AMPLE_S))

    run(scenario)


def test_stream_that_the_server_ends_leaves_nobody_waiting_for_the_next_request(run: Run) -> None:
    async def scenario(world: World) -> None:
        is_left_alone = asyncio.Event()

        async def requests() -> AsyncIterator[StringValue]:
            yield text("fail")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                is_left_alone.set()

        async with world.connected() as (_, channel, _):
            await expect(OffsetOutOfRange, collect(channel.stream(CHAT, requests(), timeout_s=None)))
            async with asyncio.timeout(AMPLE_S):
                await is_left_alone.wait()

    run(scenario)


def test_reader_that_does_not_read_holds_back_the_sender(run: Run) -> None:
    async def scenario(world: World) -> None:
        sent = 0

        async def requests() -> AsyncIterator[StringValue]:
            nonlocal sent
            while sent < 10_000:
                sent += 1
                yield text("x" * 10_000)

        async with world.connected() as (_, channel, _):
            stream = channel.stream(CHAT, requests(), timeout_s=None)
            await anext(stream)
            previous = -1
            while sent != previous:  # until the sender is stuck
                previous = sent
                await asyncio.sleep(0.05)
            assert sent < 10_000
            await stream.aclose()

    run(scenario)


def test_streams_beyond_the_bound_are_refused(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _):
            streams = [channel.stream(ENDLESS, one("x"), timeout_s=None) for _ in range(STREAMS_MAX)]
            for stream in streams:
                await anext(stream)
            await expect(Overloaded, collect(channel.stream(CHAT, one("x"), timeout_s=None)))
            await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
            for stream in streams:
                await stream.aclose()

    run(scenario)


# ---- clients and nodes

Calls: TypeAlias = list["asyncio.Future[StringValue]"]


@asynccontextmanager
async def waiting_calls(
    echo: EchoServer, channel: Channel, method: Method[StringValue, StringValue], count: int
) -> AsyncIterator[Calls]:
    """That many are being handled, for the length of the block."""
    calls: Calls = []
    for _ in range(count):
        echo.waiting.clear()
        calls.append(asyncio.ensure_future(channel.call(method, text("x"), timeout_s=AMPLE_S)))
        await echo.waiting.wait()
    try:
        yield calls
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def open_streams(
    channel: Channel, method: Method[StringValue, StringValue], count: int
) -> AsyncIterator[None]:
    async with AsyncExitStack() as streams:
        for _ in range(count):
            stream = await streams.enter_async_context(
                aclosing(channel.stream(method, one("x"), timeout_s=None))
            )
            await anext(stream)
        yield


def test_clients_that_wait_do_not_shut_out_the_nodes(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, _), waiting_calls(echo, channel, WAIT, REQUESTS_MAX):
            await expect(Overloaded, channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S))
            await channel.call(NODE_ECHO, BytesValue(value=b"node"), timeout_s=AMPLE_S)
            assert echo.echoed == [b"node"]

    run(scenario)


def test_nodes_have_a_bound_of_their_own_and_do_not_shut_out_the_clients(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with (
            world.connected() as (echo, channel, _),
            waiting_calls(echo, channel, NODE_WAIT, INTERNAL_CALLS_MAX) as waiting,
        ):
            await expect(Overloaded, channel.call(NODE_ECHO, BytesValue(), timeout_s=AMPLE_S))
            await channel.call(ECHO, BytesValue(value=b"client"), timeout_s=AMPLE_S)
            waiting[0].cancel()
            await echo.ended.get()
            await channel.call(NODE_ECHO, BytesValue(value=b"node"), timeout_s=AMPLE_S)
            assert echo.echoed == [b"client", b"node"]

    run(scenario)


def test_streams_of_clients_do_not_shut_out_those_of_nodes(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, _), open_streams(channel, ENDLESS, STREAMS_MAX):
            await expect(Overloaded, collect(channel.stream(CHAT, one("x"), timeout_s=None)))
            async with aclosing(channel.stream(NODE_ENDLESS, one("x"), timeout_s=None)) as stream:
                assert (await anext(stream)).value == "first"

    run(scenario)


def test_streams_of_nodes_have_a_bound_of_their_own(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with (
            world.connected() as (_, channel, _),
            open_streams(channel, NODE_ENDLESS, INTERNAL_CALLS_MAX),
        ):
            async with aclosing(channel.stream(NODE_ENDLESS, one("x"), timeout_s=None)) as stream:
                await expect(Overloaded, anext(stream))
            assert await collect(channel.stream(CHAT, one("a"), timeout_s=None)) == ["re: a", "bye"]
            await channel.call(NODE_ECHO, BytesValue(), timeout_s=AMPLE_S)

    run(scenario)


# ---- servers


def test_stopping_server_lets_calls_finish_within_its_grace(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, channel, server):
            said: asyncio.Queue[str | None] = asyncio.Queue()

            async def requests() -> AsyncIterator[StringValue]:
                while (value := await said.get()) is not None:
                    yield text(value)

            stream = channel.stream(CHAT, requests(), timeout_s=None)
            said.put_nowait("a")
            await anext(stream)
            stopping = asyncio.ensure_future(server.stop(AMPLE_S))
            await asyncio.sleep(0)
            said.put_nowait("b")
            said.put_nowait(None)
            assert await collect(stream) == ["re: b", "bye"]
            await stopping

    run(scenario)


def test_stopping_server_cancels_what_outlasts_its_grace(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (echo, channel, server):
            call = asyncio.ensure_future(channel.call(WAIT, text("x"), timeout_s=AMPLE_S))
            await echo.waiting.wait()
            await server.stop(0.05)
            assert await echo.ended.get() == "wait"
            await expect(Unavailable, call)

    run(scenario)


def test_address_in_use_is_refused_with_the_reason(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, _, server):
            error = await expect(CannotListen, world.server.serve(server.address, [EchoServer().service]))
            assert server.address in error.message
            assert "in use" in error.message
            assert error.facts == {"address": server.address}

    run(scenario)


def test_two_servers_on_port_zero_get_different_addresses(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with world.connected() as (_, _, one_server), world.connected() as (_, _, other):
            assert one_server.address != other.address
            assert not other.address.endswith(":0")

    run(scenario)
