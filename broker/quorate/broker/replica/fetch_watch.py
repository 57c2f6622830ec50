"""One fetch that waits for a number of bytes over several partitions.

A partition reports how many bytes became readable; the watch counts down and wakes its fetch once. Waking
every fetch at every append, to let it read and find too little, was rejected: with many partitions in one
fetch it makes each append cost a pass over all of them.
"""

from __future__ import annotations

import asyncio

__all__ = ["FetchWatch"]


class FetchWatch:
    """``done`` is set once enough bytes were committed in the partitions it watches."""

    __slots__ = ("_missing_bytes", "done")

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add_bytes(self, count: int) -> None:
        self._missing_bytes -= count
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
