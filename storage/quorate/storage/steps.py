"""Long work on the event loop, in steps that others may come between.

Recovery reads and checks what may be gigabytes, and a controller may live on the same loop: it would miss its
heartbeats. So such work is a generator that yields now and then, at a point where nothing is half done.
Whoever has the loop alone, such as a command, runs it at once.

Threads were rejected: scanning holds the interpreter most of the time, and a log belongs to its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

__all__ = ["HEADERS_PER_STEP", "Steps", "run_at_once", "run_in_turns"]

T = TypeVar("T")

#: as many take some milliseconds to walk over, with the reads that they need
HEADERS_PER_STEP: Final = 500

#: yields between steps of some milliseconds, and returns the result
Steps: TypeAlias = Generator[None, None, T]


def run_at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def run_in_turns(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
