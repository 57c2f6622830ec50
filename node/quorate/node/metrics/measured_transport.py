"""A Transport whose handlers are timed: the seam at which a node's work for others can be seen from outside.

Nothing behind the seam knows of it. What a handler is given and what it gives pass through as they are, and
so do its errors. Sizes are told by the transport itself (``quorate.rpc.traffic``).

Requests of a stream are kept by no one here: only their numbers and when they came. There are no more of
those than the handler has unanswered, which it bounds.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from quorate.core.instruments import LATENCY_BOUNDS_S
from quorate.core.served_exchange import ExchangeHandler, RequestListener, ServedExchange
from quorate.core.transport import Call, CallKind, Channel, Handler, Method, Server, Service, Transport
from quorate.errors import QuorateError, UnknownServerError
from quorate.node.metrics.held_up import HeldUp
from quorate.node.metrics.request import MethodMeter, RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.v1 import broker_pb2

__all__ = ["MeasuredTransport"]

_BROKER_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"].full_name
_PRODUCE: Final = f"/{_BROKER_SERVICE}/Produce"
#: the streams whose answers carry the number of their request
_PRODUCE_STREAM: Final = f"/{_BROKER_SERVICE}/ProduceStream"
_FETCH_STREAM: Final = f"/{_BROKER_SERVICE}/FetchStream"
#: the caller had gone before there was an answer
_CANCELLED: Final = "CANCELLED"

#: to be told the partitions of an answer, how long it took, and where latencies like that are counted
_Answered = Callable[[Any, float, int], None]


class MeasuredTransport:
    def __init__(
        self, transport: Transport, requests: RequestMeter, topics: TopicMeter, now: Callable[[], float]
    ) -> None:
        """``now``: monotonic seconds."""
        self._transport = transport
        self._requests = requests
        self._topics = topics
        self._now = now

    def connect(self, address: str) -> Channel:
        return self._transport.connect(address)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        measured = [self._measured(service) for service in services]
        return await self._transport.serve(address, measured, serving=serving)

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        return await self._transport.is_refused(address, timeout_s=timeout_s)

    def _measured(self, service: Service) -> Service:
        measured = copy.copy(service)
        measured.handlers = {
            method: self.measured_handler(method, handler) for method, handler in service.handlers.items()
        }
        return measured

    def measured_handler(self, method: Method[Any, Any], handler: Handler) -> Handler:
        meter = self._requests.method(method)
        if method.kind is CallKind.UNARY:
            answered = self._topics.answered if method.path == _PRODUCE else None
            return _timed_unary(cast(Any, handler), meter, answered, self._now)
        if method.path == _PRODUCE_STREAM:
            assert isinstance(handler, ExchangeHandler)
            # Once, though every listener has handlers of its own.
            meter.held_up = meter.held_up or HeldUp(self._now)
            return _TimedHandler(handler, meter, meter.held_up, self._topics.answered, self._now)
        if method.path == _FETCH_STREAM:
            return _timed_stream(cast(Any, handler), meter, self._now)
        return handler


def _timed_unary(
    handler: Any, meter: MethodMeter, answered: _Answered | None, now: Callable[[], float]
) -> Handler:
    async def timed(request: Any, call: Call) -> Any:
        began = now()
        try:
            response = await handler(request, call)
        except QuorateError as error:
            meter.failed(error.code, now() - began)
            raise
        except asyncio.CancelledError:
            meter.failed(_CANCELLED, now() - began)
            raise
        except Exception:
            meter.failed(UnknownServerError.code, now() - began)
            raise
        seconds = now() - began
        place = bisect_left(LATENCY_BOUNDS_S, seconds)
        meter.done.add(place, seconds)
        if answered is not None:
            answered(response.partitions, seconds, place)
        return response

    return timed


def _timed_stream(handler: Any, meter: MethodMeter, now: Callable[[], float]) -> Handler:
    async def timed(requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        noted = _Noted(requests, now)
        came = noted.came
        async with aclosing(handler(noted, call)) as responses:
            async for response in responses:
                # A client may give two requests the same number; then one of them is not timed.
                began = came.pop(response.correlation_id, None)
                if began is not None:
                    seconds = now() - began
                    if response.HasField("error"):
                        meter.failed(response.error.code, seconds)
                    else:
                        meter.done.observe(seconds)
                yield response

    return timed


class _Noted:
    """The requests of a stream. Not a generator: its frame would keep each one until the next one comes."""

    __slots__ = ("_now", "_requests", "came")

    def __init__(self, requests: AsyncIterator[Any], now: Callable[[], float]) -> None:
        self._requests = requests
        self._now = now
        #: when, by the client's number
        self.came: dict[int, float] = {}

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        request = await self._requests.__anext__()
        self.came[request.correlation_id] = self._now()
        return request


class _TimedHandler(ExchangeHandler):
    def __init__(
        self,
        handler: ExchangeHandler,
        meter: MethodMeter,
        held_up: HeldUp,
        answered: _Answered,
        now: Callable[[], float],
    ) -> None:
        self._handler = handler
        self._meter = meter
        self._held_up = held_up
        self._answered = answered
        self._now = now

    def open(self, exchange: ServedExchange, call: Call) -> RequestListener:
        answers = _TimedAnswers(exchange, self._meter, self._held_up, self._answered, self._now)
        return _TimedRequests(self._handler.open(answers, call), answers, self._now)


class _TimedAnswers:
    """What the handler answers through."""

    __slots__ = (
        "_answered",
        "_done",
        "_exchange",
        "_held_up",
        "_is_held_up",
        "_meter",
        "_now",
        "came",
        "end",
        "is_taking",
    )

    def __init__(
        self,
        exchange: ServedExchange,
        meter: MethodMeter,
        held_up: HeldUp,
        answered: _Answered,
        now: Callable[[], float],
    ) -> None:
        self._exchange = exchange
        self._meter = meter
        self._done = meter.done.add
        self._held_up = held_up
        self._is_held_up = False
        #: the handler has been given a request, and has not returned yet
        self.is_taking = False
        self._answered = answered
        self._now = now
        #: when, by the client's number
        self.came: dict[int, float] = {}
        self.end = exchange.end

    @property
    def is_ready(self) -> bool:
        return self._exchange.is_ready

    def send(self, response: Any, *, is_last: bool = False) -> None:
        began = self.came.pop(response.correlation_id, None)
        if began is not None:
            seconds = self._now() - began
            place = bisect_left(LATENCY_BOUNDS_S, seconds)
            partitions = response.response.partitions
            # Looked at first, being cheaper: who has partitions has no error.
            if partitions or not response.HasField("error"):
                self._done(place, seconds)
                self._answered(partitions, seconds, place)
            else:
                self._meter.failed(response.error.code, seconds)
        self._exchange.send(response, is_last=is_last)

    def pause(self) -> None:
        """Handlers may say so more than once."""
        if not self.is_taking:
            # Of its own accord: the node stops, and will answer what it has. No bound holds the client up.
            self.end_held_up()
        elif not self._is_held_up:
            self._is_held_up = True
            self._held_up.begin()
        self._exchange.pause()

    def resume(self) -> None:
        self.end_held_up()
        self._exchange.resume()

    def end_held_up(self) -> None:
        """It is read again, or has ended and never will be."""
        if self._is_held_up:
            self._is_held_up = False
            self._held_up.end()


class _TimedRequests:
    """What the transport tells of requests."""

    __slots__ = ("_answers", "_came", "_listener", "_now", "on_ready", "on_requests_end")

    def __init__(self, listener: RequestListener, answers: _TimedAnswers, now: Callable[[], float]) -> None:
        self._listener = listener
        self._answers = answers
        self._came = answers.came
        self._now = now
        self.on_ready, self.on_requests_end = listener.on_ready, listener.on_requests_end

    def on_request(self, request: Any) -> None:
        self._came[request.correlation_id] = self._now()
        # What it raises ends the stream, so nobody asks any more.
        self._answers.is_taking = True
        self._listener.on_request(request)
        self._answers.is_taking = False

    def on_over(self) -> None:
        self._answers.end_held_up()
        self._listener.on_over()
