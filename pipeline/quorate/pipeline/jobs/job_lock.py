"""Who may write a directory: one job at a time, and what it has started, until the last of them has ended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from quorate.errors import InvalidRequest

__all__ = ["held_locks", "only_one_job"]

#: Descriptors of this process's locks. Of the process, as the system has them: whoever starts another that
#: writes on its behalf has to hand on all of them, whichever job took them.
_held: Final[set[int]] = set()


@contextmanager
def only_one_job(directory: str) -> Iterator[None]:
    """Two of them on one checkpoint would undo each other's work.

    The lock goes with the process, however it ends, and with the last of those that got the descriptor: what
    a job that was killed or has failed had begun to write is written by others, which end a little later.
    """
    descriptor = _lock_file_in(directory)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(directory, owner=os.read(descriptor, 100).decode(errors="replace")) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        _held.add(descriptor)
        yield
        # Nothing is being written any more: for all who have the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        _held.discard(descriptor)
        with suppress(OSError):
            os.close(descriptor)


def held_locks() -> tuple[int, ...]:
    """Descriptors of the directories that this process may write, for those that write on its behalf."""
    return tuple(_held)


def _lock_file_in(directory: str) -> int:
    try:
        os.makedirs(directory, exist_ok=True)
        return os.open(f"{directory}/_job.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except (FileExistsError, NotADirectoryError):
        raise InvalidRequest(f"{directory} is no directory: name another path", path=directory) from None
    except OSError as error:
        raise InvalidRequest(
            f"{directory} cannot be used ({error.strerror}): name another path, or see to that",
            path=directory,
        ) from error


def _in_use(directory: str, *, owner: str) -> InvalidRequest:
    if owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
        return InvalidRequest(
            f"another job (process {owner}) used {directory} and has ended, but not yet the Spark that it "
            f"had started, which may still write: try again in some seconds. If that lasts, the job may run "
            f"on another machine",
            path=directory,
        )
    return InvalidRequest(
        f"another job (process {owner or 'unknown'}) uses {directory}: stop it first, or name another "
        f"directory",
        path=directory,
    )
