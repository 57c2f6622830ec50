"""A promise was broken: raised by every check and every invariant, so that one ``except`` knows them all."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(AssertionError):
    """``check`` names what found it. It survives pickling, so that it can come from another process."""

    def __init__(self, message: str, *, check: str) -> None:
        super().__init__(message)
        self.check = check
