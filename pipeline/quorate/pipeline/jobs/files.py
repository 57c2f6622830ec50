"""Files that are there whole or not at all, also after a kill or a power loss."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

from quorate.errors import InvalidRequest

__all__ = [
    "read_object",
    "replace_file",
    "sync_directory",
    "sync_file",
    "sync_tree",
]


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
