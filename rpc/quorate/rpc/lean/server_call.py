"""A call as its server sees it: from its headers to its status.

A call ends in one of three ways: with a status that this side sends (``_finish``), by the client
(``on_lost``), or by its deadline, which is a status as well. Whichever comes first counts, and nothing that
arrives after it is read. The handler is cancelled if it still runs.

A call is *finished* once its status is decided, and *over* once the socket has taken all of its answer: until
then it counts for whoever waits to hear that it is over. For admission it counts until its handler has ended
as well: one that was cancelled may have something to put away first.

::

    the call           _is_finished  _is_over
    is under way       no            no        what waits of requests counts as held, of answers as untaken
    is finished        yes           no        nothing is held; its answer and status wait: untaken
    is over            either        yes       nothing is held or untaken; it has left admission, or does so
                                               once its handler (_task) has ended

    a message          _reading      _arrived  _has_turn
    needs no turn      None          None      no          what is here of it is held
    waits for a turn   a task        pending   no          the same
    has its turn       a task        pending   yes         not held: it counts among those with turns
    is there           None          None      no          it is with the handler

``UnaryCall``, ``StreamCall`` and ``ExchangeCall`` differ in how requests get to the handler.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quorate.core.transport import Method
from quorate.errors import Overloaded, QuorateError, RequestTimedOut
from quorate.rpc.dispatch import Admission, unexpected
from quorate.rpc.lean import wire
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
from quorate.rpc.lean.held import Held
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.messages import BrokenMessage, MessageTooLarge
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.status import Status, StatusCode, StatusError
from quorate.rpc.lean.stream import Stream
from quorate.rpc.lean.untaken import Taking, Untaken
from quorate.rpc.reading_turns import ReadingTurns
from quorate.rpc.status_errors import status_with_detail
from quorate.rpc.traffic import UNMEASURED, MethodTraffic

__all__ = ["CANCELLED", "CallSurroundings", "Route", "ServerCall", "refuse_stream", "status_of"]

_LARGER: Final = "larger than max"
CANCELLED: Final = Status(StatusCode.CANCELLED, "the handler was cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a path leads to."""

    method: Method[Any, Any]
    handler: Any
    #: what is made for each call
    call_type: type[ServerCall]
    admission: Admission
    #: for large requests; None: they need none
    turns: ReadingTurns | None
    #: what requests hold before a handler takes them, and while they have no turn
    held: Held
    #: what answers hold until their clients take them
    untaken: Untaken
    #: only nodes call it
    is_internal: bool
    traffic: MethodTraffic = UNMEASURED


@dataclass(slots=True)
class CallSurroundings:
    """What all calls of a server share."""

    loop: asyncio.AbstractEventLoop
    options: LeanOptions
    #: handlers that were cancelled, and have not ended yet
    ending: set[asyncio.Task[None]]


def refuse_stream(stream: Stream, status: Status) -> None:
    """Answers with nothing but a status, whatever the client is still sending."""
    trailers = status_trailers(status)
    if status.code is StatusCode.UNIMPLEMENTED:
        trailers = (*trailers, ACCEPTED_ENCODINGS)
    stream.send_headers((*RESPONSE, *trailers), ends=True)
    # Nobody reads what else it sends. Without a word it would have to send it all first.
    stream.reset(ErrorCode.NO_ERROR)


def status_of(error: QuorateError) -> Status:
    if isinstance(error, StatusError):
        return error.status
    status = status_with_detail(error)
    return Status(StatusCode(status.code), status.message, status.SerializeToString())


