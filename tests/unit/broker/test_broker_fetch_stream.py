"""What FetchStream promises beyond Fetch."""

from __future__ import annotations

import asyncio
from typing import Any

from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import World, settle, simulate


def request(number: int, *, offset: int = 0, **fields: Any) -> broker_pb2.FetchStreamRequest:
    entry = broker_pb2.FetchPartition(topic="t", fetch_offset=offset)
    return broker_pb2.FetchStreamRequest(
        correlation_id=number, request=broker_pb2.FetchRequest(partitions=[entry], **fields)
    )


def test_requests_are_answered_one_by_one_in_the_order_sent() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        stream = world.stream("FetchStream")
        for number in range(5):
            stream.send(request(number, offset=0 if number % 2 else 1))
        stream.half_close()
        responses = await stream.receive_rest()
        assert [response.correlation_id for response in responses] == list(range(5))
        found = [bool(response.response.partitions[0].batches) for response in responses]
        assert found == [False, True, False, True, False]

    simulate(scenario)


def test_long_poll_wakes_at_once_and_the_next_request_waits_its_turn() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("FetchStream")
        began = world.now
        stream.send(request(1, max_wait_ms=10_000))
        stream.send(request(2, offset=1, max_wait_ms=1_000))
        receiving = asyncio.create_task(stream.receive())
        await asyncio.sleep(3)
        assert not receiving.done()
        await world.produce("a")
        assert (await receiving).response.partitions[0].batches
        assert world.now == began + 3
        second = await stream.receive()
        assert (second.correlation_id, world.now) == (2, began + 4)
        await stream.close()

    simulate(scenario)


def test_request_that_fails_as_a_whole_does_not_end_the_stream() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("FetchStream")
        stream.send(request(1, format=77))
        stream.send(request(2))
        stream.half_close()
        failed, good = await stream.receive_rest()
        assert (failed.correlation_id, failed.error.code) == (1, "INVALID_REQUEST")
        assert not failed.HasField("response")
        assert not good.HasField("error")

    simulate(scenario)


def test_few_requests_are_read_ahead() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("FetchStream")
        for number in range(100):
            stream.send(request(number, max_wait_ms=1_000))
        receiving = asyncio.create_task(stream.receive())
        await settle()
        assert stream.read_count <= 10
        receiving.cancel()
        await settle()
        await stream.close()
        assert len(asyncio.all_tasks()) == 1

    simulate(scenario)


def test_stop_answers_what_waits_and_ends_the_stream() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        waiting, idle = world.stream("FetchStream"), world.stream("FetchStream")
        began = world.now
        waiting.send(request(1, max_wait_ms=60_000))
        ending = [asyncio.create_task(stream.receive_rest()) for stream in (waiting, idle)]
        await settle()
        world.service.release_waiting()
        assert [response.correlation_id for response in await ending[0]] == [1]
        assert await ending[1] == []
        assert world.now == began

    simulate(scenario)
