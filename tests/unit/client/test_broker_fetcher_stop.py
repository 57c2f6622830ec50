"""A fetcher may be stopped at any moment."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncGenerator
from typing import Any

from quorate.client.consumer.broker_fetcher import BrokerFetcher
from quorate.client.consumer.options import ConsumerOptions
from quorate.core.clock import SystemClock
from quorate.errors import Unavailable


class _FailingBroker:
    """Its stream fails in the moment in which it is cancelled."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()

    def channel(self, address: str) -> _FailingBroker:
        return self

    async def stream(self, *_arguments: Any, **_options: Any) -> AsyncGenerator[Any, None]:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unavailable("the connection broke") from None
        yield


async def test_a_fetcher_stopped_as_its_stream_fails_leaves_no_error_that_nobody_looks_at() -> None:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    broker: Any = _FailingBroker()
    unused: Any = None
    fetcher = BrokerFetcher(
        "b1:9092",
        broker,
        unused,
        ConsumerOptions(),
        clock=SystemClock(),
        rng=random.Random(1),
        share_bytes=lambda: 1,
        troubles=unused,
        statistics=unused,
    )
    reader: Any = object()
    fetcher.place(reader, is_follower=False)
    fetching = asyncio.create_task(fetcher.run())
    await broker.is_asked.wait()
    fetching.cancel()
    await asyncio.wait([fetching])
    assert fetching.cancelled()
    # It holds the frames that hold the stream's task, which complains when it is forgotten.
    del fetching
    gc.collect()
    assert unseen == []
