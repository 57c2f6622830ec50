"""The way to the active controller, whoever that is.

A broker knows the addresses of the controllers, not which of them is active. It remembers whom it should ask,
its *target*. A controller that is not active names the one that is, as far as it knows; one that does not
answer at all is passed over for the next. Whatever the broker has to ask goes to the same target, so that all
of it learns from the first call that fails.

What cannot be done without a promise of exactly one attempt is marked as such by its caller; everything else
is tried again until its time is up (``quorate.metadata.controller_calls``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.transport import Channel, Method, Request, Response, Transport
from quorate.errors import (
    ControllerMoved,
    DuplicateBroker,
    NoController,
    NotController,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnexpectedBrokerEpoch,
)
from quorate.metadata.controller_calls import until_answered

__all__ = ["ControllerLink"]

#: a controller that hangs is left after this time; an answer needs a commit of the quorum, no more
_ATTEMPT_TIMEOUT_S: Final = 3.0
_BACKOFF_MIN_S: Final = 0.05
_BACKOFF_MAX_S: Final = 0.5

#: said by the one who is, or a moment ago was, the right one to ask: nobody else knows better
_SAID_BY_THE_RIGHT_ONE: Final = (
    NoController,
    ControllerMoved,
    Overloaded,
    DuplicateBroker,
    UnexpectedBrokerEpoch,
)


class ControllerLink:
    def __init__(
        self, transport: Transport, addresses: Sequence[str], *, clock: Clock, rng: random.Random
    ) -> None:
        assert addresses
        self._transport = transport
        self._addresses = tuple(addresses)
        self._clock = clock
        self._rng = rng
        self._target = rng.choice(self._addresses)
        self._channels: dict[str, Channel] = {}

    @property
    def target(self) -> str:
        """Whom to ask next."""
        return self._target

    def connect(self) -> Channel:
        """A channel to the target, of the caller's own."""
        return self._transport.connect(self._target)

    def failed(self, address: str, error: QuorateError) -> None:
        """A call there ended like that: learn from it whom to ask next."""
        if address != self._target or isinstance(error, _SAID_BY_THE_RIGHT_ONE):
            return
        named = error.facts.get("controller_address") if isinstance(error, NotController) else None
        if isinstance(named, str) and named not in ("", address):
            self._target = named
        else:
            self._target = self._after(address)

    def backoff(self) -> Backoff:
        return Backoff(self._rng, first_s=_BACKOFF_MIN_S, pause_s_max=_BACKOFF_MAX_S, begins_at_once=True)

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        attempt_timeout_s: float = _ATTEMPT_TIMEOUT_S,
        is_repeatable: bool = True,
        has_effect: bool = True,
    ) -> Response:
        """The active controller's answer, or its refusal; a transient error once the time is up.

        With ``is_repeatable=False`` an attempt of unknown outcome is not followed by another;
        ``has_effect=False`` is for those that only ask.
        """
        return await until_answered(
            method.name,
            lambda remaining_s: self._attempt(method, request, remaining_s),
            clock=self._clock,
            deadline=self._clock.monotonic() + timeout_s,
            attempt_s_max=attempt_timeout_s,
            pause_s=self.backoff().next_s,
            is_repeatable=is_repeatable,
            has_effect=has_effect,
        )

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _attempt(
        self, method: Method[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        address = self._target
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        try:
            return await channel.call(method, request, timeout_s=timeout_s)
        except QuorateError as error:
            self.failed(address, error)
            is_doubtful = isinstance(error, Unavailable | RequestTimedOut)
            if is_doubtful and self._channels.get(address) is channel:
                # A broken channel takes its time before it tries to connect again; a new one does not. One
                # whose peer has gone without a word is not even known to be broken for a while.
                del self._channels[address]
                await channel.close()
            raise

    def _after(self, address: str) -> str:
        if address not in self._addresses:
            return self._rng.choice(self._addresses)
        return self._addresses[(self._addresses.index(address) + 1) % len(self._addresses)]
