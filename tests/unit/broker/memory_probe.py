"""A process of its own that sends a broker far more than it may hold, and prints how much it grew.

The followers never fetch, so nothing is ever acknowledged: the worst case for whoever keeps what waits. The
log is on a real disk, so its bytes are the kernel's and not this process's.

    python -m tests.unit.broker.memory_probe calls|streams DIRECTORY
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from quorate.core.clock import SystemClock
from quorate.core.config import NodeConfig
from quorate.core.os_disk import OsDisk
from quorate.core.records import Record, encode_batch
from quorate.errors import Overloaded
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, NoCall, OneBroker, settle

BOUND_BYTES = 8 << 20
BATCH_BYTES = 512 << 10
#: ten times the bound
REQUESTS = 10 * BOUND_BYTES // BATCH_BYTES


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def request() -> broker_pb2.ProduceRequest:
    batch = encode_batch([Record(0, 1_000, None, b"x" * BATCH_BYTES)])
    entry = broker_pb2.ProducePartition(topic="t", batch=batch)
    content = broker_pb2.ProduceRequest(partitions=[entry]).SerializeToString()
    return broker_pb2.ProduceRequest.FromString(content)


async def send_calls(world: OneBroker) -> int:
    """How many were refused."""
    refused = 0
    waiting = []
    for _ in range(REQUESTS):
        call = asyncio.create_task(world.handler("Produce")(request(), NoCall()))
        await settle()
        if call.done():
            assert isinstance(call.exception(), Overloaded)
            refused += 1
        else:
            waiting.append(call)
    for call in waiting:
        call.cancel()
    await asyncio.wait(waiting)
    return refused


async def send_stream(world: OneBroker) -> int:
    all_read = asyncio.Event()

    async def requests() -> Any:
        for number in range(REQUESTS):
            yield broker_pb2.ProduceStreamRequest(correlation_id=number, request=request())
        all_read.set()
        await asyncio.Event().wait()

    async def receive() -> None:
        async for _ in world.handler("ProduceStream")(requests(), NoCall()):
            raise AssertionError("nothing can be acknowledged")

    receiving = asyncio.create_task(receive())
    await all_read.wait()
    receiving.cancel()
    await asyncio.wait([receiving])
    return 0


async def main(kind: str, directory: str) -> None:
    config = NodeConfig(node_id=SELF, data_dir=directory, queued_max_request_bytes=BOUND_BYTES)
    world = OneBroker(SystemClock(), OsDisk(), config)
    await world.create_topic(replicas=(SELF, SECOND))
    # What Python and protobuf take for themselves, once.
    await world.produce("warm up", acks=broker_pb2.ACKS_LEADER)
    before = peak_bytes()
    refused = await (send_calls if kind == "calls" else send_stream)(world)
    grown_bytes = peak_bytes() - before
    sys.stdout.write(f"{grown_bytes} {refused} {world.partition().log.log_end_offset}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
