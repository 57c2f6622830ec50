"""Conditional appends as their clients saw them, and the log that they must have seen.

The sequential model is a log with compare-and-set on its length: an append with the right expectation makes
it one longer, one with too small an expectation changes nothing and tells the length, and looking tells the
length. A history that fits it shows three things at once: no two appends ever won the same offset, no refusal
told a length that the log did not have at some moment of the call, and so none told of records that vanished.

What was *refused* for another reason is no operation: nothing happened. That this is true, the last
operation shows, which reads the whole log: it has to hold exactly what the others put there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from quorate.chaos.cluster.linearizability import NEVER, Operation

__all__ = [
    "EMPTY_LOG",
    "Act",
    "Append",
    "CompareAndSetHistory",
    "Content",
    "Length",
    "Log",
    "Mismatch",
    "log_step",
]

#: the values, in order
Log: TypeAlias = tuple[bytes, ...]

EMPTY_LOG: Final[Log] = ()


@dataclass(frozen=True, slots=True)
class Append:
    """Done at ``expected_offset``; or, if its outcome is unknown, only ever there."""

    value: bytes
    expected_offset: int

    def __str__(self) -> str:
        return f"append {self.value.decode()} at {self.expected_offset}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Expected one end, and was told another."""

    value: bytes
    expected_offset: int
    actual_offset: int

    def __str__(self) -> str:
        return f"{self.value.decode()} expected {self.expected_offset} and was told {self.actual_offset}"


@dataclass(frozen=True, slots=True)
class Length:
    """Asked for the end of the log."""

    offset: int

    def __str__(self) -> str:
        return f"length is {self.offset}"


@dataclass(frozen=True, slots=True)
class Content:
    """Read all of it."""

    log: Log

    def __str__(self) -> str:
        return f"content of {len(self.log)} records"


Act: TypeAlias = Append | Mismatch | Length | Content


def log_step(log: Log, act: Act) -> Log | None:
    """The log afterwards; None: in this log it would have had another answer."""
    match act:
        case Append(value, expected_offset):
            return (*log, value) if len(log) == expected_offset else None
        case Mismatch(_, expected_offset, actual_offset):
            return log if expected_offset < actual_offset == len(log) else None
        case Length(offset):
            return log if offset == len(log) else None
        case Content(whole):
            return log if log == whole else None


@dataclass(slots=True)
class CompareAndSetHistory:
    operations: list[Operation[Act]] = field(default_factory=list)
    appended: int = 0
    mismatches: int = 0
    unknown: int = 0
    refused: int = 0
    _events: int = 0

    def tick(self) -> int:
        """The number of this moment among all calls and answers."""
        self._events += 1
        return self._events

    def note_appended(self, called: int, value: bytes, expected_offset: int) -> None:
        self.appended += 1
        self._add(Append(value, expected_offset), called)

    def note_mismatch(self, called: int, value: bytes, expected_offset: int, actual_offset: int) -> None:
        self.mismatches += 1
        self._add(Mismatch(value, expected_offset, actual_offset), called)

    def note_unknown(self, called: int, value: bytes, expected_offset: int) -> None:
        self.unknown += 1
        self.operations.append(Operation(Append(value, expected_offset), called, NEVER))

    def note_refused(self) -> None:
        self.refused += 1

    def note_length(self, called: int, offset: int) -> None:
        self._add(Length(offset), called)

    def note_final_content(self, log: Sequence[bytes]) -> None:
        self._add(Content(tuple(log)), self.tick())

    def _add(self, act: Act, called: int) -> None:
        self.operations.append(Operation(act, called, self.tick()))
