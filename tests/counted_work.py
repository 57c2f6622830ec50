"""How much a piece of code does, counted and not timed: the calls that it makes, by package.

A call is the unit of what Python takes time for. Their number is the same on every machine, however busy, so
that a bound on it turns red for the change that adds work, and for nothing else.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["counted_calls", "counted_lines"]

_MARK: Final = "/quorate/"


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Of functions in our packages, and from them into compiled code: ``{"broker": 120, ...}``.

    Of this thread. Whatever a coroutine is resumed with counts as a call.
    """
    calls: Counter[str] = Counter()
    packages: dict[str, str] = {}

    def on_event(frame: FrameType, event: str, _argument: Any) -> None:
        if event in {"call", "c_call"}:
            file = frame.f_code.co_filename
            package = packages.get(file)
            if package is None:
                package = packages[file] = (
                    file.rpartition(_MARK)[2].partition("/")[0] if _MARK in file else ""
                )
            calls[package] += 1

    sys.setprofile(on_event)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@contextmanager
def counted_lines() -> Iterator[Counter[str]]:
    """Lines of functions of ours that ran, by file: what a loop does without calling anybody counts, too."""
    lines: Counter[str] = Counter()

    def on_event(frame: FrameType, event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if _MARK not in file:
            return None
        if event == "line":
            lines[file.rpartition("/")[2]] += 1
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        yield lines
    finally:
        sys.settrace(before)
