"""What operators do to the data directories of nodes that do not run: mix them up, put old copies back."""

from __future__ import annotations

import os
import shutil

from quorate.errors import InvalidRequest

__all__ = ["OldCopy", "swap_directories"]


def swap_directories(one: str, other: str) -> None:
    """Each node finds the other's."""
    aside = f"{one}.aside"
    os.rename(one, aside)
    os.rename(other, one)
    os.rename(aside, other)


class OldCopy:
    """Of the data directory of a node that does not run; it may be put back any number of times."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._copy = f"{directory}.copy"
        if os.path.exists(self._copy):
            raise InvalidRequest(f"{self._copy} exists: an old copy that was not removed", path=self._copy)
        shutil.copytree(directory, self._copy)

    def put_back(self) -> None:
        """In the place of what is there now."""
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(self._copy, self._directory)

    def remove(self) -> None:
        shutil.rmtree(self._copy)
