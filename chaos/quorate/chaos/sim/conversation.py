"""One call over the simulated network: two ordered flows of frames between two nodes.

The frames are HTTP/2's in spirit: a request's head, messages, the end of the requests, the end of the
call with or without an error, and a reset by the caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quorate.chaos.sim.network import SimNetwork
from quorate.core.transport import Method
from quorate.errors import QuorateError, Unavailable
from quorate.v1 import errors_pb2

__all__ = ["Conversation", "End", "Flow", "Frame", "HalfClose", "Head", "Message", "Reset"]

#: messages that a flow takes before its receiver has to read one
_WINDOW: Final = 16


@dataclass(frozen=True, slots=True)
class Head:
    """Opens the call. A unary request travels with it."""

    address: str
    method: Method[Any, Any]
    #: relative, as gRPC's: a request that was held up gets its full time at the server
    timeout_s: float | None
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Message:
    content: bytes


@dataclass(frozen=True, slots=True)
class HalfClose:
    """The caller has no more requests."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The caller is no longer interested."""


@dataclass(frozen=True, slots=True)
class End:
    """The server's last word."""

    #: None: the call succeeded
    error: errors_pb2.ErrorDetail | None


Frame: TypeAlias = Head | Message | HalfClose | Reset | End


class Flow:
    """Frames one way, in order. ``receive`` is called for each one at the other end."""

    def __init__(self, conversation: Conversation, source: str, target: str) -> None:
        self._conversation = conversation
        self._source = source
        self._target = target
        self._in_flight: deque[Frame] = deque()
        self._last_due = 0.0
        self._silent = False
        self._window = asyncio.Semaphore(_WINDOW)
        self.receive: Callable[[Frame], None] | None = None

    def send(self, frame: Frame) -> None:
        if self._silent:
            return
        due = self._conversation.network.transmit(
            self._source, self._target, self._arrived, not_before=self._last_due
        )
        if due is None:
            self._silent = True
            self._conversation.lost_a_frame()
            return
        self._in_flight.append(frame)
        self._last_due = due

    async def send_message(self, content: bytes) -> None:
        """Waits while the receiver is too far behind."""
        await self._window.acquire()
        self.send(Message(content))

    def message_taken(self) -> None:
        """The receiver's reader has consumed one: there is room for another."""
        self._window.release()

    def silence(self) -> None:
        self._silent = True
        self._in_flight.clear()

    def _arrived(self) -> None:
        # Always the oldest: two frames may be due at the same instant, in any order.
        if self._in_flight and self.receive is not None:
            self.receive(self._in_flight.popleft())


class Conversation:
    """Both flows of a call, and their common end when the connection breaks.

    It counts as connected until both sides are done with it: a server may still be busy for a caller
    who gave up, and a break concerns that as well.
    """

    def __init__(self, network: SimNetwork, *, client: str, server: str) -> None:
        self.network = network
        self.client = client
        self.server = server
        self.up = Flow(self, client, server)
        self.down = Flow(self, server, client)
        #: what each side does when the connection breaks
        self.on_break_at_client: Callable[[QuorateError], None] | None = None
        self.on_break_at_server: Callable[[], object] | None = None
        self._sides_open = 2
        network.connect(self, client, server)

    def connection_broken(self, reason: str) -> None:
        self.network.disconnect(self)
        self.up.silence()
        self.down.silence()
        if self.on_break_at_client is not None:
            message = f"the connection to {self.server} broke: {reason}"
            self.on_break_at_client(Unavailable(message, server=self.server))
        if self.on_break_at_server is not None:
            self.on_break_at_server()

    def side_done(self) -> None:
        """To be called once by each side."""
        self._sides_open -= 1
        if self._sides_open == 0:
            self.network.disconnect(self)

    def lost_a_frame(self) -> None:
        self.network.loop.call_later(
            self.network.break_after_s, self._break_if_connected, context=self.network.outside
        )

    def _break_if_connected(self) -> None:
        if self.network.is_connected(self):
            self.connection_broken("the peer does not answer")
