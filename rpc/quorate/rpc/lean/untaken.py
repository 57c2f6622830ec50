"""What lies here of answers because their clients do not take it: bounded, over all connections together.

An answer is taken in two steps: its client opens windows for it, and the client's machine takes what was
written. What waits for the first lies with its stream, what waits for the second with the loop, beside the
socket, when its call may long be over. Both count, and what the system holds of the second does not: that is
no memory of this process.

What holds a connection back comes first. By how full the bound is:

- From a half on (``is_crowded``), and until it is a quarter, every socket is given a few kilobytes at a time,
  and the next when the system has all of them; it had been a megabyte and a half. The rest of an answer waits
  in its stream, and holds back whoever produces more.
- From three quarters on (``is_full``), or when the largest answer yet would have no room, calls wait in line
  before their handlers run, if their method is known for large answers: those alone make it worse, so others
  are not held up by who is slow. To make room for who waits, calls and connections that are stuck for a few
  seconds are ended; once a second at most, as all have to be looked at for it.
- Beyond the bound, that is done at once; and if it is not enough, other calls are ended as well, those of the
  greediest connection first (``held``). What lies with the socket of a connection that is not stuck stays.

Without regard to the bound, the server ends what is stuck for the time that is for taking. A connection is
stuck if its peer's machine takes nothing of what lies here for it; a call, if its client leaves the call's
window shut, or if its connection is stuck. Next to nothing is nothing (``Taking``), and what is no part of an
answer does not count: who is sent answers to pings takes nothing. So who reads slowly and steadily, or pauses
for less, is not ended for it. Encrypted connections have the same rules: they have the same sockets below
(``encryption``).

Rejected: to count what was written as taken, as it had been: a connection may be written a megabyte and
never read it. To end connections by what lies with their sockets alone: with many on slow links that is the
bound, and nobody has done wrong.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from quorate.core.logging import get_logger
from quorate.rpc.lean.held import Bounded, Holder

__all__ = ["AnswerHolder", "Taking", "TakingLink", "Untaken"]

log = get_logger(__name__)

#: parts of the bound
_CROWDED: Final = 1 / 2
_RELIEVED: Final = 1 / 4
_FULL: Final = 3 / 4
#: an answer of so much that waits makes its method known for large ones
_LARGE_BYTES: Final = 64 << 10
#: of what lies here: who takes no more than this in all of its time takes nothing. It had kept the rest for
#: hours, a byte at a time.
_NEXT_TO_NOTHING: Final = 1 / 1024
#: where memory is needed, what is stuck for so long is ended before others wait any longer; a link that loses
#: packets stands still for a second or two
_STUCK_S: Final = 5.0
#: between two looks for room for those who wait
_PAUSE_S: Final = 1.0


class Taking:
    """What is taken of answers, as often as it is looked."""

    __slots__ = ("_taken_bytes", "since")

    def __init__(self, now: float, taken_bytes: int) -> None:
        self._taken_bytes = taken_bytes
        #: when it was seen last that some was taken; at first, when it was looked first
        self.since = now

    def look(self, now: float, taken_bytes: int, untaken_bytes: int) -> None:
        """So many by now, of all that there ever were; and so many are left."""
        if taken_bytes - self._taken_bytes > untaken_bytes * _NEXT_TO_NOTHING:
            self._taken_bytes, self.since = taken_bytes, now


class AnswerHolder(Holder, Protocol):
    def cut(self) -> None:
        """It holds nothing of its answers afterwards."""
        ...

    def untaken_bytes(self) -> int: ...

    def look_at_taking(self, now: float) -> None:
        """What has been taken?"""
        ...

    def is_stuck(self, now: float, for_s: float) -> bool:
        """As far as it was looked at, nothing has been taken for so long."""
        ...


class TakingLink(AnswerHolder, Protocol):
    """A connection: it holds what lies beside its socket."""

    def send_little(self, *, is_little: bool) -> None:
        """From now on its socket is given little at a time, or as much as ever."""
        ...


class Untaken(Bounded[AnswerHolder]):
    """What a client takes of an answer is not told as it happens, but found when it is looked."""

    __slots__ = (
        "_full_bytes",
        "_is_letting_in",
        "_large_methods",
        "_links",
        "_looked_at",
        "_looking",
        "_waiting",
        "is_crowded",
        "is_full",
    )

    def __init__(self, bytes_max: float) -> None:
        super().__init__(bytes_max)
        #: all whose answers count here, whether or not any lies here
        self._links: dict[TakingLink, None] = {}
        self.is_crowded = False
        self.is_full = False
        #: more than this is too much for another large answer
        self._full_bytes = bytes_max * _FULL
        self._large_methods: set[str] = set()
        #: calls whose handlers wait for room, in line; one that is given up is none of them
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        #: the next one is, in a later turn of the loop
        self._is_letting_in = False
        #: when it was last looked for room for them, and is again
        self._looked_at = -math.inf
        self._looking: asyncio.TimerHandle | None = None

    def join(self, link: TakingLink) -> None:
        self._links[link] = None
        link.send_little(is_little=self.is_crowded)

    def leave(self, link: TakingLink) -> None:
        self._links.pop(link, None)
        self.hold(link, 0)

    def hold(self, holder: AnswerHolder, size: int) -> None:
        super().hold(holder, size)
        self._weigh()

    def _weigh(self) -> None:
        part = self.bytes / self.bytes_max
        if part > _CROWDED and not self.is_crowded:
            self._crowd(is_crowded=True)
        elif part < _RELIEVED and self.is_crowded:
            self._crowd(is_crowded=False)
        self.is_full = self.bytes > self._full_bytes
        if self._waiting and not self.is_full:
            self._let_in_soon()

    def _crowd(self, *, is_crowded: bool) -> None:
        self.is_crowded = is_crowded
        for link in list(self._links):
            link.send_little(is_little=is_crowded)

    # ---- calls that wait for room

    def wait(self, call: AnswerHolder, size: int, path: str) -> None:
        """So much of an answer of this method does."""
        if size >= _LARGE_BYTES:
            self._large_methods.add(path)
            # Not below a part of the bound: small ones that nobody takes must not keep out all large ones.
            leaves_room = max(self.bytes_max - size, self.bytes_max * _RELIEVED)
            self._full_bytes = min(self._full_bytes, leaves_room)
        self.hold(call, size)

    def has_to_wait(self, path: str) -> bool:
        return self.is_full and path in self._large_methods

    async def room(self) -> None:
        """In line."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        self._look_for_room_later()
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)

    def _let_in_soon(self) -> None:
        if not self._is_letting_in:
            self._is_letting_in = True
            asyncio.get_running_loop().call_soon(self._let_one_in)

    def _let_one_in(self) -> None:
        """The next one in a later turn: by then this one may have answered already."""
        self._is_letting_in = False
        if self._waiting and not self.is_full:
            waiting, _ = self._waiting.popitem(last=False)
            if not waiting.done():
                waiting.set_result(None)
            self._let_in_soon()

    def _look_for_room_later(self) -> None:
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_at(self._looked_at + _PAUSE_S, self._look_for_room)

    def _look_for_room(self) -> None:
        self._looking = None
        self._looked_at = asyncio.get_running_loop().time()
        if self._waiting:
            self.measure()
            if self.is_full:
                self._end_stuck_ones(self._full_bytes)
            self._look_for_room_later()

    # ---- too much

    def measure(self) -> None:
        for holder in list(self.by_holder):
            size = holder.untaken_bytes()
            self.bytes += size - self.by_holder[holder]
            self.by_holder[holder] = size
        self._weigh()

    def look(self) -> None:
        self.is_look_due = False
        self.measure()
        if self.bytes <= self.bytes_max:
            return
        self._end_stuck_ones(self.bytes_max)
        # What lies with a socket ends with the connection alone.
        self._end(lambda holder: holder is not holder.link, self.bytes_max)

    def _end_stuck_ones(self, bytes_max: float) -> None:
        now = asyncio.get_running_loop().time()
        for link in {holder.link for holder in self.by_holder}:
            link.look_at_taking(now)
        for holder in self.by_holder:
            holder.look_at_taking(now)
        self._end(
            lambda holder: holder.is_stuck(now, _STUCK_S) or holder.link.is_stuck(now, _STUCK_S), bytes_max
        )

    def _end(self, may_end: Callable[[AnswerHolder], bool], bytes_max: float) -> None:
        ended = self.end_greediest(lambda holder: holder.cut(), may_end, bytes_max=bytes_max)
        if ended:
            log.warning(
                "untaken_answers_cut", calls=len(ended), first_peer=ended[0].peer, bytes_max=self.bytes_max
            )
