"""A call with any number of requests and answers: its handler runs at once, and asks for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from quorate.core.waking import wake
from quorate.errors import InvalidRequest
from quorate.rpc.dispatch import run_stream
from quorate.rpc.lean.server_call import CANCELLED
from quorate.rpc.lean.status import OK
from quorate.rpc.lean.streamed_requests import StreamedRequests

__all__ = ["StreamCall"]


class StreamCall(StreamedRequests):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: somebody waits for a request, or for room to send
        self._waits_for_request: asyncio.Future[None] | None = None
        self._waits_for_room: asyncio.Future[None] | None = None
        self._task = self._surroundings.loop.create_task(self._serve())

    # ---- requests

    def on_data(self, part: memoryview) -> None:
        if self._is_finished:
            return
        self._unread += part
        unread_bytes = len(self._unread) - self._given_bytes
        if self._waits_for_request is not None:
            if unread_bytes >= self._next_bytes:
                wake(self._waits_for_request)
            elif self._reading is None:
                self._welcome_rest()
        if not self._has_turn:
            self._hold(unread_bytes)

    def on_end(self) -> None:
        # Not once it is finished: what was dropped since then must not look like all that there was.
        self._is_ended = not self._is_finished
        wake(self._waits_for_request)

    async def _read(self) -> AsyncGenerator[Any, None]:
        while True:
            while (request := self._next_request()) is not None:
                yield request
            if self._is_ended and not self._is_finished and not self._is_over:
                if self._unread_bytes:
                    raise self._unreadable(InvalidRequest("the requests end before their last message does"))
                return
            await self._more()

    async def _more(self) -> None:
        """Until all of the next request is there, or there is none."""
        self._waits_for_request = self._surroundings.loop.create_future()
        if self._reading is None and len(self._unread) > self._given_bytes:
            self._welcome_rest()
        try:
            await self._waits_for_request
        finally:
            self._waits_for_request = None
            self.arriving_since = None

    # ---- answers

    def on_drained(self) -> None:
        super().on_drained()
        wake(self._waits_for_room)

    async def _serve(self) -> None:
        route = self._route
        try:
            async with aclosing(run_stream(route.handler, route.method, self._read(), self)) as responses:
                async for response in responses:
                    self._send(response.SerializeToString())
                    if not self._stream.is_drained:
                        await self._drained()
            self._handler_ended(OK)
        except asyncio.CancelledError:
            self._handler_ended(CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - it is logged, and whoever calls must not wait for ever
            self._handler_failed(error)

    async def _drained(self) -> None:
        self._wait_to_be_taken()
        self._waits_for_room = self._surroundings.loop.create_future()
        try:
            await self._waits_for_room
        finally:
            self._waits_for_room = None
