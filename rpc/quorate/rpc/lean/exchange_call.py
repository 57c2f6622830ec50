"""A stream whose handler is told of each request as it arrives: no task, no generator (``served_exchange``).

A request that lies whole in what arrived is parsed where it lies. Others, and all that come while the handler
has no room, are collected as those of any stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from quorate.core.served_exchange import ExchangeHandler, RequestListener
from quorate.errors import InvalidRequest, QuorateError
from quorate.rpc.dispatch import parse_request, unexpected
from quorate.rpc.lean import wire
from quorate.rpc.lean.messages import BrokenMessage, MessageTooLarge, whole_bytes
from quorate.rpc.lean.server_call import status_of
from quorate.rpc.lean.status import OK, Status
from quorate.rpc.lean.streamed_requests import StreamedRequests

__all__ = ["ExchangeCall"]

#: A buffer full of tiny requests must not keep the loop from everybody else: the rest wait for a later turn.
_REQUESTS_PER_READ_MAX: Final = 256


class ExchangeCall(StreamedRequests):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_paused = False
        #: what was collected is handed over in a later turn of the loop
        self._is_giving_due = False
        #: the handler has heard that there are no more
        self._is_end_told = False
        #: requests that the handler was told of because of the latest read of the connection
        self._read_number = 0
        self._given_of_read = 0
        self._listener: RequestListener | None = None
        handler = self._route.handler
        assert isinstance(handler, ExchangeHandler)
        try:
            self._listener = handler.open(self, self)
        except QuorateError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001 - it is logged, and others use the connection, too
            self._handler_failed(error)
        if self._is_finished:
            # It was ended while it was opened.
            self._tell_over()

    # ---- requests

    def on_data(self, part: memoryview) -> None:
        if self._is_finished:
            return
        if not self._unread and not self._is_paused:
            at = self._give_whole(part)
            if at == len(part) or self._is_finished:
                return
            part = part[at:]
        self._unread += part
        if not self._has_turn:
            self._hold(self._unread_bytes)
        if self._given_of_read >= _REQUESTS_PER_READ_MAX:
            self._give_later()
        elif self._is_paused:
            self._end_turn_of_whole()
        elif not self._is_giving_due:
            self._give_collected()

    def on_end(self) -> None:
        if self._is_finished:
            return
        self._is_ended = True
        if not self._is_paused and not self._is_giving_due:
            self._give_collected()

    def _give_whole(self, part: memoryview) -> int:
        """The requests that lie whole in it; where they end."""
        at, end = 0, len(part)
        if self._read_number != self._link.read_number:
            self._read_number, self._given_of_read = self._link.read_number, 0
        while end - at >= wire.PREFIX_BYTES and self._given_of_read < _REQUESTS_PER_READ_MAX:
            if self._is_paused or self._is_finished:
                break
            try:
                size = whole_bytes(part, at, self._message_bytes_max)
                if end - at < size:
                    break
                request = parse_request(self._method, part[at + wire.PREFIX_BYTES : at + size])
            except (QuorateError, MessageTooLarge, BrokenMessage) as error:
                self._unreadable(error)
                return end
            at += size
            self._traffic.received(size - wire.PREFIX_BYTES)
            self._stream.consumed(size)
            self._give(request)
        return at

    def _give_collected(self) -> None:
        self._is_giving_due = False
        for _ in range(_REQUESTS_PER_READ_MAX):
            if self._is_paused or self._is_finished or self._is_over:
                return
            try:
                request = self._next_request()
            except QuorateError:
                return  # refused already
            if request is None:
                self._wait_for_more()
                return
            self.arriving_since = None
            self._give(request)
        self._give_later()

    def _end_turn_of_whole(self) -> None:
        """Of a message that is all here, and that the handler takes later: the turn must not run out."""
        if self._has_turn and self._unread_bytes >= self._next_bytes:
            self._end_turn()
            self._hold(self._unread_bytes)

    def _give_later(self) -> None:
        if not self._is_giving_due:
            self._is_giving_due = True
            self._surroundings.loop.call_soon(self._give_collected)

    def _wait_for_more(self) -> None:
        if self._is_ended and self._listener is not None:
            if self._unread_bytes:
                self._unreadable(InvalidRequest("the requests end before their last message does"))
            elif not self._is_end_told:
                self._is_end_told = True
                self._tell(self._listener.on_requests_end)
        elif self._unread_bytes and self._reading is None:
            self._welcome_rest()

    def _give(self, request: Message) -> None:
        assert self._listener is not None
        self._given_of_read += 1
        try:
            self._listener.on_request(request)
        except Exception as error:  # noqa: BLE001 - it is logged, and whoever calls must not wait for ever
            self._handler_failed(error)

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # noqa: BLE001 - as above
            self._handler_failed(error)

    # ---- for the handler

    @property
    def is_ready(self) -> bool:
        return self._stream.is_drained

    def send(self, response: Message, *, is_last: bool = False) -> None:
        if is_last:
            self._link.promise_flush()
        try:
            self._send(response.SerializeToString())
        except QuorateError as error:
            # Whoever sends is in the middle of something, and an answer that is too large is no reason to
            # break that off.
            self._refuse(error)
        finally:
            if is_last:
                self._link.flush()
        if not self._stream.is_drained:
            self._wait_to_be_taken()

    def end(self, error: QuorateError | None = None) -> None:
        self._finish(OK if error is None else status_of(error))

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            # Not at once: whoever has made room is in the middle of something.
            self._give_later()

    # ---- answers and the end

    def on_drained(self) -> None:
        super().on_drained()
        if self._listener is not None:
            self._tell(self._listener.on_ready)

    def _finish(self, status: Status) -> None:
        super()._finish(status)
        self._tell_over()

    def _over(self) -> None:
        super()._over()
        self._tell_over()

    def _tell_over(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            try:
                listener.on_over()
            except Exception as error:  # noqa: BLE001 - as above, and there is nobody left to be told
                unexpected(error, self._method, self)
