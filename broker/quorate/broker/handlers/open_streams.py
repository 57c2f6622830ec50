"""The streams of one method that are open, so that the stop of the node reaches each of them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

__all__ = ["OpenStreams"]


class _OpenStream(Protocol):
    def stop_reading(self) -> None:
        """Answer what was asked, and end."""
        ...


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

    def discard(self, stream: Stream) -> None:
        """It has ended."""
        self._streams.pop(stream, None)

    def stop(self) -> None:
        """For good: each stream reads no more, answers what it has read, and ends."""
        self._is_stopping = True
        # A stream that has nothing to answer is discarded at once.
        for stream in list(self._streams):
            stream.stop_reading()
