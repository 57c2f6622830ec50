"""ProduceStream: many produce requests on one stream, with as little work for each as can be.

Requests are appended as they are read, in the order sent. Whatever is acknowledged within one turn of the
event loop wakes the writer once, and leaves together. There is no task and no timer for a request: the stream
has one of each.

What a stream holds is bounded by partitions that are unanswered, or answered and not taken by the client:
beyond that it is not read on. So a client that sends without reading holds a place for each of those, and
its further requests wait on its own side.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, NamedTuple

from quorate.broker.controller_link.lease import Lease
from quorate.broker.handlers.appending import Appender
from quorate.broker.handlers.intake import Intake
from quorate.broker.handlers.open_streams import OpenStreams
from quorate.broker.handlers.produce_in_progress import ProduceInProgress
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.hosted import Hosted
from quorate.core.clock import Clock, Timer
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


class ProduceStreamHandler:
    def __init__(self, appender: Appender, hosted: Hosted, clock: Clock, memory: RequestMemory) -> None:
        self._appender = appender
        self._hosted = hosted
        self._clock = clock
        self._memory = memory
        self._streams: OpenStreams[_ProduceStream] = OpenStreams()

    async def __call__(
        self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest], _call: Call
    ) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
        stream = _ProduceStream(self._appender, self._clock, self._memory, requests)
        self._streams.add(stream)
        lease = self._hosted.lease
        try:
            while await stream.has_answers():
                while stream.answers:
                    answer = stream.answers.popleft()
                    # Here it leaves, so here the lease counts (rule 37).
                    yield _message(answer, lease)
                    stream.sent(answer)
        finally:
            await self._streams.close(stream)

    def stop(self) -> None:
        """Read no more, answer what waits, and end."""
        self._streams.stop()


class _Refusal(NamedTuple):
    """Of a request as a whole: nothing of it was appended."""

    correlation_id: int
    error: errors_pb2.ErrorDetail


def _message(answer: ProduceInProgress | _Refusal, lease: Lease) -> broker_pb2.ProduceStreamResponse:
    message = broker_pb2.ProduceStreamResponse(correlation_id=answer.correlation_id)
    if isinstance(answer, _Refusal):
        message.error.CopyFrom(answer.error)
    else:
        # Said even if there is nothing to say: a request without partitions has an answer without any.
        message.response.SetInParent()
        answer.fill(message.response, lease)
    return message


def _partitions_of(answer: ProduceInProgress | _Refusal) -> int:
    return 1 if isinstance(answer, _Refusal) else max(1, len(answer.appends))


class _ProduceStream:
    def __init__(
        self,
        appender: Appender,
        clock: Clock,
        memory: RequestMemory,
        requests: AsyncIterator[broker_pb2.ProduceStreamRequest],
    ) -> None:
        self._appender = appender
        self._clock = clock
        self._memory = memory
        #: an ordered set
        self._in_progress: dict[ProduceInProgress, None] = {}
        #: of requests that are in progress, or answered and not sent
        self._partitions = 0
        self.answers: deque[ProduceInProgress | _Refusal] = deque()
        self._is_woken = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_due = math.inf
        self._intake = Intake(
            requests, accept=self._accept, has_room=self._has_room, on_over=self._is_woken.set
        )

    # -- reading

    def _accept(self, message: broker_pb2.ProduceStreamRequest) -> None:
        request, correlation_id = message.request, message.correlation_id
        try:
            produce = self._appender.begin(request, self._answered, correlation_id=correlation_id)
        except QuorateError as error:
            self._partitions += 1
            self._add_answer(_Refusal(correlation_id, detail_from_error(error)))
            return
        self._partitions += _partitions_of(produce)
        if not produce.is_answered:
            self._in_progress[produce] = None
            self._memory.hold(_HELD_BYTES_PER_PARTITION * len(produce.appends))
            self._time(produce.deadline)

    def _has_room(self) -> bool:
        if self._partitions >= _PARTITIONS_MAX:
            return False
        if self._memory.has_room:
            return True
        self._memory.call_when_room(self._intake.look_for_room)
        return False

    def stop_reading(self) -> None:
        self._intake.stop()

    # -- answering

    def _answered(self, produce: ProduceInProgress) -> None:
        if produce in self._in_progress:
            self._forget(produce)
        self._add_answer(produce)

    def _forget(self, produce: ProduceInProgress) -> None:
        del self._in_progress[produce]
        self._memory.release(_HELD_BYTES_PER_PARTITION * len(produce.appends))

    def _add_answer(self, answer: ProduceInProgress | _Refusal) -> None:
        self.answers.append(answer)
        self._is_woken.set()

    async def has_answers(self) -> bool:
        """Once there are some; False: there will be no more."""
        while not self.answers:
            if self._intake.is_over:
                self._intake.check()
                if not self._in_progress:
                    return False
            self._is_woken.clear()
            await self._is_woken.wait()
        return True

    def sent(self, answer: ProduceInProgress | _Refusal) -> None:
        self._partitions -= _partitions_of(answer)
        if self._partitions < _PARTITIONS_MAX:
            self._intake.look_for_room()

    # -- time

    def _time(self, deadline: float) -> None:
        """One timer, set for the earliest deadline; most requests are answered long before theirs."""
        if self._timer is None or deadline < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = deadline
            self._timer = self._clock.call_later(deadline - self._clock.monotonic(), self._time_is_over)

    def _time_is_over(self) -> None:
        self._timer = None
        due = self._clock.monotonic() + _TIMER_SLACK_S
        for produce in [each for each in self._in_progress if each.deadline <= due]:
            produce.time_out()
        if self._in_progress:
            self._time(min(each.deadline for each in self._in_progress))

    async def close(self) -> None:
        """The stream has ended, by whichever side: whoever still waits need not be told."""
        if self._timer is not None:
            self._timer.cancel()
        for produce in list(self._in_progress):
            produce.give_up()
            self._forget(produce)
        self._memory.forget(self._intake.look_for_room)
        await self._intake.close()
