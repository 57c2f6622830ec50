"""Producer ids for new idempotent producers, from blocks that the controller gives to this broker alone.

The next block is fetched before the last id of this one is gone, so that a producer waits for a controller
only where there is none. One request is under way at a time. Ids that are not given away are lost with the
process; there are enough.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.ids import ProducerId
from quorate.core.logging import get_logger
from quorate.errors import QuorateError

__all__ = ["ProducerIds"]

log = get_logger(__name__)

_BACKOFF_FIRST_S: Final = 0.05
_BACKOFF_S_MAX: Final = 1.0
#: with fewer left than this the next block is fetched
_LOW: Final = 100


class ProducerIds:
    """``allocate``: a block from the controller."""

    def __init__(self, allocate: Callable[[], Awaitable[range]], *, clock: Clock, rng: random.Random) -> None:
        self._allocate = allocate
        self._clock = clock
        self._backoff = Backoff(
            rng, first_s=_BACKOFF_FIRST_S, pause_s_max=_BACKOFF_S_MAX, begins_at_once=True
        )
        self._blocks: deque[range] = deque()
        self._waiting: deque[asyncio.Future[ProducerId]] = deque()
        self._is_low = asyncio.Event()
        self._is_low.set()

    async def next_id(self) -> ProducerId:
        """An id that no producer had before. Waits for the controller if need be: give up by cancelling."""
        if self._blocks and not self._waiting:
            return self._take()
        waiter: asyncio.Future[ProducerId] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._is_low.set()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    async def run(self) -> NoReturn:
        """Keep a supply; until cancelled."""
        while True:
            await self._is_low.wait()
            try:
                block = await self._allocate()
            except QuorateError as error:
                # Also where it can never succeed: whoever has lost its registration is ended by its session.
                log.warning("no_producer_ids", reason=error.message)
                await self._clock.sleep(self._backoff.next_s())
                continue
            self._backoff.reset()
            self._blocks.append(block)
            while self._waiting and self._blocks:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(self._take())
            self._note_supply()

    def _take(self) -> ProducerId:
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        self._note_supply()
        return ProducerId(block[0])

    def _note_supply(self) -> None:
        if self._waiting or sum(map(len, self._blocks)) < _LOW:
            self._is_low.set()
        else:
            self._is_low.clear()
