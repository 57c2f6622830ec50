"""A stream of the Transport seam without a task on the way: requests leave by a call, answers come by one.

``Channel.stream`` takes its requests from an asynchronous iterator and hands its answers out by another. That
is good to read, and costs a small message two tasks, two futures and three turns of the loop more than its
bytes need. Who has a request at hand and knows what to do with an answer needs none of them: it is an
``ExchangeListener``.

A channel that can do so offers ``exchange`` by itself; over all others the same is made of their ``stream``.
``open_exchange`` is for both, and nobody can tell which it was:

- ``send`` is for whoever has seen ``is_ready``. A peer that takes no more makes it False, and ``on_ready``
  tells when it is True again. What waits meanwhile waits at the listener, who knows what may still be called
  back.
- ``on_response`` comes in the order of the answers, never within ``open_exchange`` or ``send``. It may send.
  What it raises is a mistake of its own, and ends the exchange.
- ``on_end`` comes once, never within ``open_exchange``, and nothing after it; not at all after ``cancel``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from google.protobuf.message import Message

from quorate.core.logging import get_logger
from quorate.core.transport import Channel, Method
from quorate.errors import QuorateError, UnknownServerError

__all__ = ["Exchange", "ExchangeListener", "broken_listener", "open_exchange"]

log = get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
RequestIn = TypeVar("RequestIn", bound=Message, contravariant=True)
ResponseIn = TypeVar("ResponseIn", bound=Message, contravariant=True)


class Exchange(Protocol[RequestIn]):
    @property
    def is_ready(self) -> bool:
        """It is open, and the peer takes another request."""
        ...

    def send(self, request: RequestIn, *, is_last: bool) -> None:
        """It leaves in this turn of the loop; ``is_last``: with all before it, as soon as it can.

        One that cannot be sent ends the exchange, before this returns.
        """
        ...

    def cancel(self) -> None:
        """The listener is not told: it is who asked."""
        ...

    async def close(self) -> None:
        """The same, and wait until nothing of it is left."""
        ...


class ExchangeListener(Protocol[ResponseIn]):
    def on_ready(self) -> None:
        """It is open, or takes requests again."""
        ...

    def on_response(self, response: ResponseIn) -> None: ...

    def on_end(self, error: QuorateError | None) -> None:
        """None: the server has ended it, and all is well."""
        ...


@runtime_checkable
class _Exchanging(Protocol):
    """A channel that needs no adapter."""

    def exchange(self, method: Method[Any, Any], listener: ExchangeListener[Any]) -> Exchange[Any]: ...


def open_exchange(
    channel: Channel, method: Method[Request, Response], listener: ExchangeListener[Response]
) -> Exchange[Request]:
    """It lives without a deadline, as a stream does."""
    if isinstance(channel, _Exchanging):
        return channel.exchange(method, listener)
    return _OverStream(channel, method, listener)


def broken_listener(error: Exception) -> QuorateError:
    """What an exchange ends with whose listener has failed. Logged, because nobody raises it further."""
    log.error("exchange_failed", exc_info=error)
    return UnknownServerError(f"{type(error).__name__} while reading answers: {error}")


class _OverStream(Generic[Request, Response]):
    """What a channel's ``stream`` makes of it: one task here, and another in there."""

    def __init__(
        self, channel: Channel, method: Method[Request, Response], listener: ExchangeListener[Response]
    ) -> None:
        self._channel = channel
        self._method = method
        self._listener = listener
        #: the next request, once the transport asks for it
        self._wanted: asyncio.Future[Request] | None = None
        self._is_over = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_ready(self) -> bool:
        return not self._is_over and self._wanted is not None and not self._wanted.done()

    def send(self, request: Request, *, is_last: bool) -> None:  # noqa: ARG002 - a stream takes them as it can
        assert self._wanted is not None
        self._wanted.set_result(request)

    def cancel(self) -> None:
        self._is_over = True
        self._task.cancel()

    async def close(self) -> None:
        self.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        error: QuorateError | None = None
        try:
            stream = self._channel.stream(self._method, self._requests(), timeout_s=None)
            async with aclosing(stream) as responses:
                async for response in responses:
                    if self._is_over:
                        return
                    self._listener.on_response(response)
        except QuorateError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - a bug in here must not leave anybody without an end
            error = broken_listener(failure)
        if not self._is_over:
            self._is_over = True
            self._listener.on_end(error)

    async def _requests(self) -> AsyncIterator[Request]:
        loop = asyncio.get_running_loop()
        while True:
            self._wanted = loop.create_future()
            self._listener.on_ready()
            request = await self._wanted
            yield request
            del request  # not kept while there is nothing to send
