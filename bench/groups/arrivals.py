"""What a member writes down: which record it got, and when, by the one clock that all processes here share.

A file, and each poll's records are in it before the next poll: what a member got before it was killed counts.
It is also written where a client library is and nothing of ours, so this file needs the standard library
alone.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

__all__ = ["Arrival", "ArrivalReader", "ArrivalWriter", "Arrived"]

#: nanoseconds of CLOCK_MONOTONIC, partition, offset, milliseconds that the record has waited
_ENTRY: Final = struct.Struct("<qiqq")


class Arrived(NamedTuple):
    """A record, as its member got it."""

    partition: int
    offset: int
    #: when it was sent, by the wall clock that all processes here share as well
    timestamp_ms: int


class Arrival(NamedTuple):
    at_s: float
    partition: int
    offset: int
    #: from when it was sent until its member got it
    waited_s: float


class ArrivalWriter:
    """Use as a context manager."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by its own context

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def note(self, records: Iterable[Arrived]) -> None:
        """All of which came now."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        self._file.write(
            b"".join(
                _ENTRY.pack(now_ns, each.partition, each.offset, now_ms - each.timestamp_ms)
                for each in records
            )
        )


class ArrivalReader:
    """Follows a file that is being written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._read = 0

    def new(self) -> list[Arrival]:
        """Since the last call. An entry of which only a part is there is left for the next."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            found = file.read()
        whole = len(found) - len(found) % _ENTRY.size
        self._read += whole
        return [
            Arrival(at_ns / 1e9, partition, offset, waited_ms / 1000)
            for at_ns, partition, offset, waited_ms in _ENTRY.iter_unpack(found[:whole])
        ]
