"""A disk on which the process kills itself: real files, and SIGKILL at a chosen change of one of them.

Everything goes to ``OsDisk``. Operations that change something are counted; at the one that was
chosen the process sends itself SIGKILL, before it, after it, or in the middle of a write, with only
the first bytes written. The kernel keeps what was written, as it does for any process that dies.

That is also why a sync returns at once here, and is no place to die at: whether a page has reached the
device makes no difference to a process that dies, and waiting for it would take ten times as long as
all the rest. What a power loss does is for the simulated disk to show.
"""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from quorate.core.disk import Bytes
from quorate.core.os_disk import OsDisk, OsFile
from quorate.core.records import HEADER_BYTES

__all__ = ["Change", "HastyDisk", "KillPoint", "KillingDisk", "Moment"]


class Moment(enum.Enum):
    """When, relative to the chosen change. Those in the middle are for writes only."""

    BEFORE = "before"
    ONE_BYTE = "one byte written"
    HEADER = "a batch header written"
    HALF = "half written"
    ALL_BUT_ONE = "all but one byte written"
    AFTER = "after"

    def bytes_written(self, length: int) -> int | None:
        """How much of a write gets through; None for moments that are not in the middle of one."""
        written = {
            Moment.ONE_BYTE: 1,
            Moment.HEADER: HEADER_BYTES,
            Moment.HALF: length // 2,
            Moment.ALL_BUT_ONE: length - 1,
        }.get(self)
        return None if written is None else min(written, length)


class KillPoint(NamedTuple):
    #: the first change is number 1
    number: int
    moment: Moment


class Change(NamedTuple):
    """An operation that changes something, as a trace shows it."""

    name: str
    #: without the directory, so that it is the same in every run
    file: str

    @property
    def is_write(self) -> bool:
        return "write" in self.name


class HastyDisk(OsDisk):
    """Real files, but a sync returns at once: as ``OsFile`` and ``OsDisk`` in every other way."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        file = super().open(path, create=create)
        return HastyFile(path, os.dup(file.fileno()), self._pool)

    async def write_file(self, path: str, content: bytes) -> None:
        file = super().open(path, create=True)
        file.truncate(0)
        file.pwrite(content, 0)
        file.close()

    async def fsync_directory(self, path: str) -> None:
        """Returns at once."""


class HastyFile(OsFile):
    __slots__ = ()

    async def fdatasync(self) -> None:
        """Returns at once."""


class KillingDisk(HastyDisk):
    def __init__(self, kill: KillPoint | None, trace: Callable[[Change], None]) -> None:
        super().__init__()
        self._kill = kill
        self._trace = trace
        self._count = 0

    def arrive(self, name: str, path: str) -> Moment | None:
        """A change is about to happen; when the process is to die, if it is at this one."""
        self._count += 1
        self._trace(Change(name, path.rpartition("/")[2]))
        if self._kill is None or self._kill.number != self._count:
            return None
        if self._kill.moment is Moment.BEFORE:
            die()
        return self._kill.moment

    @contextmanager
    def change(self, name: str, path: str) -> Iterator[None]:
        """Around an operation that happens as a whole."""
        moment = self.arrive(name, path)
        yield
        if moment is not None:
            die()

    def open(self, path: str, *, create: bool = False) -> KillingFile:
        if create and not self.exists(path):
            with self.change("create", path):
                super().open(path, create=True).close()
        file = super().open(path)
        return KillingFile(path, os.dup(file.fileno()), self)

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            with self.change("make_directory", path):
                super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        with self.change("rename", target):
            super().rename(source, target)

    def unlink(self, path: str) -> None:
        with self.change("unlink", path):
            super().unlink(path)

    async def write_file(self, path: str, content: bytes) -> None:
        moment = self.arrive("write_file", path)
        written = None if moment is None else moment.bytes_written(len(content))
        await super().write_file(path, content if written is None else content[:written])
        if moment is not None:
            die()


class KillingFile(HastyFile):
    __slots__ = ("_disk",)

    def __init__(self, path: str, descriptor: int, disk: KillingDisk) -> None:
        super().__init__(path, descriptor, disk._pool)
        self._disk = disk

    def pwrite(self, data: Bytes, position: int) -> None:
        self._write("pwrite", (data,), position)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        self._write("pwritev", buffers, position)

    def _write(self, name: str, buffers: Sequence[Bytes], position: int) -> None:
        moment = self._disk.arrive(name, self.path)
        content = b"".join(buffers)
        written = None if moment is None else moment.bytes_written(len(content))
        super().pwrite(content if written is None else content[:written], position)
        if moment is not None:
            die()

    def truncate(self, length: int) -> None:
        if length == self.size():
            return
        with self._disk.change("truncate", self.path):
            super().truncate(length)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives SIGKILL")
