"""Power loss, done to a directory: back to what was synced, with some of the rest if chance has it so.

Names first, then content: content belongs to inodes, and which of them still have a name is only known once
the names are settled.

Without a random generator everything unsynced is lost. With one, what devices and file systems are allowed
to do happens: the same that ``quorate.chaos.sim.disk_nodes`` does to simulated disks. The names of a
directory survive up to some change and are lost from there on. Of a file's content each sector comes from
before or from after, its end may be cut anywhere, and zeros stand where neither side had anything.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.chaos.faults.powerloss.journal import Entry, Kind

__all__ = ["Loss", "undo"]

#: what a device writes as a whole or not at all
_SECTOR_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Loss:
    """What a power loss took: the proof that it was one."""

    #: file (below the directory) -> how many bytes there are from the first on that a process saw otherwise
    bytes_by_file: dict[str, int]
    #: made, renamed or removed without a sync of the directory, and no longer so
    names: int

    @property
    def lost_bytes(self) -> int:
        return sum(self.bytes_by_file.values())


def undo(root: str, held: str, changes: Sequence[Entry], rng: random.Random | None) -> Loss:
    """``changes`` are the unsynced ones; ``held`` is where removed files and directories were kept."""
    of_names = [entry for entry in changes if entry.kind is not Kind.CHANGE]
    if rng is not None:
        of_names = _lost_names(of_names, rng)
    names = _Names(root, held)
    undone = sum(names.undo(entry) for entry in reversed(of_names))
    paths = _paths_by_inode(root)
    by_inode: dict[int, list[Entry]] = {}
    for entry in changes:
        if entry.kind is Kind.CHANGE and entry.inode in paths:
            by_inode.setdefault(entry.inode, []).append(entry)
    lost = {}
    for inode, entries in sorted(by_inode.items(), key=lambda item: paths[item[0]]):
        lost_bytes = _lose_content(paths[inode], entries, rng)
        if lost_bytes:
            lost[os.path.relpath(paths[inode], root)] = lost_bytes
    return Loss(lost, undone)


def _lost_names(changes: list[Entry], rng: random.Random) -> list[Entry]:
    """File systems journal names in order: per directory, those from some point on."""
    directories = sorted({entry.synced_by for entry in changes})
    survive = {}
    for directory in directories:
        numbers = [entry.number for entry in changes if entry.synced_by == directory]
        survive[directory] = rng.choice([*numbers, numbers[-1] + 1])
    return [entry for entry in changes if entry.number >= survive[entry.synced_by]]


class _Names:
    """The directories below ``root``, found by inode while names among them change."""

    def __init__(self, root: str, held: str) -> None:
        self._root = root
        self._held = held
        self._directories: dict[int, str] | None = None

    def undo(self, entry: Entry) -> bool:
        """False: there is nothing to take back; it was never done, or its directory is gone for good."""
        if entry.kind is Kind.MAKE:
            return self._unmake(entry)
        if entry.kind is Kind.REMOVE:
            return self._bring_back(entry.inode, entry.name, entry.held)
        assert entry.kind is Kind.RENAME
        return self._rename_back(entry)

    def _unmake(self, entry: Entry) -> bool:
        path = self._path(entry.inode, entry.name)
        if path is None or not os.path.lexists(path):
            return False
        self._delete(path)
        return True

    def _bring_back(self, directory: int, name: str, number: int) -> bool:
        kept, path = f"{self._held}/{number}", self._path(directory, name)
        if path is None or not os.path.lexists(kept):
            return False
        self._move(kept, path)
        return True

    def _rename_back(self, entry: Entry) -> bool:
        source = self._path(entry.inode, entry.name)
        target = self._path(entry.where, entry.new_name)
        if target is None or not os.path.lexists(target) or os.lstat(target).st_ino != entry.size:
            return False  # killed between the entry and the rename
        if source is None or os.path.lexists(source):
            self._delete(target)  # its old name is durably gone, its new one never became durable
        else:
            self._move(target, source)
        if entry.held:
            self._bring_back(entry.where, entry.new_name, entry.held)
        return True

    def _path(self, directory: int, name: str) -> str | None:
        if self._directories is None:
            walk = os.walk(self._root)
            self._directories = {os.stat(parent).st_ino: parent for parent, _, _ in walk}
        parent = self._directories.get(directory)
        return None if parent is None else f"{parent}/{name}"

    def _move(self, source: str, target: str) -> None:
        os.rename(source, target)
        if os.path.isdir(target):
            self._directories = None

    def _delete(self, path: str) -> None:
        if os.path.isdir(path):
            shutil.rmtree(path)
            self._directories = None
        else:
            os.unlink(path)


def _paths_by_inode(root: str) -> dict[int, str]:
    paths = {}
    for parent, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                paths[os.lstat(f"{parent}/{name}").st_ino] = f"{parent}/{name}"
    return paths


def _lose_content(path: str, changes: Sequence[Entry], rng: random.Random | None) -> int:
    """Returns how many bytes there are from the first on that is no longer what was last read."""
    with open(path, "rb") as file:
        cached = file.read()
    durable = bytearray(cached)
    for entry in reversed(changes):
        _undo_change(durable, entry)
    content = bytes(durable) if rng is None else _torn(bytes(durable), cached, rng)
    if content == cached:
        return 0
    # In place: whoever has the file open (nobody should) and its other names see the same.
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()
    return max(len(content), len(cached)) - _agreeing(content, cached)


def _agreeing(one: bytes, other: bytes) -> int:
    """How many bytes at their beginnings are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _undo_change(content: bytearray, entry: Entry) -> None:
    if len(content) < entry.size:
        content.extend(bytes(entry.size - len(content)))
    del content[entry.size :]
    content[entry.where : entry.where + len(entry.first)] = entry.first


def _torn(durable: bytes, cached: bytes, rng: random.Random) -> bytes:
    fate = rng.choice(("dropped", "kept", "cut", "sectors"))
    if fate == "dropped":
        return durable
    if fate == "kept":
        return cached
    if fate == "cut":
        # What was appended goes from some byte on; what was overwritten before it has arrived.
        end = rng.randint(min(len(durable), len(cached)), len(cached))
        return cached[:end] + durable[end:]
    longer = max(len(durable), len(cached))
    size = rng.choice((len(durable), len(cached)))
    both = (durable.ljust(longer, b"\0"), cached.ljust(longer, b"\0"))
    sectors = (slice(start, start + _SECTOR_BYTES) for start in range(0, size, _SECTOR_BYTES))
    return b"".join(rng.choice(both)[sector] for sector in sectors)[:size]
