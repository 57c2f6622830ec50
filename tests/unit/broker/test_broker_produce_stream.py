"""What ProduceStream promises beyond Produce."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.core.ids import LeaderEpoch
from quorate.errors import InvalidRequest
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD, World, batch, settle, simulate

THREE = (SELF, SECOND, THIRD)


def request(number: int, *, partition: int = 0, **fields: Any) -> broker_pb2.ProduceStreamRequest:
    entry = broker_pb2.ProducePartition(topic="t", partition=partition, batch=batch(f"v{number}"))
    return broker_pb2.ProduceStreamRequest(
        correlation_id=number, request=broker_pb2.ProduceRequest(partitions=[entry], **fields)
    )


def offset_of(response: broker_pb2.ProduceStreamResponse) -> int:
    [result] = response.response.partitions
    assert not result.HasField("error"), result.error
    return result.base_offset


def commit(world: World, offset: int, *, number: int = 0) -> None:
    for follower in (SECOND, THIRD):
        world.follower_fetches(follower, offset, number=number)


def waiters_of(world: World) -> int:
    leadership = world.partition().leadership
    assert leadership is not None
    return sum(waiter.on_done is not None for waiter in leadership._waiters._queue)


def test_requests_are_appended_in_the_order_sent_and_each_is_answered() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("ProduceStream")
        for number in range(50):
            stream.send(request(number))
        stream.half_close()
        responses = await stream.receive_rest()
        assert [response.correlation_id for response in responses] == list(range(50))
        assert [offset_of(response) for response in responses] == list(range(50))
        assert await world.values() == [f"v{number}" for number in range(50)]

    simulate(scenario)


def test_answers_overtake_each_other_where_partitions_differ() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2, replicas=THREE)
        stream = world.stream("ProduceStream")
        stream.send(request(1, partition=0))
        stream.send(request(2, partition=1))
        first = asyncio.create_task(stream.receive())
        await settle()
        commit(world, 1, number=1)
        assert (await first).correlation_id == 2
        commit(world, 1, number=0)
        assert (await stream.receive()).correlation_id == 1
        await stream.close()

    simulate(scenario)


def test_all_that_is_committed_at_once_is_answered_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        stream = world.stream("ProduceStream")
        for number in range(10):
            stream.send(request(number))
        first = asyncio.create_task(stream.receive())
        await settle()
        assert not first.done()
        commit(world, 10)
        responses = [await first, *[await stream.receive() for _ in range(9)]]
        assert [offset_of(response) for response in responses] == list(range(10))
        await stream.close()

    simulate(scenario)


def test_request_that_fails_as_a_whole_does_not_end_the_stream() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("ProduceStream")
        stream.send(request(1, acks=99))
        stream.send(broker_pb2.ProduceStreamRequest(correlation_id=2))
        stream.send(request(3))
        stream.half_close()
        failed, empty, good = await stream.receive_rest()
        assert (failed.correlation_id, failed.error.code) == (1, "INVALID_REQUEST")
        assert not failed.HasField("response")
        assert (empty.correlation_id, empty.HasField("response")) == (2, True)
        assert offset_of(good) == 0

    simulate(scenario)


def test_stream_that_breaks_is_ended_by_the_same_error() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()

        async def requests() -> Any:
            yield request(1)
            raise InvalidRequest("the request is no ProduceStreamRequest")

        responses = world.handler("ProduceStream")(requests(), None)
        assert (await anext(responses)).correlation_id == 1
        with pytest.raises(InvalidRequest):
            await anext(responses)

    simulate(scenario)


def test_stream_is_not_read_on_beyond_what_may_be_unanswered() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        stream = world.stream("ProduceStream")
        for number in range(10_000):
            stream.send(request(number))
        first = asyncio.create_task(stream.receive())
        await settle()
        assert stream.read_count == waiters_of(world) == 1_000
        commit(world, 10)
        assert offset_of(await first) == 0
        for number in range(1, 10):
            assert offset_of(await stream.receive()) == number
        await settle()
        assert stream.read_count == 1_010
        await stream.close()

    simulate(scenario)


def test_answers_that_the_client_does_not_take_hold_it_as_well() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("ProduceStream")
        for number in range(10_000):
            stream.send(request(number))
        assert offset_of(await stream.receive()) == 0
        await settle()
        # One is with the transport: the client is told of it when it asks for the next.
        assert stream.read_count == 1_001
        await stream.close()

    simulate(scenario)


def test_streams_share_a_bound_and_go_on_when_there_is_room() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        streams = [world.stream("ProduceStream") for _ in range(4)]
        receiving = [asyncio.create_task(stream.receive()) for stream in streams]
        for stream in streams:
            for number in range(1_000):
                stream.send(request(number))
        await settle()
        # 1 MiB for 1 KiB each, and each stream notices with the request that it has just read.
        assert 1_024 <= sum(stream.read_count for stream in streams) <= 1_024 + 4
        commit(world, 1_024)
        await asyncio.gather(*receiving)
        for stream in streams:
            while stream.read_count < 1_000:
                await stream.receive()
                commit(world, world.partition().log.log_end_offset)
        for stream in streams:
            await stream.close()

    simulate(scenario, queued_max_request_bytes=1 << 20)


def test_client_that_goes_away_leaves_nothing_behind() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        stream = world.stream("ProduceStream")
        for number in range(10):
            stream.send(request(number))
        receiving = asyncio.create_task(stream.receive())
        await settle()
        assert waiters_of(world) == 10
        receiving.cancel()
        await settle()
        await stream.close()
        assert waiters_of(world) == 0
        assert len(asyncio.all_tasks()) == 1
        commit(world, 10)
        assert await world.values() == [f"v{number}" for number in range(10)]

    simulate(scenario)


def test_each_request_times_out_in_its_own_time() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        stream = world.stream("ProduceStream")
        began = world.now
        for number, timeout_ms in enumerate([3_000, 1_000, 2_000, 1_000]):
            stream.send(request(number, timeout_ms=timeout_ms))
        stream.half_close()
        ended = {}
        for _ in range(4):
            response = await stream.receive()
            [result] = response.response.partitions
            assert result.error.code == "REQUEST_TIMED_OUT"
            assert not result.HasField("base_offset")
            ended[response.correlation_id] = round(world.now - began, 2)
        assert ended == {0: 3.0, 1: 1.0, 2: 2.0, 3: 1.0}

    simulate(scenario)


def test_lost_leadership_ends_all_that_waits_as_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        stream = world.stream("ProduceStream")
        for number in range(5):
            stream.send(request(number))
        stream.half_close()
        receiving = asyncio.create_task(stream.receive_rest())
        await settle()
        world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
        for response in await receiving:
            [result] = response.response.partitions
            assert result.error.outcome_unknown
            assert not result.HasField("base_offset")

    simulate(scenario)


def test_lease_counts_when_an_answer_leaves() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("ProduceStream")
        for number in range(2):
            stream.send(request(number, acks=broker_pb2.ACKS_LEADER))
        stream.half_close()
        assert offset_of(await stream.receive()) == 0
        await settle()
        # The second is done, and held up by the client: a paused process would be, too.
        assert world.partition().log.log_end_offset == 2
        world.lease.revoke()
        [result] = (await stream.receive()).response.partitions
        assert result.error.outcome_unknown
        assert not result.HasField("base_offset")

    simulate(scenario)


def test_stop_answers_what_was_read_and_ends_the_stream() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        waiting, idle = world.stream("ProduceStream"), world.stream("ProduceStream")
        waiting.send(request(1))
        ending = [asyncio.create_task(stream.receive_rest()) for stream in (waiting, idle)]
        await settle()
        world.service.release_waiting()
        assert await ending[1] == []
        waiting.send(request(2))
        await settle()
        commit(world, 1)
        assert [response.correlation_id for response in await ending[0]] == [1]
        assert await world.stream("ProduceStream").receive_rest() == []

    simulate(scenario)
