"""Calls that any of several addresses may answer, and that may be made twice.

Two kinds of trouble, handled differently. Nobody answers: the next address, at once; when a whole round of
addresses was silent, waiting longer is unlikely to help, and the caller hears so. Somebody answers that
nothing can be decided right now (an election, a leader that has just moved): once more after a pause, until
the call's time is up, because that is over in a second or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from quorate.core.transport import Channel, Method, Transport
from quorate.errors import (
    ControllerMoved,
    NoController,
    NotController,
    NotFounded,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    TransportError,
    Unavailable,
)

__all__ = ["Failover"]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_PAUSE_S: Final = 0.1

_SILENCE: Final = (Unavailable, RequestTimedOut)
_PASSING: Final = (ControllerMoved, NoController, NotController, NotFounded, Overloaded)


class Failover:
    """Channels to every address, opened as they are needed."""

    def __init__(self, transport: Transport, addresses: Sequence[str]) -> None:
        assert addresses
        self._transport = transport
        self._addresses = addresses
        self._channels: dict[str, Channel] = {}
        #: index of the address that is asked first: the one that answered last
        self._current = 0

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def channel(self) -> Channel:
        """To the address that answered last."""
        address = self._addresses[self._current]
        found = self._channels.get(address)
        if found is None:
            found = self._channels[address] = self._transport.connect(address)
        return found

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        attempt_timeout_s: float,
        has_effect: bool = True,
    ) -> Response:
        """The first answer. With one address only, an attempt may take all the time there is.

        A call without effect cannot have been done: when nobody leads, that is what its caller hears.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        count = len(self._addresses)
        silent = attempts = 0
        may_be_done = False
        last_word: QuorateError | None = None
        while True:
            remaining_s = max(deadline - loop.time(), 0.001)
            attempt_s = remaining_s if count == 1 else min(remaining_s, attempt_timeout_s)
            try:
                return await self.channel().call(method, request, timeout_s=attempt_s)
            except (*_SILENCE, *_PASSING) as error:
                attempts += 1
                if isinstance(error, _SILENCE):
                    silent += 1
                else:
                    silent, last_word = 0, error
                may_be_done = may_be_done or (has_effect and error.outcome_unknown)
                is_late = loop.time() + _PAUSE_S >= deadline
                if silent >= count or is_late:
                    # Who answered knows more than who did not.
                    final = last_word or error
                    raise self._final(method, final, silent, may_be_done=may_be_done) from error
            self._current = (self._current + 1) % count
            if attempts % count == 0:
                await asyncio.sleep(_PAUSE_S)

    def _final(
        self, method: Method[Request, Response], error: QuorateError, silent: int, *, may_be_done: bool
    ) -> QuorateError:
        if 1 < len(self._addresses) <= silent:
            return Unavailable(f"nobody answers at any of {', '.join(self._addresses)}")
        if may_be_done and not error.outcome_unknown:
            # The last attempt says that it did nothing; an earlier one may have done it all the same.
            kind = RequestTimedOut if isinstance(error, TransportError) else ControllerMoved
            return kind(f"{method.name}: no certain answer in time; the last one was: {error.message}")
        return error
