"""One call over the simulated network: two ordered flows of frames between two nodes.

The frames are HTTP/2's in spirit: a request's head, messages, the end of the requests, the end of the
call with or without an error, and a reset by the caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from quorate.chaos.sim.loop import SimLoop
from quorate.chaos.sim.network import Link, SimNetwork
from quorate.core.transport import Method
from quorate.errors import QuorateError, Unavailable
from quorate.v1 import errors_pb2

__all__ = ["Conversation", "End", "Flow", "Frame", "HalfClose", "Head", "Inbox", "Message", "Reset"]

T = TypeVar("T")

#: messages that a flow takes before its receiver has to read one
_WINDOW: Final = 16
_RESET: Final = "connection reset"


# Frames are not frozen, though nobody changes one: to make a frozen one costs three times as much.


@dataclass(slots=True)
class Head:
    """Opens the call. A unary request travels with it."""

    address: str
    method: Method[Any, Any]
    #: relative, as gRPC's: a request that was held up gets its full time at the server
    timeout_s: float | None
    content: bytes = b""


@dataclass(slots=True)
class Message:
    content: bytes


@dataclass(slots=True)
class HalfClose:
    """The caller has no more requests."""


@dataclass(slots=True)
class Reset:
    """The caller is no longer interested."""


@dataclass(slots=True)
class End:
    """The server's last word."""

    #: None: the call succeeded
    error: errors_pb2.ErrorDetail | None


Frame: TypeAlias = Head | Message | HalfClose | Reset | End


class Inbox(Generic[T]):
    """What has arrived for one reader, who takes it from ``items``.

    asyncio's own queue is for many readers, and costs several times as much; there are two for every call.
    """

    __slots__ = ("_is_late", "_loop", "_waiter", "items")

    def __init__(self, loop: SimLoop) -> None:
        self.items: deque[T] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._is_late = False

    def put(self, item: T) -> None:
        self.items.append(item)
        self._wake()

    async def wait(self, deadline: float | None = None) -> bool:
        """Until there is something. False: the deadline has come, at the latest before the reader's turn."""
        assert self._waiter is None or self._waiter.done(), "one reader"
        waiter = self._waiter = self._loop.create_future()
        timer: asyncio.Handle | None = None
        if deadline is not None:
            # A timer of the reader's own in place of asyncio.timeout_at, which cancels the task to end it.
            is_over = deadline <= self._loop.now
            timer = (
                self._loop.call_soon(self._expire) if is_over else self._loop.call_at(deadline, self._expire)
            )
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
        return not self._is_late

    def _expire(self) -> None:
        self._is_late = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Flow:
    """Frames one way, in order. ``receive`` is called for each one at the other end."""

    __slots__ = (
        "_conversation",
        "_in_flight",
        "_last_due",
        "_link",
        "_room",
        "_silent",
        "_source",
        "_target",
        "_window",
        "receive",
    )

    def __init__(self, conversation: Conversation, source: str, target: str) -> None:
        self._conversation = conversation
        self._source = source
        self._target = target
        self._in_flight: deque[Frame] = deque()
        self._last_due = 0.0
        self._silent = False
        #: since the first frame: which link was there first decides which one heals first
        self._link: Link | None = None
        #: for messages, before the first that finds none; few flows ever have one
        self._room = _WINDOW
        #: what messages wait for from then on
        self._window: asyncio.Semaphore | None = None
        self.receive: Callable[[Frame], None] | None = None

    def send(self, frame: Frame) -> None:
        if self._silent:
            return
        network, link = self._conversation.network, self._link
        if link is None:
            link = self._link = network.link(self._source, self._target)
        due = network.transmit(link, self._arrived, not_before=self._last_due)
        if due is None:
            self._silent = True
            self._conversation.lost_a_frame()
            return
        self._in_flight.append(frame)
        self._last_due = due

    async def send_message(self, content: bytes) -> None:
        """Waits while the receiver is too far behind."""
        if self._room > 0:
            self._room -= 1
        else:
            if self._window is None:
                self._window = asyncio.Semaphore(0)
            await self._window.acquire()
        self.send(Message(content))

    def message_taken(self) -> None:
        """The receiver's reader has consumed one: there is room for another."""
        if self._window is None:
            self._room += 1
        else:
            self._window.release()

    def end(self) -> None:
        """Nobody sends any more. What is in flight arrives, and then the connection breaks."""
        network, link = self._conversation.network, self._link
        if self._silent:
            # What comes after a frame that is lost does not arrive either.
            return
        self._silent = True
        if link is None:
            link = network.link(self._source, self._target)
        if network.transmit(link, self._conversation.end_arrived, not_before=self._last_due) is None:
            self._conversation.lost_a_frame()

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

    __slots__ = (
        "_sides_open",
        "client",
        "down",
        "network",
        "on_break_at_client",
        "on_break_at_server",
        "server",
        "up",
    )

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
        self._tell_client(reason)
        self._tell_server()

    def _tell_client(self, reason: str) -> None:
        if self.on_break_at_client is not None:
            message = f"the connection to {self.server} broke: {reason}"
            self.on_break_at_client(Unavailable(message, server=self.server))

    def _tell_server(self) -> None:
        if self.on_break_at_server is not None:
            self.on_break_at_server()

    def process_died(self, node: str) -> None:
        # Whoever died never hears of it, and is unwound when the simulation is over.
        if node == self.client:
            self.down.silence()
            self._tell_client(_RESET)
            self.on_break_at_client = None
            self.up.end()
        else:
            self.up.silence()
            self._tell_server()
            self.on_break_at_server = None
            self.down.end()

    def end_arrived(self) -> None:
        """What came before it may be of use for a moment: a process takes longer to die than to send."""
        network = self.network
        network.loop.call_later(
            network.rng.uniform(*network.faults.delay_s),
            self._break_if_connected,
            _RESET,
            context=network.outside,
        )

    def side_done(self) -> None:
        """To be called once by each side."""
        self._sides_open -= 1
        if self._sides_open == 0:
            self.network.disconnect(self)

    def lost_a_frame(self) -> None:
        self.network.loop.call_later(
            self.network.break_after_s,
            self._break_if_connected,
            "the peer does not answer",
            context=self.network.outside,
        )

    def _break_if_connected(self, reason: str) -> None:
        if self.network.is_connected(self):
            self.connection_broken(reason)
