"""A call as its server sees it: from its headers to its status.

A unary call's handler runs once all of its request is there, a stream's at once. The call ends in one of
three ways: with a status that this side sends (``_finish``), by the client (``on_lost``), or by its deadline,
which is a status as well; whichever comes first. The handler is cancelled if it still runs.

It counts, for admission and for whoever waits to hear that it is over, until the socket has taken its answer.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from quorate.core.transport import Method
from quorate.errors import InvalidRequest, Overloaded, QuorateError, RequestTimedOut
from quorate.rpc.dispatch import Admission, parse_request, run_stream, run_unary
from quorate.rpc.lean.frames import ErrorCode
from quorate.rpc.lean.grpc_headers import (
    ACCEPTED_ENCODINGS,
    RESPONSE,
    Metadata,
    RequestHead,
    metadata_headers,
    metadata_of,
    status_trailers,
)
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.messages import (
    PREFIX_BYTES,
    BrokenMessage,
    MessageReader,
    MessageTooLarge,
    message_prefix,
)
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.status import OK, Status, StatusCode, StatusError
from quorate.rpc.lean.stream import Stream
from quorate.rpc.reading_turns import ReadingTurns
from quorate.rpc.status_errors import status_with_detail
from quorate.rpc.traffic import UNMEASURED, MethodTraffic

__all__ = ["CallSurroundings", "Route", "ServerCall", "StreamCall", "UnaryCall", "refuse_stream"]

_LARGER: Final = "larger than max"


@dataclass(frozen=True, slots=True)
class Route:
    """What a path leads to."""

    method: Method[Any, Any]
    handler: Any
    admission: Admission
    #: for large requests; None: they need none
    turns: ReadingTurns | None
    traffic: MethodTraffic = UNMEASURED


@dataclass(slots=True)
class CallSurroundings:
    """What all calls of a server share."""

    loop: asyncio.AbstractEventLoop
    options: LeanOptions
    #: handlers that were cancelled, and have not ended yet
    ending: set[asyncio.Task[None]]
    #: held of unary requests that have begun to arrive, and need no turn for it
    arriving_bytes: int = 0


def refuse_stream(stream: Stream, status: Status) -> None:
    """Answers with nothing but a status, whatever the client is still sending."""
    trailers = status_trailers(status)
    if status.code is StatusCode.UNIMPLEMENTED:
        trailers = (*trailers, ACCEPTED_ENCODINGS)
    stream.send_headers((*RESPONSE, *trailers), ends=True)
    # Nobody reads what else it sends. Without a word it would have to send it all first.
    stream.reset(ErrorCode.NO_ERROR)


class ServerCall:
    """What unary calls and streams have in common: the handler's ``Call``, and the stream's listener."""

    def __init__(
        self,
        route: Route,
        stream: Stream,
        head: RequestHead,
        found: HeaderList,
        peer: str,
        surroundings: CallSurroundings,
    ) -> None:
        route.admission.enter(route.method)
        self.peer = peer
        #: sent before the first answer, and behind the last one
        self.initial_metadata: Metadata = ()
        self.trailing_metadata: Metadata = ()
        #: since when the client has to send the rest of its request, or to take the rest of an answer
        self.arriving_since: float | None = None
        self.taking_since: float | None = None
        self._route = route
        self._stream = stream
        self._found = found
        self._surroundings = surroundings
        self._reader = MessageReader(surroundings.options.message_bytes_max)
        self._on_over: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._are_headers_sent = False
        self._is_over = False
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout_s is not None:
            self._deadline = surroundings.loop.time() + head.timeout_s
            self._timer = surroundings.loop.call_later(head.timeout_s, self._deadline_passed)

    # ---- for handlers

    @property
    def metadata(self) -> Metadata:
        return metadata_of(self._found)

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - self._surroundings.loop.time())

    def when_over(self, callback: Callable[[], None]) -> None:
        self._on_over.append(callback)

    # ---- what the stream tells

    def on_headers(self, found: HeaderList) -> None:
        """Trailers of a request, in which gRPC has nothing to say."""

    def on_data(self, part: memoryview) -> None:
        try:
            for content in self._reader.feed(part):
                self._on_message(content)
                if self._is_over:
                    return
        except QuorateError as error:
            self._refuse(error)
        except MessageTooLarge as error:
            limit = self._surroundings.options.message_bytes_max
            text = f"SERVER: Received message {_LARGER} ({error.message_bytes} vs. {limit})"
            self._finish(Status(StatusCode.RESOURCE_EXHAUSTED, text))
        except BrokenMessage:
            text = "the message says that it is compressed, and the headers do not say how"
            self._finish(Status(StatusCode.INTERNAL, text))
        else:
            self._on_part()

    def on_end(self) -> None:
        raise NotImplementedError

    def on_drained(self) -> None:
        self.taking_since = None
        if self._stream.is_local_ended:
            self._over()

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:  # noqa: ARG002 - the listener's
        self._over()

    def _on_message(self, content: memoryview) -> None:
        raise NotImplementedError

    def _on_part(self) -> None:
        raise NotImplementedError

    # ---- answering

    def _send(self, response: Message) -> None:
        if self._is_over:
            return  # a handler that does not heed that it was cancelled
        content = response.SerializeToString()
        limit = self._surroundings.options.message_bytes_max
        if len(content) > limit:
            text = f"SERVER: Sent message {_LARGER} ({len(content)} vs. {limit})"
            raise StatusError(StatusCode.RESOURCE_EXHAUSTED, text)
        self._send_headers()
        self._route.traffic.sent(len(content))
        self._stream.send(message_prefix(len(content)), content)

    def _send_headers(self) -> None:
        if not self._are_headers_sent:
            self._are_headers_sent = True
            self._stream.send_headers((*RESPONSE, *metadata_headers(self.initial_metadata)))

    def _refuse(self, error: QuorateError) -> None:
        if isinstance(error, StatusError):
            self._finish(error.status)
            return
        status = status_with_detail(error)
        self._finish(Status(StatusCode(status.code), status.message, status.SerializeToString()))

    def _finish(self, status: Status) -> None:
        """Whatever is sent already stays so. Nothing comes after it."""
        stream = self._stream
        if self._is_over or stream.is_local_ended:
            return
        if not self._are_headers_sent and not self.initial_metadata and status.code:
            self._are_headers_sent = True
            trailers = status_trailers(status, self.trailing_metadata)
            stream.send_headers((*RESPONSE, *trailers), ends=True)
        else:
            self._send_headers()
            stream.end(status_trailers(status, self.trailing_metadata))
        if stream.is_local_ended:
            self._over()
        else:
            self.taking_since = self._surroundings.loop.time()

    def _over(self) -> None:
        """The socket has all of the answer, or there will be none."""
        if self._is_over:
            return
        self._is_over = True
        self.arriving_since = self.taking_since = None
        if self._timer is not None:
            self._timer.cancel()
        self._stop_handler()
        if not self._stream.is_remote_ended:
            # It still sends: nobody reads it any more.
            self._stream.reset(ErrorCode.NO_ERROR)
        self._route.admission.leave()
        on_over, self._on_over = self._on_over, []
        for callback in on_over:
            callback()

    # ---- ending early

    def stop(self) -> None:
        """The server stops, and waits no longer."""
        self._finish(Status(StatusCode.UNAVAILABLE, "the server is stopping"))
        self.cut()

    def cut(self) -> None:
        """The client does not take its answer: nothing can be sent behind it, not even a status."""
        if not self._is_over:
            self._stream.reset(ErrorCode.CANCEL)
            self._over()

    def refuse_late(self) -> None:
        limit_s = self._surroundings.options.arrival_s_max
        message = f"the request did not arrive within {limit_s} s"
        self._refuse(RequestTimedOut(message, method=self._route.method.path))

    def _deadline_passed(self) -> None:
        self._stop_handler()
        self._finish(Status(StatusCode.DEADLINE_EXCEEDED, "the deadline passed"))
        self.cut()

    def _stop_handler(self) -> None:
        task = self._task
        if task is None or task.done() or task is asyncio.current_task():
            return
        ending = self._surroundings.ending
        ending.add(task)
        task.add_done_callback(ending.discard)
        task.cancel()


class UnaryCall(ServerCall):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._request: Message | None = None
        self._reading: asyncio.Task[None] | None = None
        self._arrived: asyncio.Future[None] | None = None
        #: this call's part of what is arriving
        self._arriving_bytes = 0
        self.arriving_since = self._surroundings.loop.time()

    def _on_message(self, content: memoryview) -> None:
        if self._request is not None:
            raise InvalidRequest("the call has more than one request", method=self._route.method.path)
        self._route.traffic.received(len(content))
        self._request = parse_request(self._route.method, content)

    def _on_part(self) -> None:
        missing = self._reader.missing_bytes
        if missing or self._arriving_bytes:
            self._count_arriving(self._reader.collected_bytes)
            if self._surroundings.arriving_bytes > self._surroundings.options.arriving_bytes_max:
                self._refuse(Overloaded("too many requests are arriving at once"))
                return
        if missing <= self._stream.receive_window or self._reading is not None:
            return
        if self._route.turns is None:
            self._stream.expect(missing)
            return
        # More than anybody may send unasked: it has to wait for its turn.
        self.arriving_since = None
        self._count_arriving(0)
        self._arrived = self._surroundings.loop.create_future()
        self._reading = self._surroundings.loop.create_task(self._read_in_turn(self._route.turns))

    def _count_arriving(self, held_bytes: int) -> None:
        if self._reading is None:
            self._surroundings.arriving_bytes += held_bytes - self._arriving_bytes
            self._arriving_bytes = held_bytes

    async def _read_in_turn(self, turns: ReadingTurns) -> None:
        try:
            await turns.read(self._route.method, self._read_rest, lambda: self.peer)
        except QuorateError as error:
            self._refuse(error)

    async def _read_rest(self) -> None:
        assert self._arrived is not None
        self._stream.expect(self._reader.missing_bytes)
        await self._arrived

    def on_end(self) -> None:
        if self._is_over:
            return
        self.arriving_since = None
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
        if self._request is None:
            self._refuse(InvalidRequest("the call has no request"))
            return
        request, self._request = self._request, None
        if self._timer is None:
            limit_s = self._surroundings.options.default_timeout_s
            self._deadline = self._surroundings.loop.time() + limit_s
            self._timer = self._surroundings.loop.call_later(limit_s, self._limit_passed)
        self._task = self._surroundings.loop.create_task(self._serve(request))

    async def _serve(self, request: Message) -> None:
        try:
            response = await run_unary(self._route.handler, self._route.method, request, self)
            del request
            if not self._is_over:
                self._send(response)
                self._finish(OK)
        except QuorateError as error:
            self._refuse(error)
        except asyncio.CancelledError:
            self._finish(Status(StatusCode.CANCELLED, "the handler was cancelled"))
            raise

    def _limit_passed(self) -> None:
        limit_s = self._surroundings.options.default_timeout_s
        message = f"not done within {limit_s} s, the limit for calls that set none"
        self._stop_handler()
        self._refuse(RequestTimedOut(message, method=self._route.method.path))

    def _over(self) -> None:
        if self._arriving_bytes:
            self._surroundings.arriving_bytes -= self._arriving_bytes
            self._arriving_bytes = 0
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        super()._over()


class StreamCall(ServerCall):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: with what each holds of the window
        self._requests: deque[tuple[Message | QuorateError, int]] = deque()
        self._is_ended = False
        self._window_bytes = self._surroundings.options.window_bytes
        #: somebody waits for a request, or for room to send
        self._waits_for_request: asyncio.Future[None] | None = None
        self._waits_for_room: asyncio.Future[None] | None = None
        self._task = self._surroundings.loop.create_task(self._serve())

    def _on_message(self, content: memoryview) -> None:
        self._route.traffic.received(len(content))
        size = PREFIX_BYTES + len(content)
        try:
            request: Message | QuorateError = parse_request(self._route.method, content)
        except QuorateError as error:
            request = error
        self._requests.append((request, size))
        _wake(self._waits_for_request)

    def _on_part(self) -> None:
        self._welcome_rest()

    def _welcome_rest(self) -> None:
        """Of a message that has begun: at once if it is small, and otherwise if somebody waits for it."""
        begun = self._reader.begun_bytes
        if begun and (begun <= self._window_bytes or self._waits_for_request is not None):
            self._stream.expect(self._reader.missing_bytes)

    def on_end(self) -> None:
        self._is_ended = True
        _wake(self._waits_for_request)

    def on_drained(self) -> None:
        super().on_drained()
        _wake(self._waits_for_room)

    async def _read(self) -> AsyncGenerator[Any, None]:
        while True:
            while self._requests:
                request, size = self._requests.popleft()
                self._stream.consumed(size)
                if isinstance(request, QuorateError):
                    raise request
                yield request
            if self._is_ended:
                return
            self._waits_for_request = self._surroundings.loop.create_future()
            self._welcome_rest()
            try:
                await self._waits_for_request
            finally:
                self._waits_for_request = None

    async def _serve(self) -> None:
        route = self._route
        try:
            async with aclosing(run_stream(route.handler, route.method, self._read(), self)) as responses:
                async for response in responses:
                    self._send(response)
                    if not self._stream.is_drained:
                        await self._drained()
            self._finish(OK)
        except QuorateError as error:
            self._refuse(error)
        except asyncio.CancelledError:
            self._finish(Status(StatusCode.CANCELLED, "the handler was cancelled"))
            raise

    async def _drained(self) -> None:
        self.taking_since = self._surroundings.loop.time()
        self._waits_for_room = self._surroundings.loop.create_future()
        try:
            await self._waits_for_room
        finally:
            self._waits_for_room = None


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
