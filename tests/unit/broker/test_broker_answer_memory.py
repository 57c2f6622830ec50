"""Answers that nobody has taken yet: their memory is bounded (queued.max.response.bytes)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from quorate.errors import InvalidRequest, Overloaded
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import NoCall, World, batch, settle, simulate

_BOUND_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 300_000
_BATCHES: Final = 8


class SlowCall(NoCall):
    """Of a client that takes its answer when it is told to."""

    def __init__(self) -> None:
        self._on_over: list[Callable[[], None]] = []

    def when_over(self, callback: Callable[[], None]) -> None:
        self._on_over.append(callback)

    def taken(self) -> None:
        for callback in self._on_over:
            callback()


def request(**fields: Any) -> broker_pb2.FetchRequest:
    entry = broker_pb2.FetchPartition(topic="t", partition_max_bytes=50 << 20)
    return broker_pb2.FetchRequest(partitions=[entry], **fields)


async def fill_topic(world: World) -> None:
    await world.create_topic()
    for _ in range(_BATCHES):
        await world.produce_all(broker_pb2.ProducePartition(topic="t", batch=batch("x" * _BATCH_BYTES)))


async def fetch(world: World, call: SlowCall, **fields: Any) -> int:
    """How many bytes came."""
    response = await world.handler("Fetch")(request(**fields), call)
    [result] = response.partitions
    assert not result.HasField("error")
    return len(result.batches)


def bounded(scenario: Callable[[World], Any]) -> None:
    simulate(scenario, queued_max_response_bytes=_BOUND_BYTES)


def test_fetch_gets_what_is_left_and_at_least_one_batch() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        first, second = SlowCall(), SlowCall()
        assert _BATCH_BYTES < await fetch(world, first, max_bytes=500_000) < 2 * _BATCH_BYTES
        assert 2 * _BATCH_BYTES < await fetch(world, second) < 3 * _BATCH_BYTES
        # Next to nothing is left, and a batch is sent whole.
        assert (
            _BATCH_BYTES < await fetch(world, SlowCall(), min_bytes=1 << 20, max_wait_ms=0) < 2 * _BATCH_BYTES
        )

    bounded(scenario)


def test_fetch_waits_for_a_reader_to_take_its_answer() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        slow = [SlowCall(), SlowCall()]
        for call in slow:
            await fetch(world, call)
        waiting = asyncio.create_task(fetch(world, SlowCall()))
        await asyncio.sleep(5)
        assert not waiting.done()
        slow[0].taken()
        assert await waiting > _BATCH_BYTES

    bounded(scenario)


def test_fetch_is_refused_when_nobody_takes_an_answer() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        for _ in range(2):
            await fetch(world, SlowCall())
        began = world.now
        with pytest.raises(Overloaded) as caught:
            await fetch(world, SlowCall())
        assert world.now == began + 10
        assert caught.value.facts == {"queued_max_response_bytes": _BOUND_BYTES}

    bounded(scenario)


def test_fetch_that_waits_for_room_does_not_hold_up_the_stop() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        for _ in range(2):
            await fetch(world, SlowCall())
        waiting = asyncio.create_task(fetch(world, SlowCall()))
        await settle()
        world.service.release_waiting()
        began = world.now
        with pytest.raises(Overloaded):
            await waiting
        assert world.now == began

    bounded(scenario)


def test_stream_holds_its_answer_until_the_next_one_is_asked_for_or_it_ends() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        streams = [world.stream("FetchStream") for _ in range(2)]
        for stream in streams:
            for _ in range(2):
                stream.send(broker_pb2.FetchStreamRequest(request=request()))
            assert (await stream.receive()).response.partitions[0].batches
        refused = world.stream("FetchStream")
        refused.send(broker_pb2.FetchStreamRequest(request=request()))
        assert (await refused.receive()).error.code == Overloaded.code
        # By taking the next answer, and by going away.
        assert (await streams[0].receive()).response.partitions[0].batches
        await streams[1].close()
        refused.send(broker_pb2.FetchStreamRequest(request=request()))
        assert (await refused.receive()).response.partitions[0].batches
        for stream in (streams[0], refused):
            await stream.close()
        assert await fetch(world, SlowCall()) > 2 * _BATCH_BYTES, "all of it was given back"

    bounded(scenario)


def test_answers_that_were_taken_leave_nothing_behind() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        for _ in range(20):
            call = SlowCall()
            assert await fetch(world, call) > 2 * _BATCH_BYTES
            call.taken()

    bounded(scenario)


def with_ballast(size: int, **fields: Any) -> broker_pb2.FetchRequest:
    """In a field that nobody here knows: it stays with the request."""
    known = request(**fields).SerializeToString()
    number_and_length = b"\xfa\x3f" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    found = broker_pb2.FetchRequest.FromString(known + number_and_length + bytes(size))
    assert found.ByteSize() == len(known) + 5 + size
    return found


@pytest.mark.parametrize("waits_for", ["records", "room"])
def test_requests_that_wait_are_bounded_together(waits_for: str) -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        if waits_for == "room":
            for _ in range(2):
                await fetch(world, SlowCall())
        wait: dict[str, Any] = {"min_bytes": 50 << 20, "max_wait_ms": 5_000}
        fetches = world.handler("Fetch")
        waiting = asyncio.create_task(fetches(with_ballast(600_000, **wait), SlowCall()))
        await settle()
        assert not waiting.done()
        with pytest.raises(Overloaded) as caught:
            await fetches(with_ballast(600_000, **wait), SlowCall())
        assert caught.value.facts == {"queued_max_request_bytes": 1 << 20}
        small = asyncio.create_task(fetches(request(**wait), SlowCall()))
        await settle()
        assert not small.done(), "there is room for it"
        for each in (waiting, small):
            each.cancel()
        await settle()
        again = asyncio.create_task(fetches(with_ballast(600_000, **wait), SlowCall()))
        await settle()
        assert not again.done()
        again.cancel()
        await settle()

    simulate(
        scenario,
        queued_max_request_bytes=1 << 20,
        queued_max_response_bytes=_BOUND_BYTES if waits_for == "room" else 1 << 28,
    )


def test_requests_that_wait_count_by_what_their_partitions_weigh() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=1_000)
        entries = [broker_pb2.FetchPartition(topic="t", partition=number) for number in range(1_000)]
        many = broker_pb2.FetchRequest(partitions=entries, min_bytes=1, max_wait_ms=5_000)
        assert many.ByteSize() < 10_000
        waiting = [asyncio.create_task(world.handler("Fetch")(many, SlowCall())) for _ in range(40)]
        await settle()
        refused = [each for each in waiting if each.done() and isinstance(each.exception(), Overloaded)]
        assert 20 < len(refused) < 30
        for each in waiting:
            each.cancel()
        await settle()

    simulate(scenario, queued_max_request_bytes=1 << 20)


def test_request_with_too_many_partitions_waits_for_nothing() -> None:
    async def scenario(world: World) -> None:
        await fill_topic(world)
        for _ in range(2):
            await fetch(world, SlowCall())
        began = world.now
        entries = [broker_pb2.FetchPartition(topic="t")] * 3_000
        with pytest.raises(InvalidRequest):
            await world.handler("Fetch")(broker_pb2.FetchRequest(partitions=entries), SlowCall())
        assert world.now == began

    bounded(scenario)
