"""What requests hold that no handler has taken yet: together no more than a bound.

Every call tells how much lies here for it. Whoever is found to hold something when there is too much is
refused, and not before the end of the turn of the loop: a request whose end is in the same read is with its
handler by then, and so is one that its handler was waiting for.
"""

from __future__ import annotations

__all__ = ["Held"]


class Held:
    """Of all calls of one sort."""

    __slots__ = ("bytes", "bytes_max")

    def __init__(self, bytes_max: float) -> None:
        """``bytes_max``: infinite, where everybody is trusted."""
        self.bytes = 0
        self.bytes_max = bytes_max

    @property
    def is_too_much(self) -> bool:
        return self.bytes > self.bytes_max
