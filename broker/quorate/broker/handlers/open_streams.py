"""The streams of one method that are open, so that the stop of the node reaches each of them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

__all__ = ["OpenStreams"]


class _OpenStream(Protocol):
    def stop_reading(self) -> None:
        """Answer what was asked, and end."""
        ...

    async def close(self) -> None: ...


Stream = TypeVar("Stream", bound=_OpenStream)


class OpenStreams(Generic[Stream]):
    def __init__(self) -> None:
        #: an ordered set
        self._streams: dict[Stream, None] = {}
        self._is_stopping = False

    def add(self, stream: Stream) -> None:
        """One that comes after the stop is stopped at once."""
        self._streams[stream] = None
        if self._is_stopping:
            stream.stop_reading()

    async def close(self, stream: Stream) -> None:
        del self._streams[stream]
        await stream.close()

    def stop(self) -> None:
        """For good: each stream reads no more, answers what it has read, and ends."""
        self._is_stopping = True
        for stream in self._streams:
            stream.stop_reading()
