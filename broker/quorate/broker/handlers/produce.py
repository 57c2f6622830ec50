"""Produce: append to many partitions, answer when what ``acks`` asks for has happened."""

from __future__ import annotations

import asyncio

from quorate.broker.handlers.appending import Appender
from quorate.broker.handlers.produce_in_progress import ProduceInProgress
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.hosted import Hosted
from quorate.core.clock import Clock
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["ProduceHandler"]


class ProduceHandler:
    def __init__(self, appender: Appender, hosted: Hosted, clock: Clock, memory: RequestMemory) -> None:
        self._appender = appender
        self._hosted = hosted
        self._clock = clock
        self._memory = memory

    async def __call__(self, request: broker_pb2.ProduceRequest, _call: Call) -> broker_pb2.ProduceResponse:
        with self._memory.hold_or_refuse(request.ByteSize()):
            answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            produce = self._appender.begin(request, lambda _: _set_done(answered))
            if not produce.is_answered:
                await self._wait(produce, answered)
            response = broker_pb2.ProduceResponse()
            produce.fill(response, self._hosted.lease)
            return response

    async def _wait(self, produce: ProduceInProgress, answered: asyncio.Future[None]) -> None:
        timer = self._clock.call_later(produce.timeout_s, produce.time_out)
        try:
            await answered
        finally:
            timer.cancel()
            # Also when the client has gone: nobody is left to tell.
            produce.give_up()


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
