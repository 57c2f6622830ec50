"""Rule 50: a retry is answered with the original offset only once the original is committed."""

from __future__ import annotations

import asyncio

from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import World, batch, settle, simulate


def test_retry_of_a_batch_that_is_not_committed_waits_for_the_original() -> None:
    sent = broker_pb2.ProducePartition(
        topic="t", batch=batch("a", "b", producer_id=7, producer_epoch=0, base_sequence=0)
    )

    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        # The first attempt's client has gone: only the retry is left to be told.
        first = asyncio.create_task(world.produce_all(sent))
        await settle()
        first.cancel()
        retry = asyncio.create_task(world.produce_all(sent))
        await settle()
        assert not retry.done()
        assert (await world.fetch(0)).high_watermark == 0
        [result] = await retry
        assert (result.base_offset, result.next_offset) == (0, 2)
        assert await world.values() == ["a", "b"]

    simulate(scenario, sync_delay_s=0.5)
