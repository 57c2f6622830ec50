"""Calls that any of several nodes may answer, and that may be made twice.

Two kinds of trouble, handled alike at first: the next node is asked, at once. Somebody answers that nothing
can be decided right now (an election, a leader that has just moved): that is over in a second or two. Nobody
answers at all: a program that lives long rides through it, as it does when it writes, because nodes come back
and others are learned of meanwhile; a person at a terminal wants to hear after one silent round that nobody
is there. Rounds follow each other after a pause with jitter, until the call's time is up.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
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

__all__ = ["Failover", "FixedNodes", "Nodes"]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_SILENCE: Final = (Unavailable, RequestTimedOut)
_PASSING: Final = (ControllerMoved, NoController, NotController, NotFounded, Overloaded)


class Nodes(Protocol):
    """Who may be asked. `ClusterView` is one that learns, `FixedNodes` one that does not."""

    def addresses(self) -> Sequence[str]: ...

    def channel(self, address: str) -> Channel: ...

    def needs_refresh(self) -> None:
        """More addresses would be welcome. Returns at once."""
        ...


class FixedNodes:
    """Those that were named, and no others."""

    def __init__(self, transport: Transport, addresses: Sequence[str]) -> None:
        assert addresses
        self._transport = transport
        self._addresses = tuple(addresses)
        self._channels: dict[str, Channel] = {}

    def addresses(self) -> Sequence[str]:
        return self._addresses

    def channel(self, address: str) -> Channel:
        found = self._channels.get(address)
        if found is None:
            found = self._channels[address] = self._transport.connect(address)
        return found

    def needs_refresh(self) -> None:
        """There is nobody else."""

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


class _Attempts:
    """What came of one call so far."""

    def __init__(self, *, has_effect: bool) -> None:
        self._has_effect = has_effect
        #: nodes in a row that did not answer
        self.silent = 0
        #: who answered knows more than who did not
        self.last_word: QuorateError | None = None
        self.may_be_done = False
        #: what each address said last, or that it was silent
        self.answers: dict[str, QuorateError] = {}

    @property
    def nobody_decided(self) -> tuple[type[QuorateError], ...]:
        """What may be said of a change that was begun means of a question that no controller answered it."""
        return (NoController, NotController, *(() if self._has_effect else (ControllerMoved,)))

    def note(self, address: str, error: QuorateError) -> None:
        self.answers[address] = error
        if isinstance(error, _SILENCE):
            self.silent += 1
        else:
            self.silent, self.last_word = 0, error
        self.may_be_done = self.may_be_done or (self._has_effect and error.outcome_unknown)


class Failover:
    def __init__(self, nodes: Nodes, *, clock: Clock, rng: random.Random, is_patient: bool) -> None:
        self._nodes = nodes
        self._clock = clock
        self._rng = rng
        #: a round in which nobody answers does not end a call
        self._is_patient = is_patient
        #: asked first: the one that answered last, or the one after it if that failed since
        self._first: str | None = None

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float,
        attempt_timeout_s: float,
        has_effect: bool,
    ) -> Response:
        """The first answer. Where there can be nobody else to ask, an attempt may take all the time.

        A call without effect cannot have been done: when nobody leads, that is what its caller hears.
        """
        deadline = self._clock.monotonic() + timeout_s
        backoff = Backoff(self._rng)
        attempts = _Attempts(has_effect=has_effect)
        if self._first is None:
            # While those that are known still live: they may be gone when the others are needed.
            self._nodes.needs_refresh()
        while True:
            addresses = self._in_turn()
            for address, next_address in zip(addresses, addresses[1:] + addresses[:1], strict=True):
                remaining_s = max(deadline - self._clock.monotonic(), 0.001)
                is_alone = len(addresses) == 1 and not self._is_patient
                attempt_s = remaining_s if is_alone else min(remaining_s, attempt_timeout_s)
                try:
                    response = await self._nodes.channel(address).call(method, request, timeout_s=attempt_s)
                except QuorateError as error:
                    may_be_done = attempts.may_be_done
                    attempts.note(address, error)
                    if not isinstance(error, (*_SILENCE, *_PASSING)):
                        raise _decided(method, error, may_be_done=may_be_done) from error
                    self._first = next_address
                    if isinstance(error, _SILENCE):
                        self._nodes.needs_refresh()
                    if self._clock.monotonic() >= deadline:
                        raise _final(method, error, attempts, addresses) from error
                    failure = error
                else:
                    self._first = address
                    return response
            pause_s = backoff.next_s()
            has_given_up = attempts.silent >= len(addresses) and not self._is_patient
            if has_given_up or self._clock.monotonic() + pause_s >= deadline:
                raise _final(method, failure, attempts, addresses) from failure
            await self._clock.sleep(pause_s)

    def _in_turn(self) -> list[str]:
        addresses = list(self._nodes.addresses())
        if self._first not in addresses:
            return addresses
        start = addresses.index(self._first)
        return addresses[start:] + addresses[:start]


def _decided(method: Method[Request, Response], error: QuorateError, *, may_be_done: bool) -> QuorateError:
    """A refusal speaks for its own attempt: what an earlier one has done may be the very reason of it."""
    if error.outcome_unknown or not may_be_done:
        return error
    return ControllerMoved(
        f"{method.name}: an earlier attempt may have been carried out; asked again, the answer is "
        f"{error.code}: {error.message}"
    )


def _final(
    method: Method[Request, Response], error: QuorateError, attempts: _Attempts, addresses: Sequence[str]
) -> QuorateError:
    if 1 < len(addresses) <= attempts.silent:
        return Unavailable(f"nobody answers at any of {', '.join(addresses)}")
    final = attempts.last_word or error
    if attempts.may_be_done and not final.outcome_unknown:
        # The last attempt says that it did nothing; an earlier one may have done it all the same.
        kind = RequestTimedOut if isinstance(final, TransportError) else ControllerMoved
        return kind(f"{method.name}: no certain answer in time; the last one was: {final.message}")
    if isinstance(final, attempts.nobody_decided):
        # One node knows no more than that it is not the controller; all of them together say that none acts.
        return NoController(f"no controller that decides could be reached; {_told(attempts.answers)}")
    return final


def _told(answers: Mapping[str, QuorateError]) -> str:
    return ", ".join(
        f"{address} does not answer"
        if isinstance(error, _SILENCE)
        else f"{address} answers {error.code}: {error.message}"
        for address, error in answers.items()
    )
