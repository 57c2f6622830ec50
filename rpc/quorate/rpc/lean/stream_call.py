"""A call with any number of requests and answers: its handler runs at once, and asks for one after the other.

Requests stay as they were sent until the handler asks for the next one. Taken apart as they arrive, a window
full of empty messages would become a hundred times as much; and whoever sends them would decide when this
process takes them apart.

The client may send a window ahead. A message that does not fit into it is let in once the handler waits for
it, and then always: what the handler has not asked for can hold up nothing but itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from quorate.errors import InvalidRequest, QuorateError
from quorate.rpc.dispatch import parse_request, run_stream
from quorate.rpc.lean.messages import PREFIX_BYTES, BrokenMessage, MessageTooLarge, whole_bytes
from quorate.rpc.lean.server_call import CANCELLED, ServerCall
from quorate.rpc.lean.status import OK
from quorate.rpc.lean.waking import wake

__all__ = ["StreamCall"]


class StreamCall(ServerCall):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: requests that the handler has not asked for yet, as they were sent
        self._unread = bytearray()
        #: of these, what it has been given; cut off only now and then, as what remains may be copied for it
        self._given_bytes = 0
        #: the length of the first of them, with its prefix; 0: it is not known
        self._next_bytes = 0
        self._is_ended = False
        self._window_bytes = self._surroundings.options.window_bytes
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
        if self._waits_for_request is not None and unread_bytes >= self._next_bytes:
            wake(self._waits_for_request)
        if not self._has_turn:
            self._hold(unread_bytes)

    def on_end(self) -> None:
        # Not once it is finished: what was dropped since then must not look like all that there was.
        self._is_ended = not self._is_finished
        wake(self._waits_for_request)

    def _drop_requests(self) -> None:
        self._unread = bytearray()
        self._given_bytes = 0

    async def _read(self) -> AsyncGenerator[Any, None]:
        while True:
            while (request := self._next_request()) is not None:
                yield request
            if self._is_ended and not self._is_finished and not self._is_over:
                if len(self._unread) > self._given_bytes:
                    raise self._unreadable(InvalidRequest("the requests end before their last message does"))
                return
            await self._more()

    def _next_request(self) -> Message | None:
        """None: it is not there, or not all of it."""
        unread, at = self._unread, self._given_bytes
        unread_bytes, self._next_bytes = len(unread) - at, 0
        if unread_bytes < PREFIX_BYTES:
            return None
        try:
            size = self._next_bytes = whole_bytes(unread, at, self._surroundings.options.message_bytes_max)
            if unread_bytes < size:
                return None
            # Given back at once: nothing can be added to a buffer that somebody looks at.
            with memoryview(unread)[at + PREFIX_BYTES : at + size] as content:
                request: Message = parse_request(self._route.method, content)
        except QuorateError as error:
            raise self._unreadable(error) from error
        except MessageTooLarge as error:
            raise self._unreadable(self._too_large(error)) from error
        except BrokenMessage as error:
            raise self._unreadable(self._compressed(error)) from error
        self._given_bytes = at = at + size
        if size == unread_bytes or at * 2 >= self._window_bytes:
            del unread[:at]
            self._given_bytes = 0
        if self._reading is not None:
            self._end_turn()
        self._route.traffic.received(size - PREFIX_BYTES)
        self._hold(unread_bytes - size)
        self._stream.consumed(size)
        return request

    def _unreadable(self, error: QuorateError) -> QuorateError:
        """No request comes after this one, whatever the handler makes of it."""
        self._refuse(error)
        return error

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

    def _welcome_rest(self) -> None:
        self.arriving_since = self._surroundings.loop.time()
        turns = self._route.turns
        if turns is None or self._next_bytes <= self._window_bytes:
            self._stream.expect(self._missing_bytes())
        else:
            self._begin_turn(turns)

    def _missing_bytes(self) -> int:
        return max(self._next_bytes, PREFIX_BYTES) - (len(self._unread) - self._given_bytes)

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
        self.taking_since = self._surroundings.loop.time()
        self._waits_for_room = self._surroundings.loop.create_future()
        try:
            await self._waits_for_room
        finally:
            self._waits_for_room = None
