"""The requests of a stream, read by a task of their own while there is room for them.

One task for each stream and none for a request. The handler of a stream has to react to more than the next
request: to answers that are ready, and to the stop of the node. Not reading is all that it takes to hold a
client that is too fast: the transport's flow control does the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

__all__ = ["Intake"]

Request = TypeVar("Request")


class Intake(Generic[Request]):
    """Runs from its making until ``close``."""

    def __init__(
        self,
        requests: AsyncIterator[Request],
        *,
        accept: Callable[[Request], None],
        has_room: Callable[[], bool],
        on_over: Callable[[], None],
    ) -> None:
        """``on_over`` is called when no more requests will come."""
        self._requests = requests
        self._accept = accept
        self._has_room = has_room
        self._room_made = asyncio.Event()
        self._task = asyncio.create_task(self._read(), name="stream-intake")
        self._task.add_done_callback(lambda _: on_over())

    @property
    def is_over(self) -> bool:
        return self._task.done()

    def check(self) -> None:
        """Raises what ended the stream, if it was an error."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()

    def look_for_room(self) -> None:
        """There may be room again."""
        self._room_made.set()

    def stop(self) -> None:
        """Read no more, as if the client had nothing more to ask."""
        self._task.cancel()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            # Looked at, so that nobody reports it as forgotten: who closes has no use for it any more.
            self._task.exception()

    async def _read(self) -> None:
        async for request in self._requests:
            self._accept(request)
            # Its batches are in the log: not kept while the next one is awaited.
            del request
            while not self._has_room():
                self._room_made.clear()
                await self._room_made.wait()
