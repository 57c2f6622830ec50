"""The requests of a stream as they arrive: kept as they were sent until somebody takes them.

Taken apart as they arrive, a window full of empty messages would become a hundred times as much; and whoever
sends them would decide when this process takes them apart.

The client may send a window ahead. A message that does not fit into it is let in once it is waited for, and
then always: what nobody has asked for can hold up nothing but itself.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from quorate.errors import QuorateError
from quorate.rpc.dispatch import parse_request
from quorate.rpc.lean import wire
from quorate.rpc.lean.messages import BrokenMessage, MessageTooLarge, whole_bytes
from quorate.rpc.lean.server_call import ServerCall

__all__ = ["StreamedRequests"]


class StreamedRequests(ServerCall):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: requests that nobody has taken yet, as they were sent
        self._unread = bytearray()
        #: of these, what was taken; cut off only now and then, as what remains may be copied for it
        self._given_bytes = 0
        #: the length of the first of them, with its prefix; 0: it is not known
        self._next_bytes = 0
        self._is_ended = False
        self._window_bytes = self._surroundings.options.window_bytes

    @property
    def _unread_bytes(self) -> int:
        return len(self._unread) - self._given_bytes

    def _drop_requests(self) -> None:
        self._unread = bytearray()
        self._given_bytes = 0

    def _next_request(self) -> Message | None:
        """None: it is not there, or not all of it."""
        unread, at = self._unread, self._given_bytes
        unread_bytes, self._next_bytes = len(unread) - at, 0
        if unread_bytes < wire.PREFIX_BYTES:
            return None
        try:
            size = self._next_bytes = whole_bytes(unread, at, self._message_bytes_max)
            if unread_bytes < size:
                return None
            # Given back at once: nothing can be added to a buffer that somebody looks at.
            with memoryview(unread)[at + wire.PREFIX_BYTES : at + size] as content:
                request: Message = parse_request(self._method, content)
        except (QuorateError, MessageTooLarge, BrokenMessage) as error:
            raise self._unreadable(error) from error
        self._given_bytes = at = at + size
        if size == unread_bytes or at * 2 >= self._window_bytes:
            del unread[:at]
            self._given_bytes = 0
        if self._reading is not None:
            self._end_turn()
        self._traffic.received(size - wire.PREFIX_BYTES)
        self._hold(unread_bytes - size)
        self._stream.consumed(size)
        return request

    def _unreadable(self, error: QuorateError | MessageTooLarge | BrokenMessage) -> QuorateError:
        """No request comes after this one, whatever the handler makes of it."""
        if isinstance(error, MessageTooLarge):
            error = self._too_large(error)
        elif isinstance(error, BrokenMessage):
            error = self._compressed(error)
        self._refuse(error)
        return error

    def _welcome_rest(self) -> None:
        """Of a message that has begun, and that somebody waits for."""
        if self.arriving_since is None:
            self.arriving_since = self._surroundings.loop.time()
        turns = self._route.turns
        if turns is None or self._next_bytes <= self._window_bytes:
            self._stream.expect(self._missing_bytes())
        else:
            self._begin_turn(turns)

    def _missing_bytes(self) -> int:
        return max(self._next_bytes, wire.PREFIX_BYTES) - self._stream.held_bytes
