"""Keyword arguments by which a client is made, checked before anything else."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

__all__ = ["check_arguments"]


def check_arguments(caller: str, given: Iterable[str], known: Collection[str]) -> None:
    """As Python does it, in the name of the class that the application called, and with the nearest name."""
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise TypeError(f"{caller}(...) got an unexpected keyword argument {name!r}{hint}")
