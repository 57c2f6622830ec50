"""A call with one request and one answer: its handler runs once all of the request is there."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf.message import Message

from quorate.errors import InvalidRequest, QuorateError, RequestTimedOut
from quorate.rpc.dispatch import parse_request, run_unary
from quorate.rpc.lean.messages import BrokenMessage, MessageReader, MessageTooLarge
from quorate.rpc.lean.server_call import CANCELLED, ServerCall, status_of
from quorate.rpc.lean.status import OK

__all__ = ["UnaryCall"]


class UnaryCall(ServerCall):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._reader = MessageReader(self._surroundings.options.message_bytes_max)
        #: The whole request, as it was sent: kept as objects, one of many empty messages would be forty times
        #: as much as is counted for it.
        self._content: bytes | None = None
        #: taken apart where it lay, as its end came with it
        self._request: Message | None = None
        self._request_bytes = 0
        self._is_whole = False
        self.arriving_since = self._surroundings.loop.time()

    # ---- the request

    def on_data(self, part: memoryview) -> None:
        if self._is_finished:
            return
        try:
            for content in self._reader.feed(part):
                self._on_message(content)
        except QuorateError as error:
            self._refuse(error)
        except MessageTooLarge as error:
            self._refuse(self._too_large(error))
        except BrokenMessage as error:
            self._refuse(self._compressed(error))
        else:
            self._on_part()

    def _on_message(self, content: memoryview) -> None:
        if self._is_whole:
            raise self._more_than_one()
        self._request_bytes = len(content)
        self._traffic.received(self._request_bytes)
        self._is_whole = True
        if self._stream.is_ending and not (self._route.untaken.is_full and self._has_to_wait()):
            self._request = parse_request(self._method, content)
        else:
            self._content = bytes(content)

    def _has_to_wait(self) -> bool:
        """Its answer would be one too many. Nodes do not wait: they would hold each other up."""
        route = self._route
        return not route.is_internal and route.untaken.has_to_wait(self._method.path)

    def _on_part(self) -> None:
        reader = self._reader
        if self._has_turn:
            return
        if not reader.begun_bytes:
            self._hold(self._request_bytes)
            return
        if self._is_whole:
            self._refuse(self._more_than_one())
            return
        self._hold(reader.collected_bytes)
        stream, turns = self._stream, self._route.turns
        if self._reading is not None or self._missing_bytes() <= stream.receive_window:
            return
        if turns is None or reader.begun_bytes <= stream.window_bytes:
            # The latter fits, but for padding.
            stream.expect(self._missing_bytes())
        else:
            self._begin_turn(turns)

    def _more_than_one(self) -> QuorateError:
        return InvalidRequest("the call has more than one request", method=self._method.path)

    def _missing_bytes(self) -> int:
        return self._reader.begun_bytes - self._stream.held_bytes

    def on_end(self) -> None:
        if self._is_finished:
            return
        self.arriving_since = None
        if self._reading is not None:
            self._end_turn()
        if not self._reader.is_between_messages:
            self._refuse(InvalidRequest("the request ends before its message does"))
            return
        if not self._is_whole:
            self._refuse(InvalidRequest("the call has no request"))
            return
        if self._timer is None:
            limit_s = self._surroundings.options.default_timeout_s
            self._deadline = self._surroundings.loop.time() + limit_s
            self._timer = self._surroundings.loop.call_later(limit_s, self._limit_passed)
        request = None
        if self._request is not None or not (self._route.untaken.is_full and self._has_to_wait()):
            try:
                request = self._take_request()
            except QuorateError as error:
                self._refuse(error)
                return
        self._task = self._surroundings.loop.create_task(self._serve(request))

    def _take_request(self) -> Message:
        request, self._request = self._request, None
        content, self._content = self._content, None
        self._hold(0)
        if content is not None:
            request = parse_request(self._method, content)
        assert request is not None
        return request

    def _put_back(self, request: Message) -> None:
        self._content = request.SerializeToString()
        self._hold(len(self._content))

    def _drop_requests(self) -> None:
        self._request = self._content = None
        self._reader = MessageReader(0)

    # ---- the answer

    async def _serve(self, request: Message | None) -> None:
        """None: it lies here as it was sent, until there is room for its answer."""
        try:
            while self._route.untaken.is_full and self._has_to_wait():
                if request is not None:
                    # Many that came at once have answered since it was taken.
                    self._put_back(request)
                    request = None
                await self._route.untaken.room()
            if request is None:
                request = self._take_request()
            response = await run_unary(self._route.handler, self._method, request, self)
            del request
            self._stream.end_follows = True
            self._send(response.SerializeToString())
            self._handler_ended(OK)
        except asyncio.CancelledError:
            self._handler_ended(CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - it is logged, and whoever calls must not wait for ever
            self._handler_failed(error)

    def _limit_passed(self) -> None:
        limit_s = self._surroundings.options.default_timeout_s
        message = f"not done within {limit_s} s, the limit for calls that set none"
        self._stop_handler()
        self._finish(status_of(RequestTimedOut(message, method=self._method.path)))
