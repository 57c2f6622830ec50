"""What operators do to the data directories of nodes that do not run: mix them up, put old copies back."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from quorate.errors import InvalidRequest

__all__ = ["OldCopy", "swap_directories"]


def swap_directories(one: str, other: str) -> None:
    """Each node finds the other's."""
    aside = f"{one}.aside"
    os.rename(one, aside)
    os.rename(other, one)
    os.rename(aside, other)


class OldCopy:
    """Of a node's data directory; it may be put back any number of times while the node does not run."""

    def __init__(self, directory: str, *, is_in_use: bool = False) -> None:
        """``is_in_use``: files come and go meanwhile, and some are copied while they are written."""
        self._directory = directory
        self.path = f"{directory}.copy"
        if os.path.exists(self.path):
            raise InvalidRequest(f"{self.path} exists: an old copy that was not removed", path=self.path)
        shutil.copytree(directory, self.path, copy_function=_copy_if_there if is_in_use else shutil.copy2)

    def put_back(self) -> None:
        """In the place of what is there now."""
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(self.path, self._directory)

    def remove(self) -> None:
        shutil.rmtree(self.path)


def _copy_if_there(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)
