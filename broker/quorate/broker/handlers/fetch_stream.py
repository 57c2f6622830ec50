"""FetchStream: many fetches on one stream, answered in the order sent, one at a time.

A client sends its next request while it works on the last answer, so that the broker is never waited for. The
few requests that are read ahead are small; an answer is made only when the one before it was taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.handlers.intake import Intake
from quorate.broker.handlers.open_streams import OpenStreams
from quorate.core.transport import Call
from quorate.errors import QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2

__all__ = ["FetchStreamHandler"]

_READ_AHEAD_MAX: Final = 8


class FetchStreamHandler:
    def __init__(self, fetch: FetchHandler) -> None:
        self._fetch = fetch
        self._streams: OpenStreams[_FetchStream] = OpenStreams()

    async def __call__(
        self, requests: AsyncIterator[broker_pb2.FetchStreamRequest], _call: Call
    ) -> AsyncGenerator[broker_pb2.FetchStreamResponse, None]:
        stream = _FetchStream(requests)
        self._streams.add(stream)
        try:
            while (message := await stream.next_request()) is not None:
                answer = broker_pb2.FetchStreamResponse(correlation_id=message.correlation_id)
                held_bytes = await self._fill(answer, message.request)
                try:
                    yield answer
                finally:
                    # Taken, or nobody will take it any more.
                    self._fetch.release(held_bytes)
                # Not kept while the next one is awaited.
                del answer
        finally:
            self._streams.discard(stream)
            await stream.close()

    def stop(self) -> None:
        """Answer what was asked, and end. Fetches that wait are released by the fetch handler."""
        self._streams.stop()

    async def _fill(self, answer: broker_pb2.FetchStreamResponse, request: broker_pb2.FetchRequest) -> int:
        """How many bytes the answer holds."""
        try:
            return await self._fetch.fetch_into(answer.response, request)
        except QuorateError as error:
            answer.ClearField("response")
            answer.error.CopyFrom(detail_from_error(error))
            return 0


class _FetchStream:
    def __init__(self, requests: AsyncIterator[broker_pb2.FetchStreamRequest]) -> None:
        self._waiting: deque[broker_pb2.FetchStreamRequest] = deque()
        self._is_woken = asyncio.Event()
        self._intake = Intake(
            requests,
            accept=self._accept,
            has_room=lambda: len(self._waiting) < _READ_AHEAD_MAX,
            on_over=self._is_woken.set,
        )

    def _accept(self, message: broker_pb2.FetchStreamRequest) -> None:
        self._waiting.append(message)
        self._is_woken.set()

    async def next_request(self) -> broker_pb2.FetchStreamRequest | None:
        """None: there will be no more."""
        while not self._waiting:
            if self._intake.is_over:
                self._intake.check()
                return None
            self._is_woken.clear()
            await self._is_woken.wait()
        message = self._waiting.popleft()
        self._intake.look_for_room()
        return message

    def stop_reading(self) -> None:
        self._intake.stop()

    async def close(self) -> None:
        await self._intake.close()
