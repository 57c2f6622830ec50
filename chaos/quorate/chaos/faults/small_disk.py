"""A disk with little room, for one directory: a file system in memory (tmpfs) of a given size. Needs root.

It is made full by being made as small as what it holds, and gets room again by being made as large as it was:
no file of ours has to lie among the node's. Without root, ``powerloss.PageCache`` makes a disk full as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from quorate.errors import UnsupportedOperation

__all__ = ["SmallDisk", "why_no_small_disk"]


def why_no_small_disk() -> str | None:
    """None: this machine can have one."""
    if not sys.platform.startswith("linux"):
        return "small disks are mounted on Linux only"
    if os.geteuid() != 0:
        return "only root may mount a small disk"
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "there is no mount and umount here"
    return None


class SmallDisk:
    """Mounted on ``directory``, which is made if it is missing and has to be empty."""

    def __init__(self, directory: str, size_bytes: int) -> None:
        reason = why_no_small_disk()
        if reason is not None:
            raise UnsupportedOperation(reason)
        self.directory = directory
        self._size_bytes = size_bytes
        os.makedirs(directory, exist_ok=True)
        assert not os.listdir(directory), "what is in it would be hidden"
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0755", "quorate-small-disk", directory)

    def fill(self) -> None:
        """Nothing more fits. What frees room, makes room."""
        status = os.statvfs(self.directory)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        # 0 would mean: without a limit.
        self._resize(max(used, status.f_frsize))

    def make_room(self) -> None:
        self._resize(self._size_bytes)

    def unmount(self) -> None:
        """What was on it is gone; nobody may use it any more."""
        _run("umount", self.directory)

    def _resize(self, size_bytes: int) -> None:
        _run("mount", "-o", f"remount,size={size_bytes}", self.directory)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    if done.returncode != 0:
        raise UnsupportedOperation(f"{' '.join(command)}: {done.stderr.strip()}")
