"""Producer ids from blocks: none twice, and nobody waits while there is a supply."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from quorate.broker.controller_link.producer_ids import ProducerIds
from quorate.core.clock import SystemClock
from quorate.errors import NoController


class _Blocks:
    """A controller that gives blocks away when the test lets it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._given = 0
        self.asked = 0
        self.under_way = 0
        self.may_answer = asyncio.Event()
        self.failures = 0

    async def allocate(self) -> range:
        self.asked += 1
        self.under_way += 1
        assert self.under_way == 1
        try:
            await self.may_answer.wait()
            if self.failures:
                self.failures -= 1
                raise NoController("nobody leads")
        finally:
            self.under_way -= 1
        first, self._given = self._given, self._given + self._size
        return range(first, self._given)


@pytest.fixture
def blocks() -> _Blocks:
    return _Blocks(200)


@pytest.fixture
async def ids(blocks: _Blocks) -> AsyncIterator[ProducerIds]:
    ids = ProducerIds(blocks.allocate, clock=SystemClock(), rng=random.Random(1))
    running = asyncio.create_task(ids.run())
    yield ids
    running.cancel()
    await asyncio.wait([running])


async def test_no_id_is_given_twice(ids: ProducerIds, blocks: _Blocks) -> None:
    blocks.may_answer.set()
    given = [await ids.next_id() for _ in range(1_000)]
    assert len(set(given)) == 1_000


async def test_the_next_block_is_fetched_before_the_last_id_is_gone(
    ids: ProducerIds, blocks: _Blocks
) -> None:
    blocks.may_answer.set()
    await ids.next_id()
    assert blocks.asked == 1
    for _ in range(100):
        await ids.next_id()
    blocks.may_answer.clear()
    await asyncio.sleep(0)
    assert blocks.asked == 2
    for _ in range(99):
        async with asyncio.timeout(1):
            await ids.next_id()


async def test_those_who_wait_get_ids_in_order_once_there_is_a_controller(
    ids: ProducerIds, blocks: _Blocks
) -> None:
    blocks.failures = 3
    blocks.may_answer.set()
    given = await asyncio.gather(*(ids.next_id() for _ in range(450)))
    assert list(given) == list(range(450))


async def test_whoever_gives_up_waiting_takes_no_id(ids: ProducerIds, blocks: _Blocks) -> None:
    impatient = asyncio.create_task(ids.next_id())
    patient = asyncio.create_task(ids.next_id())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    blocks.may_answer.set()
    assert await patient == 0
