"""Descriptors of sealed segments, shared by all logs of a node and bounded.

An evicted file is only let go of: it closes when the last region that refers to it is gone, so a
reader never loses the file under its hands.
"""

from __future__ import annotations

from collections import OrderedDict

from quorate.core.disk import Disk, File

__all__ = ["OpenFiles"]


class OpenFiles:
    __slots__ = ("_disk", "_files", "files_max")

    def __init__(self, disk: Disk, *, files_max: int) -> None:
        assert files_max > 0
        self._disk = disk
        self._files: OrderedDict[str, File] = OrderedDict()
        self.files_max = files_max

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> File:
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        file = self._files[path] = self._disk.open(path)
        if len(self._files) > self.files_max:
            self._files.popitem(last=False)
        return file

    def forget(self, path: str) -> None:
        """The file is going to be deleted, or written by its segment again."""
        self._files.pop(path, None)
