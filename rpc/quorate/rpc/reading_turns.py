"""Whose message is being read: a bound on what unfinished messages hold.

gRPC keeps a message until all of it is there, and tells nobody how much of it that is. Until somebody asks
for it, a call gets no more than its flow-control window. So what unfinished messages hold is bounded by how
many are asked for at once, each of up to the largest size that is allowed. Others wait for their turn.

Nobody keeps a turn for long. A message has a limit for its arrival; and who waits gives the one that is being
read longest a short time to end, so that a few slow senders do not hold up everybody with little to send.
Both refusals come before anything was done for the call. Connections take turns: one with very many calls
waits behind itself.

Rejected: turns weighed by size, which gRPC does not tell before the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from quorate.core.transport import Method
from quorate.errors import Overloaded, RequestTimedOut

__all__ = ["ReadingTurns"]

Content = TypeVar("Content")

#: what a turn takes at most once somebody waits for it
_HURRIED_S: Final = 1.0


class ReadingTurns:
    def __init__(self, turns_max: int, *, limit_s: float) -> None:
        """``limit_s``: for the arrival of a message, and as much for the wait before it."""
        self._free = turns_max
        self._limit_s = limit_s
        #: with when each began, oldest first
        self._reading: dict[asyncio.Timeout, float] = {}
        #: those of them that somebody waits for
        self._hurried: set[asyncio.Timeout] = set()
        #: by peer, whose turn comes next first: an ordered set of its calls
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    async def read(
        self,
        method: Method[Any, Any],
        receive: Callable[[], Awaitable[Content]],
        name_peer: Callable[[], str],
    ) -> Content:
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait_for_turn(method, name_peer())
        now = asyncio.get_running_loop().time()
        turn = asyncio.timeout_at(now + self._limit_s)
        try:
            async with turn:
                self._reading[turn] = now
                if self._waiting:
                    self._hurry_one()
                return await receive()
        except TimeoutError:
            if turn in self._hurried:
                message = f"the request takes longer than {_HURRIED_S} s to arrive, and others wait"
                raise Overloaded(message, method=method.path) from None
            message = f"the request did not arrive within {self._limit_s} s"
            raise RequestTimedOut(message, method=method.path) from None
        finally:
            self._reading.pop(turn, None)
            self._hurried.discard(turn)
            self._pass_on()

    async def _wait_for_turn(self, method: Method[Any, Any], peer: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, {})[turn] = None
        try:
            self._hurry_one()
            async with asyncio.timeout(self._limit_s):
                await turn
        except TimeoutError:
            self._give_back(peer, turn)
            raise Overloaded("too many requests are arriving at once", method=method.path) from None
        except asyncio.CancelledError:
            self._give_back(peer, turn)
            raise

    def _give_back(self, peer: str, turn: asyncio.Future[None]) -> None:
        calls = self._waiting.get(peer, {})
        if turn in calls:
            self._take_out(peer, turn)
        if turn.done() and not turn.cancelled():
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            peer, calls = next(iter(self._waiting.items()))
            turn = next(iter(calls))
            self._take_out(peer, turn)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _take_out(self, peer: str, turn: asyncio.Future[None]) -> None:
        """The peer's other calls come after everybody else's."""
        calls = self._waiting.pop(peer)
        del calls[turn]
        if calls:
            self._waiting[peer] = calls

    def _hurry_one(self) -> None:
        """The one that has been read longest: of all it is the least likely to end by itself."""
        for turn, began in self._reading.items():
            # One whose time is over is about to end; it cannot be given another time.
            if turn not in self._hurried and not turn.expired():
                self._hurried.add(turn)
                now = asyncio.get_running_loop().time()
                turn.reschedule(max(now, began + _HURRIED_S))
                return
