"""What lies here for somebody else to take: together no more than a bound.

Of requests, what no handler has taken yet (``Held``); of answers, what no client has (``untaken``). Every
call tells how much lies here for it. When there is too much, calls are ended: of whichever connection holds
most, the call that holds most, and of equals the one that has held it longest. So a small request gets
through between those that never end, and who has many large ones under way pays for them.

So many are ended that an eighth of the bound is free: whom to end is found by sorting all of them, and
whoever keeps the bound full would have that done for each call.

Not before the end of the turn of the loop: a request whose end is in the same read is with its handler by
then, as is one that its handler was waiting for.

Rejected: a share for every connection. Most hold nothing at all, and a bound that is fair to ten thousand
of them lets none send a large request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["Bounded", "Held", "Holder", "RequestHolder"]

#: of what is too much: what is left of it once calls were ended, at most
_LEFT: Final = 7 / 8


class Holder(Protocol):
    @property
    def link(self) -> Any:
        """Its connection."""
        ...

    @property
    def peer(self) -> str: ...


class RequestHolder(Holder, Protocol):
    def refuse_held(self) -> None:
        """It holds nothing of its requests afterwards."""
        ...


OneHolder = TypeVar("OneHolder", bound=Holder)


class Bounded(Generic[OneHolder]):
    """What all holders of one sort hold together."""

    __slots__ = ("by_holder", "bytes", "bytes_max", "is_look_due")

    def __init__(self, bytes_max: float) -> None:
        self.bytes = 0
        #: who holds anything at all, since when it does
        self.by_holder: dict[OneHolder, int] = {}
        self.bytes_max = bytes_max
        #: whether it is too much is looked at, at the end of this turn of the loop
        self.is_look_due = False

    def look(self) -> None:
        raise NotImplementedError

    def hold(self, holder: OneHolder, size: int) -> None:
        """So much, now. A call that tells so for every message does the same by itself."""
        before = self.by_holder.get(holder, 0)
        self.bytes += size - before
        if size:
            self.by_holder[holder] = size
        else:
            self.by_holder.pop(holder, None)
        if self.bytes > self.bytes_max and not self.is_look_due:
            self.is_look_due = True
            asyncio.get_running_loop().call_soon(self.look)

    def end_greediest(
        self, end: Callable[[OneHolder], None], may_end: Callable[[OneHolder], bool], *, bytes_max: float
    ) -> list[OneHolder]:
        """Of those for whom ``may_end`` holds, until an eighth of so much is free; whom it has met."""
        by_link: dict[Any, list[tuple[int, OneHolder]]] = {}
        # The latest first, so that of equals the oldest is last after sorting.
        for holder, size in reversed(self.by_holder.items()):
            if may_end(holder):
                by_link.setdefault(holder.link, []).append((size, holder))
        bytes_by_link = {link: sum(size for size, _ in of_link) for link, of_link in by_link.items()}
        for of_link in by_link.values():
            of_link.sort(key=_size)
        ended = []
        # Who hears of an end may hold something new, for which it is looked again.
        while self.bytes > bytes_max * _LEFT and bytes_by_link:
            greediest = max(reversed(bytes_by_link), key=bytes_by_link.__getitem__)
            size, holder = by_link[greediest].pop()
            bytes_by_link[greediest] -= size
            if not by_link[greediest]:
                del bytes_by_link[greediest]
            end(holder)
            ended.append(holder)
        assert self.bytes == sum(self.by_holder.values())
        return ended


class Held(Bounded[RequestHolder]):
    """Requests."""

    __slots__ = ()

    def look(self) -> None:
        self.is_look_due = False
        if self.bytes > self.bytes_max:
            self.end_greediest(
                lambda holder: holder.refuse_held(), lambda _holder: True, bytes_max=self.bytes_max
            )


def _size(of_holder: tuple[int, Any]) -> int:
    return of_holder[0]
