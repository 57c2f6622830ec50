"""Faults of a simulated disk: a hook that sees every operation before it happens.

A hook returns to let the operation happen, or raises the ``OSError`` that it shall fail with.
``ShortWrite`` fails a write after some of it was written. A sync that fails loses what it should
have made durable, as on Linux. ``ProcessDied`` ends the code under test at that operation, past all
its handlers; the test then calls ``SimDisk.crash`` or ``power_loss`` and starts anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, NoReturn, TypeAlias

__all__ = [
    "NEED_DESCRIPTORS",
    "FaultHook",
    "Operation",
    "ProcessDied",
    "ShortWrite",
    "fail",
    "fail_nth",
    "fail_path",
]

#: What a process without descriptors cannot do: what is open already is read, written and synced without one.
NEED_DESCRIPTORS: Final = frozenset(
    {"open", "read_file", "write_file", "fsync_directory", "lock", "list", "boot_id"}
)


class Operation(NamedTuple):
    """One call, as the hook and the trace see it."""

    #: counts from 1 for the disk's first operation
    number: int
    #: the method's name; ``write_file`` appears as the open, truncate, pwrite and fdatasync it makes
    name: str
    path: str
    #: of reads and writes; the length of a truncation is in ``length``
    position: int
    length: int


FaultHook: TypeAlias = Callable[[Operation], None]


class ShortWrite(OSError):
    """Raised by a hook for a write: the first ``written`` bytes are written, the rest is not."""

    def __init__(self, number: int, *, written: int) -> None:
        super().__init__(number, os.strerror(number))
        self.written = written


class ProcessDied(BaseException):
    """Raised by a hook: nothing runs after this. Of a write, the first ``written`` bytes are written."""

    def __init__(self, *, written: int = 0) -> None:
        super().__init__(written)
        self.written = written


def fail(number: int, path: str) -> NoReturn:
    """As the operating system does, with an ``errno``."""
    raise OSError(number, os.strerror(number), path)


def fail_nth(number: int, error: OSError | ProcessDied, *, names: Collection[str] = ()) -> FaultHook:
    """Fail the ``number``-th operation from now (the next is 1), once.

    Only those in ``names`` count, if any are given.
    """
    seen = 0

    def hook(operation: Operation) -> None:
        nonlocal seen
        if names and operation.name not in names:
            return
        seen += 1
        if seen == number:
            raise error

    return hook


def fail_path(part: str, error: Callable[[], OSError], *, names: Collection[str] = ()) -> FaultHook:
    """Fail every operation whose path contains ``part``; only those in ``names``, if given."""

    def hook(operation: Operation) -> None:
        if part in operation.path and (not names or operation.name in names):
            raise error()

    return hook
