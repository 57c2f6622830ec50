"""A bound on the memory that requests of one kind hold while they are in progress.

A single request is held by whoever carried it here until it is answered; beyond the bound it is refused
before anything is appended. A request on a stream lets go of its batches as soon as they are appended, so
what it holds is its place in the answers; beyond the bound the streams are not read on, and flow control
holds their clients. Each kind has a bound of its own, so that neither can shut out the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quorate.broker.handlers.bounded_memory import BoundedMemory
from quorate.errors import Overloaded

__all__ = ["RequestMemory"]


class RequestMemory(BoundedMemory):
    def __init__(self, bytes_max: int, *, kind: str = "produce requests") -> None:
        super().__init__(bytes_max)
        self._kind = kind

    @contextmanager
    def hold_or_refuse(self, size: int) -> Iterator[None]:
        # One that is larger than the bound is let in alone: refused, it could never be sent.
        if self._held_bytes > 0 and self._held_bytes + size > self._bytes_max:
            raise Overloaded(
                f"{self._kind} of {self._held_bytes} bytes are in progress, "
                f"queued.max.request.bytes is {self._bytes_max}",
                queued_max_request_bytes=self._bytes_max,
            )
        self.hold(size)
        try:
            yield
        finally:
            self.release(size)
