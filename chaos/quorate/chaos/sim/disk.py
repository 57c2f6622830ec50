"""Disk in memory, for simulation: behaves as a Linux file system does, and as it fails.

What makes it worth having is what it forgets. Content and names become durable only by
``fdatasync`` and ``fsync_directory``; the ways to die differ in what they leave:

- ``crash()``: the process dies, the machine lives. The page cache survives; handles do not.
- ``power_loss()``: the machine dies. What was not synced is lost, or with a random generator any
  part of it (see ``disk_nodes``).
- ``lose_page_cache()``: the volume goes and comes back. What was not synced is lost, the machine lives.

Everything a device may do wrong is at hand: ``fault_hook`` fails any operation (``disk_faults``),
``capacity_bytes`` fills the disk, ``flip_bit`` rots it, ``wipe`` replaces it, ``snapshot`` and
``restore`` bring back an old copy. ``trace`` records operations, ``operation_count`` counts them, so
that a test can run once undisturbed and then fail each operation in turn.

It is stricter than most file systems where POSIX is: a synced file whose directory was not synced is
gone after power loss, and a rename between two directories is two unrelated changes.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from quorate.chaos.sim.disk_faults import FaultHook, Operation, fail
from quorate.chaos.sim.disk_file import SimFile
from quorate.chaos.sim.disk_nodes import Node, SimDirectory, SimInode
from quorate.core.disk import SyncFailed

__all__ = ["DiskSnapshot", "SimDisk"]

_ROOM_WITHOUT_CAPACITY: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class DiskSnapshot:
    """A copy of a directory; paths are relative to it."""

    directories: Sequence[str]
    files: Mapping[str, bytes]


class SimDisk:
    """One machine's file system. Paths are absolute; the root exists.

    ``sync_delay_s`` is how long the device takes, on the running loop's clock: nothing else makes a
    sync take time, but it always lets other tasks run.
    """

    def __init__(self, *, capacity_bytes: int | None = None, sync_delay_s: float = 0.0) -> None:
        #: None: never full. May be changed at any time, also below what is used.
        self.capacity_bytes = capacity_bytes
        self.sync_delay_s = sync_delay_s
        #: sees each operation before it happens, and may raise in its place
        self.fault_hook: FaultHook | None = None
        #: set to a list to have operations recorded
        self.trace: builtins.list[Operation] | None = None
        self.operation_count = 0
        self.used_bytes = 0
        #: set to another when the disk is replaced
        self.file_system = "file-system-0"
        #: how often it lost what it had to keep: it was replaced, by an old copy too, or the power failed
        #: after a sync that did
        self.damages = 0
        #: files of which a bit was flipped, in the order in which that happened
        self.rotten: builtins.list[str] = []
        #: called when any of these changes, or something unsynced was lost
        self.on_harm: Callable[[], None] | None = None
        self._has_failed_to_sync = False
        self._root = SimDirectory()
        self._open_files: WeakKeyDictionary[SimFile, SimInode] = WeakKeyDictionary()
        self._locks: WeakSet[SimFile] = WeakSet()
        #: how often the machine or its process died: what began before must not have effects after
        self._deaths = 0
        #: each is another boot
        self.power_losses = 0
        #: each was in the same one
        self.page_cache_losses = 0
        #: how many files both have taken or set back, in all
        self.files_set_back = 0

    # ---- the Disk seam

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.begin("open", path)
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            if not create:
                fail(errno.ENOENT, path)
            node = SimInode()
            self._link(directory, name, node)
        if isinstance(node, SimDirectory):
            fail(errno.EISDIR, path)
        file = SimFile(path, self, node)
        node.handles += 1
        self._open_files[file] = node
        return file

    def exists(self, path: str) -> bool:
        self.begin("exists", path)
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        self.begin("size", path)
        return len(self._inode(path).cached)

    def list(self, directory: str) -> builtins.list[str]:
        self.begin("list", directory)
        return sorted(self._directory(directory).cached)

    def make_directory(self, path: str) -> None:
        self.begin("make_directory", path)
        directory = self._root
        parts = _parts(path)
        for depth, name in enumerate(parts, start=1):
            node = directory.cached.get(name)
            if node is None:
                node = SimDirectory()
                directory.change(((name, node),))
            if isinstance(node, SimInode):
                fail(errno.EEXIST if depth == len(parts) else errno.ENOTDIR, path)
            directory = node

    def remove_directory(self, path: str) -> None:
        self.begin("remove_directory", path)
        if self._directory(path).cached:
            fail(errno.ENOTEMPTY, path)
        parent, name = self._parent(path)
        parent.change(((name, None),))

    def rename(self, source: str, target: str) -> None:
        self.begin("rename", source)
        source_parent, source_name = self._parent(source)
        target_parent, target_name = self._parent(target)
        node = self._node(source)
        if isinstance(node, SimDirectory) and _parts(target)[:-1][: len(_parts(source))] == _parts(source):
            fail(errno.EINVAL, target)  # a directory cannot move into itself
        replaced = target_parent.cached.get(target_name)
        if replaced is node:
            return
        if replaced is not None:
            self._check_replaceable(node, replaced, target)
        if source_parent is target_parent:
            source_parent.change(((source_name, None), (target_name, node)))
        else:
            target_parent.change(((target_name, node),))
            source_parent.change(((source_name, None),))
        if isinstance(replaced, SimInode):
            self._unlinked(replaced)

    def unlink(self, path: str) -> None:
        self.begin("unlink", path)
        inode = self._inode(path)
        parent, name = self._parent(path)
        parent.change(((name, None),))
        self._unlinked(inode)

    def free_bytes(self, path: str) -> int:
        self.begin("free_bytes", path)
        self._node(path)
        return max(0, self.room())

    def lock(self, path: str) -> SimFile:
        if any(file.path == path for file in self._locks):
            fail(errno.EWOULDBLOCK, path)
        file = self.open(path, create=True)
        self._locks.add(file)
        return file

    def boot_id(self) -> str:
        # A file that the kernel makes up.
        self.begin("boot_id", "/")
        return f"boot-{self.power_losses}"

    def file_system_id(self, path: str) -> str:
        self._node(path)
        return self.file_system

    def read_file(self, path: str) -> bytes:
        self.begin("read_file", path)
        return bytes(self._inode(path).cached)

    async def write_file(self, path: str, content: bytes) -> None:
        file = self.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(content, 0)
            await file.fdatasync()
        finally:
            file.close()

    async def fsync_directory(self, path: str) -> None:
        directory = self._directory(path)
        changes = directory.changes_made
        self.begin_sync("fsync_directory", path)
        await self.device_round(path)
        directory.sync(up_to=changes)

    # ---- deaths and damage

    def crash(self) -> None:
        """The process dies: its handles are closed, all that was written is still there."""
        self._deaths += 1
        for file in builtins.list(self._open_files):
            file.close()

    def power_loss(self, rng: random.Random | None = None) -> None:
        """The machine dies: unsynced changes are lost; with ``rng``, any part of them."""
        self.power_losses += 1
        self._lose_unsynced(rng)

    def lose_page_cache(self) -> None:
        """The volume is detached and attached again, in the same boot: all unsynced changes are lost."""
        self.page_cache_losses += 1
        self._lose_unsynced(None)

    def write_back(self, path: str) -> None:
        """What a kernel does of its own accord, with a file or the names of a directory, at any time."""
        node = self._node(path)
        node.sync(up_to=node.changes_made)

    def _lose_unsynced(self, rng: random.Random | None) -> None:
        self.crash()
        self.damages += self._has_failed_to_sync
        self._has_failed_to_sync = False
        self._harmed()
        before = self.snapshot().files
        self._root.lose_power(rng)
        after = self.snapshot().files
        self.files_set_back += sum(after.get(path) != content for path, content in before.items())
        self._recount()

    def _harmed(self) -> None:
        if self.on_harm is not None:
            self.on_harm()

    @property
    def unsynced_losses(self) -> int:
        """How often it lost what was not synced, whether the machine was restarted or not."""
        return self.power_losses + self.page_cache_losses

    def flip_bit(self, path: str, bit_index: int) -> None:
        """Bit 0 is the lowest of the first byte. The medium is damaged: syncing repairs nothing."""
        self.rotten.append(path)
        self._harmed()
        self._inode(path).flip_bit(bit_index)

    def wipe(self, directory: str = "/") -> None:
        """Empty the directory, durably: the disk was replaced."""
        self.damages += 1
        self._harmed()
        target = self._directory(directory)
        for entries in (target.cached, target.durable, target.unsynced):
            entries.clear()
        self._recount()

    def snapshot(self, directory: str = "/") -> DiskSnapshot:
        """A copy of what readers see in the directory."""
        directories: builtins.list[str] = []
        files: dict[str, bytes] = {}
        for path, node in _walk(self._directory(directory), ""):
            if isinstance(node, SimInode):
                files[path] = bytes(node.cached)
            else:
                directories.append(path)
        return DiskSnapshot(tuple(directories), files)

    def restore(self, snapshot: DiskSnapshot, directory: str = "/") -> None:
        """Replace the directory's content by the copy, durably: a backup was put back."""
        self.wipe(directory)
        target = self._directory(directory)
        for path in snapshot.directories:
            parent, name = _descend(target, path)
            parent.make_durable(name, SimDirectory())
        for path, content in snapshot.files.items():
            parent, name = _descend(target, path)
            parent.make_durable(name, SimInode(content))
        self._recount()

    @property
    def open_paths(self) -> builtins.list[str]:
        """The path of every open handle, for tests that look for leaks."""
        return sorted(file.path for file in self._open_files)

    def peek(self, path: str, start: int = 0) -> bytes:
        """What a reader would find in the file from ``start`` on; no operation, for whoever looks on."""
        return bytes(memoryview(self._inode(path).cached)[start:])

    def peek_durable(self, path: str) -> bytes | None:
        """What a loss of the page cache would leave of the file; None: no file."""
        node: Node | None = self._root
        for name in _parts(path):
            node = node.durable.get(name) if isinstance(node, SimDirectory) else None
        return bytes(node.durable) if isinstance(node, SimInode) else None

    def unsynced_bytes(self, path: str) -> int:
        """How much written content a power loss could take from the file."""
        return sum(len(content) for _, content in self._inode(path).unsynced if content is not None)

    def first_unsynced(self, path: str) -> int | None:
        """Where content begins that a power loss could take; 0 if it could take the name. None: nowhere.

        What a failed sync has lost is not among it: that the kernel calls such pages clean is no fault of
        whoever believes it.
        """
        node: Node = self._root
        for name in _parts(path):
            assert isinstance(node, SimDirectory)
            found = node.cached[name]
            if node.durable.get(name) is not found:
                return 0
            node = found
        assert isinstance(node, SimInode)
        return min((position for position, content in node.unsynced if content is not None), default=None)

    # ---- for SimFile

    def begin(self, name: str, path: str, position: int = 0, length: int = 0) -> None:
        """Count, record and perhaps fail an operation."""
        self.operation_count += 1
        if self.trace is None and self.fault_hook is None:
            return
        operation = Operation(self.operation_count, name, path, position, length)
        if self.trace is not None:
            self.trace.append(operation)
        if self.fault_hook is not None:
            self.fault_hook(operation)

    def begin_sync(self, name: str, path: str) -> None:
        try:
            self.begin(name, path)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # the device was not asked
            raise SyncFailed(error.errno, error.strerror, path) from error

    def sync_failed(self) -> None:
        """The cache keeps what it could not write, and the device will never have it."""
        self._has_failed_to_sync = True

    async def device_round(self, path: str) -> None:
        """The part of a sync that takes time; a death meanwhile means that it never finished."""
        deaths = self._deaths
        await asyncio.sleep(self.sync_delay_s)
        if self._deaths != deaths:
            fail(errno.EBADF, path)

    def room(self) -> int:
        return (
            _ROOM_WITHOUT_CAPACITY if self.capacity_bytes is None else self.capacity_bytes - self.used_bytes
        )

    def release(self, file: SimFile, inode: SimInode) -> None:
        # A file in a reference cycle is forgotten here before it is finalized, and then closed.
        self._open_files.pop(file, None)
        self._locks.discard(file)
        inode.handles -= 1
        self._free_if_unused(inode)

    # ---- names

    def _node(self, path: str) -> Node:
        if path == "/":
            return self._root
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            fail(errno.ENOENT, path)
        return node

    def _inode(self, path: str) -> SimInode:
        node = self._node(path)
        if isinstance(node, SimDirectory):
            fail(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> SimDirectory:
        node = self._node(path)
        if isinstance(node, SimInode):
            fail(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[SimDirectory, str]:
        parts = _parts(path)
        if not parts:
            fail(errno.EBUSY, path)
        directory = self._root
        for name in parts[:-1]:
            node = directory.cached.get(name)
            if node is None:
                fail(errno.ENOENT, path)
            if isinstance(node, SimInode):
                fail(errno.ENOTDIR, path)
            directory = node
        return directory, parts[-1]

    def _check_replaceable(self, node: Node, replaced: Node, target: str) -> None:
        if isinstance(replaced, SimInode):
            if isinstance(node, SimDirectory):
                fail(errno.ENOTDIR, target)
        elif isinstance(node, SimInode):
            fail(errno.EISDIR, target)
        elif replaced.cached:
            fail(errno.ENOTEMPTY, target)

    # ---- space

    def _link(self, directory: SimDirectory, name: str, inode: SimInode) -> None:
        inode.links += 1
        directory.change(((name, inode),))

    def _unlinked(self, inode: SimInode) -> None:
        inode.links -= 1
        self._free_if_unused(inode)

    def _free_if_unused(self, inode: SimInode) -> None:
        # The space of a removed file comes back when its last handle is closed, not before.
        if inode.links == 0 and inode.handles == 0:
            self.used_bytes -= len(inode.cached)

    def _recount(self) -> None:
        """After names changed in other ways than one by one."""
        inodes = dict.fromkeys(self._open_files.values(), 0)
        for _, node in _walk(self._root, ""):
            if isinstance(node, SimInode):
                inodes[node] = inodes.get(node, 0) + 1
        for inode, links in inodes.items():
            inode.links = links
        self.used_bytes = sum(len(inode.cached) for inode in inodes)


# Every operation asks for it, and there are few paths: looking it up took a fifth of a simulation's time.
@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    assert path.startswith("/"), f"paths are absolute: {path}"
    return tuple(part for part in path.split("/") if part)


def _walk(directory: SimDirectory, prefix: str) -> Iterator[tuple[str, Node]]:
    """Everything below, parents first, in the order of names."""
    for name in sorted(directory.cached):
        node = directory.cached[name]
        yield prefix + name, node
        if isinstance(node, SimDirectory):
            yield from _walk(node, f"{prefix}{name}/")


def _descend(directory: SimDirectory, path: str) -> tuple[SimDirectory, str]:
    *parents, name = path.split("/")
    for parent in parents:
        node = directory.cached[parent]
        assert isinstance(node, SimDirectory)
        directory = node
    return directory, name
