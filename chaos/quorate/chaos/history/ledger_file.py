"""A history in a file that outlives whoever writes it.

A drill kills everything, and may be killed itself. What its clients did and were told must not be lost with
it, or nobody could say afterwards whether the cluster kept its promises. The file has a line of JSON for each
thing that happened, in order. A line is safe from kill -9 as soon as the kernel has it, so nothing is synced.

What each kind of line must precede:

- A send must be on record before the record is handed to a producer. Otherwise the record could be found in a
  log, and nobody would know where it came from. So whoever sends calls ``flush`` in between, once for as many
  sends as it likes.
- An outcome that is missing leaves the send unknown, and a poll that is missing leaves the reader ignorant:
  both make a history weaker, never wrong. They are written at the end of the loop's turn, all in one go.

A process that is killed in the middle of a write leaves a line without an end. It is cut off: it can only be
the last one. Anything else that is not as it should be is damage, and no history is made of it.

Rejected: a database, which would sync or batch by rules of its own; a line for each record that is read,
which would cost more than all the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final, Self

from quorate.chaos.history.entries import Entry
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_lines import (
    apply_end,
    decode_begin,
    encode_begin,
    encode_end,
    encode_line,
)

__all__ = ["LedgerDamaged", "LedgerFile", "read_ledger"]

_VERSION: Final = 1
_HEAD: Final[dict[str, object]] = {"type": "ledger", "version": _VERSION}


class LedgerDamaged(ValueError):
    """Not a ledger, or one that something else than its writer has changed."""


class LedgerFile:
    """The recorder of a history. Close it, or use it as a context manager."""

    def __init__(self, descriptor: int) -> None:
        """For ``create``."""
        self._descriptor = descriptor
        self._lines: list[bytes] = []

    @classmethod
    def create(cls, path: str) -> Self:
        """A new file; one that is there belongs to another run, and is an error."""
        ledger = cls(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644))
        ledger._write(encode_line(_HEAD))
        return ledger

    def begun(self, entry: Entry) -> None:
        self._add(encode_line(encode_begin(entry)))

    def ended(self, entry: Entry) -> None:
        self._add(encode_line(encode_end(entry)))

    def _add(self, line: bytes) -> None:
        if not self._lines:
            try:
                asyncio.get_running_loop().call_soon(self.flush)
            except RuntimeError:
                # Nobody will come back to it: it is written at once.
                self._lines.append(line)
                self.flush()
                return
        self._lines.append(line)

    def flush(self) -> None:
        """Hand everything to the kernel."""
        if self._lines:
            content = b"".join(self._lines)
            self._lines.clear()
            self._write(content)

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        if self._descriptor >= 0:
            self.flush()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_ledger(path: str) -> History:
    """What the file holds; whatever has no end there has an unknown one."""
    history = History()
    begun: dict[int, Entry] = {}
    with open(path, "rb") as file:
        for number, content in enumerate(file, start=1):
            if not content.endswith(b"\n"):
                break
            try:
                line: dict[str, Any] = json.loads(content)
                if number == 1:
                    _check_head(line)
                    continue
                entry = decode_begin(line, begun)
                if entry is None:
                    apply_end(line, begun)
                else:
                    history.restore(entry)
                    begun[entry.serial] = entry
            except (KeyError, TypeError, ValueError) as error:
                raise LedgerDamaged(f"{path}, line {number}: {error!r}") from error
    return history


def _check_head(line: dict[str, Any]) -> None:
    if line != _HEAD:
        raise ValueError(f"a ledger of version {_VERSION} was expected, not {line}")
