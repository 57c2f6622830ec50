"""ProduceStream: many produce requests on one stream, with as little work for each as can be.

Requests are appended as they arrive, in the order sent, and answered as they are acknowledged; what is
answered within one turn of the event loop leaves together. There is no task and no timer for a request: the
stream has one timer.

What a stream holds is bounded by partitions that are unanswered, or answered and not taken by the client:
beyond that it is not read on. So a client that sends without reading holds a place for each of those, and
its further requests wait on its own side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from quorate.broker.controller_link.lease import Lease
from quorate.broker.handlers.appending import Appender
from quorate.broker.handlers.open_streams import OpenStreams
from quorate.broker.handlers.produce_in_progress import ProduceInProgress
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.hosted import Hosted
from quorate.core.clock import Clock, Timer
from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.errors import QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2, errors_pb2

__all__ = ["ProduceStreamHandler"]

#: Partitions of requests that one stream may have in progress, or answered and not taken.
_PARTITIONS_MAX: Final = 1_000
#: What a partition holds while it waits: its place in the answer, and who is to be told.
_HELD_BYTES_PER_PARTITION: Final = 1_024
#: A timer may be early by a rounding error; a request is not worth another timer for that.
_TIMER_SLACK_S: Final = 0.001


class ProduceStreamHandler(ExchangeHandler):
    def __init__(self, appender: Appender, hosted: Hosted, clock: Clock, memory: RequestMemory) -> None:
        self._appender = appender
        self._hosted = hosted
        self._clock = clock
        self._memory = memory
        self._streams: OpenStreams[_ProduceStream] = OpenStreams()

    def open(self, exchange: ServedExchange, _call: Call) -> _ProduceStream:
        stream = _ProduceStream(
            exchange,
            self._appender,
            self._clock,
            self._memory,
            self._hosted.lease,
            on_over=self._streams.discard,
        )
        self._streams.add(stream)
        return stream

    def stop(self) -> None:
        """Read no more, answer what waits, and end."""
        self._streams.stop()


class _Refusal:
    """Of a request as a whole: nothing of it was appended."""

    __slots__ = ("correlation_id", "error", "places")

    def __init__(self, correlation_id: int, error: errors_pb2.ErrorDetail) -> None:
        self.correlation_id = correlation_id
        self.error = error
        #: as that of a request with one partition
        self.places = 1


def _message(answer: ProduceInProgress | _Refusal, lease: Lease) -> broker_pb2.ProduceStreamResponse:
    message = broker_pb2.ProduceStreamResponse()
    message.correlation_id = answer.correlation_id
    if isinstance(answer, _Refusal):
        message.error.CopyFrom(answer.error)
        return message
    response = message.response
    if not answer.appends:
        # Said even if there is nothing to say: a request without partitions has an answer without any.
        response.SetInParent()
    answer.fill(response, lease)
    return message


class _ProduceStream:
    def __init__(
        self,
        exchange: ServedExchange,
        appender: Appender,
        clock: Clock,
        memory: RequestMemory,
        lease: Lease,
        *,
        on_over: Callable[[_ProduceStream], None],
    ) -> None:
        self._exchange = exchange
        self._appender = appender
        self._clock = clock
        self._memory = memory
        self._lease = lease
        self._on_over = on_over
        #: an ordered set
        self._in_progress: dict[ProduceInProgress, None] = {}
        #: of requests that are in progress, or answered and not sent
        self._partitions = 0
        #: what the client does not take yet
        self._answers: deque[ProduceInProgress | _Refusal] = deque()
        self._is_reading = True
        self._timer: Timer | None = None
        self._timer_due = math.inf

    # -- reading

    def on_request(self, message: broker_pb2.ProduceStreamRequest) -> None:
        request, correlation_id = message.request, message.correlation_id
        try:
            produce = self._appender.begin(request, self._answered, correlation_id=correlation_id)
        except QuorateError as error:
            self._partitions += 1
            self._answer(_Refusal(correlation_id, detail_from_error(error)))
        else:
            if produce.unanswered:
                self._wait_for(produce)
        if not self._has_room():
            self._exchange.pause()

    def _wait_for(self, produce: ProduceInProgress) -> None:
        self._partitions += produce.places
        self._in_progress[produce] = None
        self._memory.hold(_HELD_BYTES_PER_PARTITION * produce.places)
        if produce.deadline < self._timer_due:
            self._time(produce.deadline)

    def on_requests_end(self) -> None:
        self._is_reading = False
        self._end_if_all_is_said()

    def stop_reading(self) -> None:
        """Answer what was asked, and end."""
        self._exchange.pause()
        self.on_requests_end()

    def _has_room(self) -> bool:
        if self._partitions >= _PARTITIONS_MAX:
            return False
        if self._memory.has_room:
            return True
        self._memory.call_when_room(self._look_for_room)
        return False

    def _look_for_room(self) -> None:
        if self._is_reading and self._has_room():
            self._exchange.resume()

    # -- answering

    def _answered(self, produce: ProduceInProgress) -> None:
        if produce in self._in_progress:
            self._forget(produce)
        else:
            # It never waited.
            self._partitions += produce.places
        self._answer(produce)

    def _forget(self, produce: ProduceInProgress) -> None:
        del self._in_progress[produce]
        self._memory.release(_HELD_BYTES_PER_PARTITION * produce.places)

    def _answer(self, answer: ProduceInProgress | _Refusal) -> None:
        if self._answers or not self._exchange.is_ready:
            self._answers.append(answer)
        else:
            self._send(answer)
            if not self._is_reading:
                self._end_if_all_is_said()

    def _send(self, answer: ProduceInProgress | _Refusal) -> None:
        # Here it leaves, so here the lease counts (rule 37).
        self._exchange.send(_message(answer, self._lease))
        was_full = self._partitions >= _PARTITIONS_MAX
        self._partitions -= answer.places
        if was_full:
            self._look_for_room()

    def on_ready(self) -> None:
        while self._answers and self._exchange.is_ready:
            self._send(self._answers.popleft())
        self._end_if_all_is_said()

    def _end_if_all_is_said(self) -> None:
        if not self._is_reading and not self._in_progress and not self._answers:
            self._exchange.end()

    # -- time

    def _time(self, deadline: float) -> None:
        """One timer, set for the earliest deadline; most requests are answered long before theirs."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = deadline
        self._timer = self._clock.call_later(deadline - self._clock.monotonic(), self._time_is_over)

    def _time_is_over(self) -> None:
        self._timer, self._timer_due = None, math.inf
        due = self._clock.monotonic() + _TIMER_SLACK_S
        for produce in [each for each in self._in_progress if each.deadline <= due]:
            produce.time_out()
        if self._in_progress:
            self._time(min(each.deadline for each in self._in_progress))

    def on_over(self) -> None:
        """The stream has ended, by whichever side: whoever still waits need not be told."""
        self._is_reading = False
        if self._timer is not None:
            self._timer.cancel()
        for produce in list(self._in_progress):
            produce.give_up()
            self._forget(produce)
        self._memory.forget(self._look_for_room)
        self._on_over(self)
