"""What requests hold that no handler has taken yet: together no more than a bound.

Every call tells how much lies here for it. When there is too much, whoever holds most is refused, and of
equals who has held it longest: a small request gets through between those that never end. And not before the
end of the turn of the loop: a request whose end is in the same read is with its handler by then, as is one
that its handler was waiting for.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Held", "Holder"]


class Holder(Protocol):
    def refuse_held(self) -> None:
        """It holds nothing afterwards."""
        ...


class Held:
    """Of all calls of one sort."""

    __slots__ = ("by_call", "bytes", "bytes_max")

    def __init__(self, bytes_max: float) -> None:
        """``bytes_max``: infinite, where everybody is trusted."""
        self.bytes = 0
        #: who holds anything at all, since when it does
        self.by_call: dict[Holder, int] = {}
        self.bytes_max = bytes_max

    @property
    def is_too_much(self) -> bool:
        return self.bytes > self.bytes_max

    def greediest(self) -> Holder:
        """There has to be one."""
        return max(self.by_call, key=self.by_call.__getitem__)