class ServerCall:
    """What unary calls and streams have in common: the handler's ``Call``, and the stream's listener."""

    def __init__(
        self,
        route: Route,
        stream: Stream,
        head: RequestHead,
        found: HeaderList,
        link: Link,
        surroundings: CallSurroundings,
    ) -> None:
        route.admission.enter(route.method)
        self.peer = link.peer
        self._link = link
        #: sent before the first answer, and behind the last one
        self.initial_metadata: Metadata = ()
        self.trailing_metadata: Metadata = ()
        #: since when the client has to send the rest of its request
        self.arriving_since: float | None = None
        #: what it takes of an answer, while some of that waits
        self._taking: Taking | None = None
        self._route = route
        self._method = route.method
        self._traffic = route.traffic
        self._stream = stream
        self._found = found
        self._surroundings = surroundings
        self._message_bytes_max = surroundings.options.message_bytes_max
        self._on_over: list[Callable[[], None]] = []
        #: the handler, while it runs
        self._task: asyncio.Task[None] | None = None
        #: reads a large message in its turn, and what ends the turn
        self._reading: asyncio.Task[None] | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._has_turn = False
        #: this call's part of what requests hold
        self._held_bytes = 0
        self._are_headers_sent = False
        self._is_finished = False
        self._is_over = False
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout_s is not None:
            self._deadline = surroundings.loop.time() + head.timeout_s
            self._timer = surroundings.loop.call_later(head.timeout_s, self._deadline_passed)

    @property
    def link(self) -> Link:
        return self._link

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
        raise NotImplementedError

    def on_end(self) -> None:
        raise NotImplementedError

    def on_drained(self) -> None:
        if self._taking is not None:
            self._is_taken()
        if self._stream.is_local_ended:
            self._over()

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:  # noqa: ARG002 - the listener's
        self._over()

    # ---- receiving

    def _hold(self, held_bytes: int) -> None:
        """So much of what arrived lies here, and no handler has it."""
        held = self._route.held
        held.bytes += held_bytes - self._held_bytes
        if held_bytes:
            held.by_holder[self] = held_bytes
        elif self._held_bytes:
            del held.by_holder[self]
        self._held_bytes = held_bytes
        if held_bytes and held.bytes > held.bytes_max and not held.is_look_due:
            held.is_look_due = True
            self._surroundings.loop.call_soon(held.look)

    def refuse_held(self) -> None:
        self._refuse(Overloaded("too many requests are arriving at once"))

    def _missing_bytes(self) -> int:
        """Of the message that has begun, beyond the frame that is arriving: its window is spent already."""
        raise NotImplementedError

    def _drop_requests(self) -> None:
        """Those that no handler has."""
        raise NotImplementedError

    def _begin_turn(self, turns: ReadingTurns) -> None:
        """The message is larger than what anybody may send unasked: the rest has to wait for its turn."""
        loop = self._surroundings.loop
        # A turn has a limit of its own, and so has the wait for it.
        self.arriving_since = None
        self._arrived = loop.create_future()
        self._reading = loop.create_task(self._read_in_turn(turns))

    async def _read_in_turn(self, turns: ReadingTurns) -> None:
        try:
            await turns.read(self._method, self._read_rest, lambda: self.peer)
        except QuorateError as error:
            self._refuse(error)

    async def _read_rest(self) -> None:
        assert self._arrived is not None
        self._has_turn = True
        # It counts as one of the largest now, among those that have a turn.
        self._hold(0)
        self._stream.expect(self._missing_bytes())
        await self._arrived

    def _end_turn(self) -> None:
        """All of it is there, and with the handler."""
        assert self._reading is not None
        assert self._arrived is not None
        if not self._has_turn:
            self._reading.cancel()
        elif not self._arrived.done():
            self._arrived.set_result(None)
        self._reading = self._arrived = None
        self._has_turn = False

    def _stop_receiving(self) -> None:
        """Nobody reads what is here, or what else comes."""
        self.arriving_since = None
        if self._held_bytes or self._has_turn:
            self._drop_requests()
            self._hold(0)
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()

    # ---- answering

    def _send(self, content: bytes) -> None:
        if self._is_finished or self._is_over:
            return  # a handler that does not heed that it was cancelled
        size, limit = len(content), self._message_bytes_max
        if size > limit:
            text = f"SERVER: Sent message {_LARGER} ({size} vs. {limit})"
            raise StatusError(StatusCode.RESOURCE_EXHAUSTED, text)
        if not self._are_headers_sent:
            self._send_headers()
        self._traffic.sent(size)
        self._stream.send(wire.message_prefix(size), content)

    def _send_headers(self) -> None:
        if not self._are_headers_sent:
            self._are_headers_sent = True
            self._stream.send_headers((*RESPONSE, *metadata_headers(self.initial_metadata)))

    def _refuse(self, error: QuorateError) -> None:
        """What no handler has, and none will get."""
        if not self._is_finished and not self._is_over:
            self._traffic.refused(error.code)
        self._finish(status_of(error))

    def _finish(self, status: Status) -> None:
        """Whatever is sent already stays so. Nothing comes after it."""
        stream = self._stream
        if self._is_finished or self._is_over:
            return
        self._is_finished = True
        # Whoever takes the answer has the time that is for that, and its status stays as it is.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
            self._stop_receiving()
            self._wait_to_be_taken()

    def _wait_to_be_taken(self) -> None:
        """The client's windows, or the socket, have no room for some of the answer."""
        # Not anew for what is put behind something that waits already.
        if self._taking is None:
            self._taking = Taking(self._surroundings.loop.time(), self._stream.left_bytes)
        self._route.untaken.wait(self, self._stream.waiting_bytes, self._method.path)

    def _is_taken(self) -> None:
        self._taking = None
        self._route.untaken.hold(self, 0)

    def untaken_bytes(self) -> int:
        return self._stream.waiting_bytes

    def look_at_taking(self, now: float) -> None:
        if self._taking is not None:
            self._taking.look(now, self._stream.left_bytes, self._stream.waiting_bytes)

    def is_stuck(self, now: float, for_s: float) -> bool:
        if self._taking is None or now - self._taking.since < for_s:
            return False
        # What its own window would let through has to wait for others on its connection.
        return self._stream.send_window <= 0 or self._link.is_stuck(now, for_s)

    def _over(self) -> None:
        """The socket has all of the answer, or there will be none."""
        if self._is_over:
            return
        self._is_over = True
        if self._taking is not None:
            self._is_taken()
        if self._timer is not None:
            self._timer.cancel()
        self._stop_receiving()
        if not self._stream.is_remote_ended:
            # It still sends: nobody reads it any more.
            self._stream.reset(ErrorCode.NO_ERROR)
        if self._task is None:
            self._route.admission.leave()
        else:
            self._stop_handler()
            self._task.add_done_callback(lambda _task: self._route.admission.leave())
        on_over, self._on_over = self._on_over, []
        for callback in on_over:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - logged; others use the connection, and are to hear it
                unexpected(error, self._method, self)

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
        self._refuse(RequestTimedOut(message, method=self._method.path))

    def _too_large(self, error: MessageTooLarge) -> StatusError:
        limit = self._message_bytes_max
        text = f"SERVER: Received message {_LARGER} ({error.message_bytes} vs. {limit})"
        return StatusError(StatusCode.RESOURCE_EXHAUSTED, text)

    def _compressed(self, _error: BrokenMessage) -> StatusError:
        text = "the message says that it is compressed, and the headers do not say how"
        return StatusError(StatusCode.INTERNAL, text)

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

    def _handler_ended(self, status: Status) -> None:
        self._task = None
        self._finish(status)

    def _handler_failed(self, error: Exception) -> None:
        """It says why; or it has answered with something that cannot be sent."""
        if not isinstance(error, QuorateError):
            error = unexpected(error, self._method, self)
        self._handler_ended(status_of(error))
