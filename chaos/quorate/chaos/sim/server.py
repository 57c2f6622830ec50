"""The serving side of the simulated transport."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Final, TypeAlias

from quorate.chaos.sim.conversation import Conversation, End, Frame, HalfClose, Head, Inbox, Message, Reset
from quorate.chaos.sim.network import SimNetwork
from quorate.core.transport import CallKind, Handler, Method, Service
from quorate.errors import InvalidRequest, QuorateError, RequestTimedOut, Unavailable
from quorate.rpc.dispatch import Admission, Admissions, parse_request, run_stream, run_unary
from quorate.rpc.error_detail import detail_from_error

__all__ = ["SimServer", "refuse"]

_Request: TypeAlias = Message | HalfClose
_REQUESTS: Final = (Message, HalfClose)


class SimServer:
    def __init__(
        self,
        network: SimNetwork,
        address: str,
        services: Sequence[Service],
        admissions: Admissions,
    ) -> None:
        self.serving = True
        self._network = network
        self._handlers: dict[Method[Any, Any], tuple[Handler, Admission]] = {
            method: (handler, admissions.of(service, method))
            for service in services
            for method, handler in service.handlers.items()
        }
        self._tasks: dict[asyncio.Task[None], None] = {}
        #: calls belong to the process that serves, whoever made them
        self._context = copy_context()
        self.address = network.listen(address, self)

    async def set_serving(self, *, serving: bool) -> None:
        self.serving = serving

    async def stop(self, grace_s: float) -> None:
        self._network.stop_listening(self.address)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        self.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def kill(self) -> None:
        """As the death of its process: nobody listens, every handler ends where it is."""
        self._network.stop_listening(self.address)
        for task in list(self._tasks):
            task.cancel()

    def accept(self, conversation: Conversation, head: Head) -> None:
        found = self._handlers.get(head.method)
        if found is None:
            refuse(conversation, InvalidRequest(f"there is no {head.method} here", method=head.method.path))
            return
        handler, admission = found
        session = _Session(conversation, head, handler, admission)
        task = self._network.loop.create_task(session.run(), context=self._context.copy())
        session.attach(task)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)


def refuse(conversation: Conversation, error: QuorateError) -> None:
    """End a call that has no handler."""
    conversation.down.send(End(detail_from_error(error)))
    conversation.side_done()


class _Session:
    """One call at the server: its handler's view of it, and its end."""

    def __init__(self, conversation: Conversation, head: Head, handler: Any, admission: Admission) -> None:
        self._conversation = conversation
        self._head = head
        self._handler = handler
        self._admission = admission
        self._loop = conversation.network.loop
        self._inbox: Inbox[_Request] = Inbox(self._loop)
        self._deadline = math.inf if head.timeout_s is None else self._loop.now + head.timeout_s
        self._half_closed = False
        self._on_over: list[Callable[[], None]] = []

    # ---- what a handler sees

    @property
    def peer(self) -> str:
        return self._conversation.client

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - self._loop.time())

    def when_over(self, callback: Callable[[], None]) -> None:
        self._on_over.append(callback)

    # ---- the call

    def attach(self, task: asyncio.Task[None]) -> None:
        def receive(frame: Frame) -> None:
            if isinstance(frame, Reset):
                task.cancel()
            elif isinstance(frame, _REQUESTS):
                self._inbox.put(frame)

        self._conversation.up.receive = receive
        self._conversation.on_break_at_server = task.cancel
        task.add_done_callback(self._finished)

    async def run(self) -> None:
        method = self._head.method
        with self._admission.admit(method):
            try:
                work = self._run_unary() if method.kind is CallKind.UNARY else self._run_stream()
                if self._head.timeout_s is None:
                    await work
                else:
                    async with asyncio.timeout(self._head.timeout_s):
                        await work
            except TimeoutError:
                raise RequestTimedOut("not done by the caller's deadline", method=method.path) from None

    async def _run_unary(self) -> None:
        method = self._head.method
        request = parse_request(method, self._head.content)
        response = await run_unary(self._handler, method, request, self)
        self._conversation.down.send(Message(response.SerializeToString()))

    async def _run_stream(self) -> None:
        async with aclosing(run_stream(self._handler, self._head.method, _Requests(self), self)) as responses:
            async for response in responses:
                await self._conversation.down.send_message(response.SerializeToString())

    async def next_request(self) -> Any:
        """None at the end, and from then on."""
        if self._half_closed:
            return None
        inbox = self._inbox
        if not inbox.items:
            await inbox.wait()
        frame = inbox.items.popleft()
        if isinstance(frame, Message):
            self._conversation.up.message_taken()
            return parse_request(self._head.method, frame.content)
        self._half_closed = True
        return None

    def _finished(self, task: asyncio.Task[None]) -> None:
        error = Unavailable("the server cancelled the call") if task.cancelled() else task.exception()
        assert error is None or isinstance(error, QuorateError), error
        self._conversation.on_break_at_server = None
        self._conversation.down.send(End(None if error is None else detail_from_error(error)))
        for callback in self._on_over:
            callback()
        self._conversation.side_done()


class _Requests:
    """No generator: one that its handler leaves in a cycle of references is closed by a task of its own
    once the garbage collector comes across it, so at a moment that no seed decides."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if (request := await self._session.next_request()) is None:
            raise StopAsyncIteration
        return request
