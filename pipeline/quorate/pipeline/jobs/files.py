"""Files that are there whole or not at all, also after a kill or a power loss; and who may write them."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from quorate.errors import InvalidRequest

__all__ = [
    "held_locks",
    "only_one_job",
    "read_object",
    "replace_file",
    "sync_directory",
    "sync_file",
    "sync_tree",
]


#: descriptors of locks
_held: Final[set[int]] = set()


def replace_file(path: str, content: bytes) -> None:
    """From one moment to the next; whoever reads it finds the old content or the new one."""
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def read_object(path: str) -> dict[str, Any] | None:
    """What a file of JSON holds; None: there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InvalidRequest(
            f"{path} is damaged ({error!r}): restore it, or name another path", path=path
        ) from error
    return found


def sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """What was made, renamed or removed in it."""
    sync_file(path)


def sync_tree(path: str) -> None:
    """Everything in it: before anything says that it is there."""
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_file(f"{directory}/{name}")
        sync_directory(directory)


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
