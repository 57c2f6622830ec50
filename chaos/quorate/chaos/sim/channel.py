"""The calling side of the simulated transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from functools import partial
from typing import Any, Final, TypeAlias

from quorate.chaos.sim.conversation import Conversation, End, Frame, HalfClose, Head, Inbox, Message, Reset
from quorate.chaos.sim.network import SimNetwork, node_of
from quorate.chaos.sim.server import refuse
from quorate.core.transport import Method, Request, Response
from quorate.errors import RequestTimedOut, Unavailable
from quorate.rpc.dispatch import parse_response
from quorate.rpc.error_detail import error_from_detail

__all__ = ["SimChannel"]

#: what can happen to a caller: a message, the end, or a local failure
_Event: TypeAlias = Message | End | Exception
_FROM_SERVER: Final = (Message, End)


class SimChannel:
    def __init__(self, network: SimNetwork, node: str, address: str) -> None:
        self.address = address
        self._network = network
        self._node = node
        self._target = node_of(address)
        self._calls: dict[_ClientCall, None] = {}
        self._closed = False

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        head = Head(self.address, method, timeout_s, request.SerializeToString())
        is_lost = self._network.repeat(
            self._node, self._target, partial(_send_alone, self._network, self._node, self._target, head)
        )
        call = self._begin(head, is_lost=is_lost)
        try:
            content = await call.next_message()
            assert content is not None, "a unary call that succeeds has an answer"
            await call.next_message()
        finally:
            self._end(call)
        return parse_response(method, content)

    async def stream(
        self, method: Method[Request, Response], requests: AsyncIterable[Request], *, timeout_s: float | None
    ) -> AsyncGenerator[Response, None]:
        call = self._begin(Head(self.address, method, timeout_s))
        try:
            pump = self._network.loop.create_task(call.send_all(requests))
            try:
                while (content := await call.next_message()) is not None:
                    call.conversation.down.message_taken()
                    yield parse_response(method, content)
            finally:
                pump.cancel()
                await asyncio.wait([pump])
        finally:
            self._end(call)

    async def close(self) -> None:
        self._closed = True
        for call in list(self._calls):
            call.fail(self._closed_error(call.head.method))

    def _begin(self, head: Head, *, is_lost: bool = False) -> _ClientCall:
        if self._closed:
            raise self._closed_error(head.method)
        call = _ClientCall(self._network, self._node, self._target, head, is_lost=is_lost)
        self._calls[call] = None
        return call

    def _end(self, call: _ClientCall) -> None:
        del self._calls[call]
        call.finish()

    def _closed_error(self, method: Method[Any, Any]) -> Unavailable:
        return Unavailable(
            f"the channel to {self.address} is closed", address=self.address, method=method.path
        )


class _ClientCall:
    """One call at the caller's side."""

    __slots__ = ("_deadline", "_ended", "_events", "conversation", "head")

    def __init__(self, network: SimNetwork, node: str, target: str, head: Head, *, is_lost: bool) -> None:
        self.head = head
        self._events: Inbox[_Event] = Inbox(network.loop)
        self._deadline = None if head.timeout_s is None else network.loop.now + head.timeout_s
        self._ended = False
        self.conversation = _open(network, node, target, head, is_lost=is_lost)
        self.conversation.down.receive = self._receive
        self.conversation.on_break_at_client = self.fail

    def fail(self, error: Exception) -> None:
        self._events.put(error)

    async def next_message(self) -> bytes | None:
        """None at the end."""
        events = self._events
        # What is there need not be waited for, whatever the time.
        if not events.items and not await events.wait(self._deadline):
            message = f"{self.head.method.name} at {self.head.address}: no answer in {self.head.timeout_s} s"
            raise RequestTimedOut(message, address=self.head.address, method=self.head.method.path)
        event = events.items.popleft()
        if isinstance(event, Message):
            return event.content
        if isinstance(event, Exception):
            raise event
        self._ended = True
        if event.error is not None:
            raise error_from_detail(event.error)
        return None

    async def send_all(self, requests: AsyncIterable[Any]) -> None:
        try:
            async for request in requests:
                await self.conversation.up.send_message(request.SerializeToString())
        except Exception as error:  # noqa: BLE001 - it is raised where the caller reads responses
            self.fail(error)
        else:
            self.conversation.up.send(HalfClose())

    def finish(self) -> None:
        if not self._ended:
            self.conversation.up.send(Reset())
        self.conversation.on_break_at_client = None
        self.conversation.side_done()

    def _receive(self, frame: Frame) -> None:
        assert isinstance(frame, _FROM_SERVER)
        self._events.put(frame)


def _open(network: SimNetwork, node: str, target: str, head: Head, *, is_lost: bool = False) -> Conversation:
    conversation = Conversation(network, client=node, server=target)
    conversation.up.receive = partial(_route, conversation)
    if is_lost:
        conversation.up.silence()
        conversation.lost_a_frame()
    else:
        conversation.up.send(head)
    return conversation


def _send_alone(network: SimNetwork, node: str, target: str, head: Head) -> None:
    """Nobody waits for the answer."""
    _open(network, node, target, head).side_done()


def _route(conversation: Conversation, frame: Frame) -> None:
    """At the server's node, until somebody there has taken the call."""
    if not isinstance(frame, Head):
        return
    listener = conversation.network.listener_at(frame.address, asking=conversation.client)
    if listener is None:
        message = f"{frame.address}: connection refused"
        refuse(conversation, Unavailable(message, address=frame.address, method=frame.method.path))
    else:
        listener.accept(conversation, frame)
