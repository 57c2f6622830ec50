"""Ten times the bound is sent, and memory stays flat (queued.max.request.bytes)."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

from quorate.broker.handlers.request_memory import RequestMemory
from quorate.errors import Overloaded
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, World, batch, records, settle, simulate
from tests.unit.broker.memory_probe import BATCH_BYTES, BOUND_BYTES, REQUESTS

ROOT = Path(__file__).parents[3]


def probe(kind: str, directory: Path) -> tuple[int, int, int]:
    command = [sys.executable, "-m", "tests.unit.broker.memory_probe", kind, str(directory)]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    grown_bytes, refused, appended = (int(word) for word in printed.splitlines()[-1].split())
    return grown_bytes, refused, appended


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_calls_beyond_the_bound_are_refused_before_anything_is_appended(tmp_path: Path) -> None:
    grown_bytes, refused, appended = probe("calls", tmp_path)
    assert appended == REQUESTS - refused + 1
    assert (REQUESTS - refused) * BATCH_BYTES <= BOUND_BYTES
    assert grown_bytes < 2 * BOUND_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_stream_keeps_none_of_the_batches_whose_answers_wait(tmp_path: Path) -> None:
    grown_bytes, _, appended = probe("streams", tmp_path)
    assert appended >= REQUESTS
    assert grown_bytes < BOUND_BYTES


def test_call_that_was_refused_succeeds_when_there_is_room_again() -> None:
    large = broker_pb2.ProducePartition(topic="t", batch=batch("x" * 600_000))

    async def scenario(world: World) -> None:
        await world.create_topic(replicas=(SELF, SECOND))
        first = asyncio.create_task(world.produce_all(large))
        await settle()
        with pytest.raises(Overloaded):
            await world.produce_all(large)
        assert world.partition().log.log_end_offset == 1
        world.follower_fetches(SECOND, 1)
        assert (await first)[0].base_offset == 0
        second = asyncio.create_task(world.produce_all(large))
        await settle()
        world.follower_fetches(SECOND, 2)
        assert (await second)[0].base_offset == 1

    simulate(scenario, queued_max_request_bytes=1 << 20)


def test_request_larger_than_the_bound_is_taken_alone() -> None:
    large = broker_pb2.ProducePartition(topic="t", records=records("x" * 2_000_000))

    async def scenario(world: World) -> None:
        await world.create_topic(max_message_bytes="4MiB")
        assert (await world.produce_all(large))[0].base_offset == 0

    simulate(scenario, queued_max_request_bytes=1 << 20)


def test_client_that_goes_away_gives_its_bytes_back() -> None:
    large = broker_pb2.ProducePartition(topic="t", batch=batch("x" * 600_000))

    async def scenario(world: World) -> None:
        await world.create_topic(replicas=(SELF, SECOND))
        for _ in range(5):
            call = asyncio.create_task(world.produce_all(large))
            await settle()
            call.cancel()
            await settle()
        assert world.partition().log.log_end_offset == 5

    simulate(scenario, queued_max_request_bytes=1 << 20)


def test_whoever_waits_for_room_is_told_once() -> None:
    memory = RequestMemory(100)
    told: list[str] = []

    def wake() -> None:
        told.append("room")

    memory.hold(150)
    memory.call_when_room(wake)
    memory.call_when_room(wake)
    memory.release(20)
    assert not memory.has_room
    assert told == []
    memory.release(60)
    memory.release(60)
    assert told == ["room"]
    memory.hold(100)
    memory.call_when_room(wake)
    memory.forget(wake)
    memory.release(100)
    assert told == ["room"]


def test_refusals_leave_nothing_for_the_garbage_collector() -> None:
    """A traceback that is kept holds the request, with its batches, until a collection finds the cycle."""
    refused = [
        broker_pb2.ProducePartition(topic="absent", batch=batch("a")),
        broker_pb2.ProducePartition(topic="t", batch=batch("a")[:-1]),
        broker_pb2.ProducePartition(topic="t", batch=batch("a"), current_leader_epoch=9),
        broker_pb2.ProducePartition(topic="t", batch=batch("a"), expected_offset=9),
    ]

    async def scenario(world: World) -> None:
        await world.create_topic()
        stream = world.stream("ProduceStream")
        gc.collect()
        gc.disable()
        for entry in refused:
            [result] = await world.produce_all(entry)
            assert result.HasField("error")
            request = broker_pb2.ProduceRequest(partitions=[entry])
            stream.send(broker_pb2.ProduceStreamRequest(request=request))
            assert (await stream.receive()).response.partitions[0].HasField("error")
        assert (await world.fetch(5)).HasField("error")
        assert (await world.fetch(0, partition=5)).HasField("error")
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        await stream.close()

    try:
        simulate(scenario)
        assert [each for each in gc.garbage if isinstance(each, TracebackType)] == []
    finally:
        gc.garbage.clear()
        gc.enable()
