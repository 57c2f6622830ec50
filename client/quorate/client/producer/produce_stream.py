"""One stream of produce requests to one broker: requests out in order, answers in as they come.

A request's answers are for whole batches. When the stream ends, whatever is left of it is handed back with
the reason, and with whether it was given to the transport: only what was not is certain not to have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from quorate.client.producer.batch import ProducerBatch
from quorate.core.exchange import open_exchange
from quorate.core.transport import Channel, method_of
from quorate.errors import QuorateError, RequestTimedOut, Unavailable
from quorate.v1 import broker_pb2

__all__ = ["ProduceStream", "Request"]

_PRODUCE_STREAM: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "ProduceStream",
    broker_pb2.ProduceStreamRequest,
    broker_pb2.ProduceStreamResponse,
)


class Request:
    """Batches of different partitions that travel together."""

    __slots__ = ("batches", "message", "sent_at", "stream")

    def __init__(
        self,
        stream: ProduceStream,
        batches: Sequence[ProducerBatch],
        message: broker_pb2.ProduceStreamRequest,
        sent_at: float,
    ) -> None:
        self.stream = stream
        self.batches = batches
        #: None: the transport has taken it
        self.message: broker_pb2.ProduceStreamRequest | None = message
        self.sent_at = sent_at

    @property
    def is_sent(self) -> bool:
        """It may arrive."""
        return self.message is None

    @property
    def is_awaited(self) -> bool:
        """False: each of its batches is sent elsewhere by now, or over."""
        return any(batch.attempt is self for batch in self.batches)


class ProduceStream:
    """Listens to an exchange. Requests that the transport does not take yet wait here, not sent."""

    def __init__(
        self,
        channel: Channel,
        *,
        on_answer: Callable[[Request, broker_pb2.ProduceStreamResponse], None],
        on_end: Callable[[ProduceStream, list[Request], QuorateError], None],
    ) -> None:
        self.address = channel.address
        self._answered = on_answer
        self._ended = on_end
        self._outgoing: deque[Request] = deque()
        self._unanswered: dict[int, Request] = {}
        self._next_correlation_id = 0
        self._exchange = open_exchange(channel, _PRODUCE_STREAM, self)

    def send(self, request: Request, *, is_last: bool = True) -> None:
        """``is_last``: no other follows in this turn of the loop. It may end the stream at once."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        assert request.message is not None
        request.message.correlation_id = correlation_id
        self._unanswered[correlation_id] = request
        if self._exchange.is_ready and not self._outgoing:
            self._hand_over(request, is_last=is_last)
        else:
            self._outgoing.append(request)

    def unanswered(self) -> list[Request]:
        return list(self._unanswered.values())

    def break_off(self) -> None:
        """The broker takes too long. What is unanswered is handed back."""
        self._exchange.cancel()
        self._end(RequestTimedOut(f"no answer from {self.address} in time", address=self.address))

    async def close(self) -> None:
        await self._exchange.close()

    # -- what the exchange tells

    def on_ready(self) -> None:
        while self._outgoing and self._exchange.is_ready:
            request = self._outgoing.popleft()
            self._hand_over(request, is_last=not self._outgoing)

    def on_response(self, response: broker_pb2.ProduceStreamResponse) -> None:
        request = self._unanswered.pop(response.correlation_id, None)
        if request is not None:
            self._answered(request, response)

    def on_end(self, error: QuorateError | None) -> None:
        self._end(error or Unavailable(f"{self.address} ended the stream", address=self.address))

    def _hand_over(self, request: Request, *, is_last: bool) -> None:
        message, request.message = request.message, None
        assert message is not None
        self._exchange.send(message, is_last=is_last)

    def _end(self, error: QuorateError) -> None:
        unanswered = list(self._unanswered.values())
        self._unanswered.clear()
        self._outgoing.clear()
        self._ended(self, unanswered, error)
