"""A stream at its server without tasks and generators: requests and answers are plain calls.

A ``StreamHandler`` of the Transport seam reads requests from an iterator and yields answers. That is the
clearest form for most streams, and costs a task, a future and a handful of generator frames for each message:
more than a broker does with a small one. A handler that is called for every batch of a cluster is an
``ExchangeHandler`` instead: it is told of each request as it arrives, and sends answers whenever it has them.

An exchange handler is a stream handler as well, by ``__call__``: transports that know nothing of exchanges
serve it as any other, and only one that can do better has to look for ``open``.
"""

from __future__ import annotations

import abc
import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

from quorate.core.transport import Call
from quorate.core.waking import wake
from quorate.errors import QuorateError

__all__ = ["ExchangeHandler", "RequestListener", "ServedExchange"]


class ServedExchange(Protocol):
    """What a handler answers through."""

    @property
    def is_ready(self) -> bool:
        """The client takes more; while it does not, answers wait with their handler and not here."""
        ...

    def send(self, response: Any, *, is_last: bool = False) -> None:
        """Only while it ``is_ready``. It leaves in this turn of the loop, with all the others.

        ``is_last``: nothing more is about to follow, so it may leave at once.
        """
        ...

    def end(self, error: QuorateError | None = None) -> None:
        """Behind all that was sent. From now on the listener hears nothing but ``on_over``."""
        ...

    def pause(self) -> None:
        """No more requests until ``resume``: the client is held up by the transport's flow control."""
        ...

    def resume(self) -> None: ...


class RequestListener(Protocol):
    """What a handler makes for each stream. What its methods raise ends the stream with that error."""

    def on_request(self, request: Any) -> None: ...

    def on_requests_end(self) -> None:
        """The client has nothing more to ask; it still reads answers."""
        ...

    def on_ready(self) -> None:
        """The client takes more again."""
        ...

    def on_over(self) -> None:
        """Once, whoever has ended it and however: nothing more is heard, and nothing sent."""
        ...


class ExchangeHandler(abc.ABC):
    @abc.abstractmethod
    def open(self, exchange: ServedExchange, call: Call) -> RequestListener: ...

    async def __call__(self, requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        exchange = _Generated()
        listener = self.open(exchange, call)
        reading = asyncio.create_task(exchange.read(requests, listener), name="exchange-requests")
        try:
            while await exchange.has_answers():
                yield exchange.answers.popleft()
                if exchange.is_ready and not exchange.is_ended:
                    listener.on_ready()
            if exchange.error is not None:
                raise exchange.error
        finally:
            exchange.is_ended = True
            reading.cancel()
            try:
                await asyncio.wait([reading])
            finally:
                listener.on_over()


class _Generated:
    """A ``ServedExchange`` whose answers are taken one by one."""

    def __init__(self) -> None:
        self.answers: deque[Any] = deque()
        self.is_ended = False
        self.error: Exception | None = None
        self._is_paused = False
        self._waits_for_answer: asyncio.Future[None] | None = None
        self._waits_for_resume: asyncio.Future[None] | None = None

    # ---- for the handler

    @property
    def is_ready(self) -> bool:
        return not self.answers

    def send(self, response: Any, *, is_last: bool = False) -> None:  # noqa: ARG002 - taken one by one
        self.answers.append(response)
        wake(self._waits_for_answer)

    def end(self, error: Exception | None = None) -> None:
        if not self.is_ended:
            self.is_ended = True
            self.error = error
            wake(self._waits_for_answer)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        wake(self._waits_for_resume)

    # ---- for the generator

    async def has_answers(self) -> bool:
        """Once there are some; False: there will be no more."""
        loop = asyncio.get_running_loop()
        while not self.answers:
            if self.is_ended:
                return False
            self._waits_for_answer = loop.create_future()
            await self._waits_for_answer
        return True

    async def read(self, requests: AsyncIterator[Any], listener: RequestListener) -> None:
        try:
            async for request in requests:
                # Paused while it was awaited.
                await self._resumed()
                if self.is_ended:
                    return
                listener.on_request(request)
                # Not kept while the next one is awaited.
                del request
                await self._resumed()
            if not self.is_ended:
                listener.on_requests_end()
        except Exception as error:  # noqa: BLE001 - it is raised where the answers are made
            self.end(error)

    async def _resumed(self) -> None:
        while self._is_paused:
            self._waits_for_resume = asyncio.get_running_loop().create_future()
            await self._waits_for_resume
