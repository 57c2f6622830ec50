"""The bound on a producer's memory: records that wait or are on their way, in bytes.

Room is granted in the order in which it was asked for. A large record that waits is not overtaken for ever by
small ones: while anybody waits, everybody waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quorate.core.records import Budget

__all__ = ["Buffer", "Ticket"]


class Ticket:
    """Somebody waits for room. ``wake`` is called once it is theirs."""

    __slots__ = ("bytes", "is_granted", "wake")

    def __init__(self, size: int, wake: Callable[[], None]) -> None:
        self.bytes = size
        self.wake = wake
        #: the room is the ticket's, until it is a batch's or given back
        self.is_granted = False


class Buffer(Budget):
    """Every method is called under the accumulator's lock."""

    __slots__ = ()

    waiting: deque[Ticket]

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self.bytes_max = bytes_max
        self.waiting = deque()

    def take(self, size: int) -> bool:
        """Whether there was room."""
        if self.waiting or self.used + size > self.bytes_max:
            return False
        self.used += size
        return True

    def queue_up(self, size: int, wake: Callable[[], None]) -> Ticket:
        assert size <= self.bytes_max, "this would wait for ever, and everybody behind it"
        ticket = Ticket(size, wake)
        self.waiting.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """Give up waiting. Who waits behind may now fit."""
        if ticket.is_granted:
            ticket.is_granted = False
            return self.give_back(ticket.bytes)
        if ticket in self.waiting:
            self.waiting.remove(ticket)
        return self.grant()

    def give_back(self, size: int) -> list[Ticket]:
        """Returns those whose turn it is now; to be woken without the lock."""
        self.used -= size
        assert self.used >= 0
        return self.grant() if self.waiting else []

    def grant(self) -> list[Ticket]:
        granted = []
        while self.waiting and self.used + self.waiting[0].bytes <= self.bytes_max:
            ticket = self.waiting.popleft()
            self.used += ticket.bytes
            ticket.is_granted = True
            granted.append(ticket)
        return granted
