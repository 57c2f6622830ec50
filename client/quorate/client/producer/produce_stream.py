"""One stream of produce requests to one broker: requests out in order, answers in as they come.

A request's answers are for whole batches. When the stream ends, whatever is left of it is handed back with
the reason, and with whether it was given to the transport: only what was not is certain not to have arrived.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from quorate.client.producer.batch import ProducerBatch
from quorate.core.transport import Channel, method_of
from quorate.errors import QuorateError, RequestTimedOut, Unavailable, UnknownServerError
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
    def __init__(
        self,
        channel: Channel,
        *,
        on_answer: Callable[[Request, broker_pb2.ProduceStreamResponse], None],
        on_end: Callable[[ProduceStream, list[Request], QuorateError], None],
    ) -> None:
        self.address = channel.address
        self._channel = channel
        self._on_answer = on_answer
        self._on_end = on_end
        self._outgoing: deque[Request] = deque()
        self._unanswered: dict[int, Request] = {}
        self._next_correlation_id = 0
        self._wakeup: asyncio.Future[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, request: Request) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        assert request.message is not None
        request.message.correlation_id = correlation_id
        self._unanswered[correlation_id] = request
        self._outgoing.append(request)
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def unanswered(self) -> list[Request]:
        return list(self._unanswered.values())

    def break_off(self) -> None:
        """The broker takes too long. What is unanswered is handed back."""
        self._task.cancel()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        failure: QuorateError = RequestTimedOut(
            f"no answer from {self.address} in time", address=self.address
        )
        try:
            stream = self._channel.stream(_PRODUCE_STREAM, self._requests(), timeout_s=None)
            async with aclosing(stream) as responses:
                async for response in responses:
                    request = self._unanswered.pop(response.correlation_id, None)
                    if request is not None:
                        self._on_answer(request, response)
            failure = Unavailable(f"{self.address} ended the stream", address=self.address)
        except QuorateError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a bug in here must not leave batches without an end
            failure = UnknownServerError(f"{type(error).__name__} while reading answers: {error}")
        finally:
            unanswered = list(self._unanswered.values())
            self._unanswered.clear()
            self._outgoing.clear()
            self._on_end(self, unanswered, failure)

    async def _requests(self) -> AsyncIterator[broker_pb2.ProduceStreamRequest]:
        while True:
            while self._outgoing:
                request = self._outgoing.popleft()
                message, request.message = request.message, None
                assert message is not None
                yield message
                del message  # not kept while there is nothing to send
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
