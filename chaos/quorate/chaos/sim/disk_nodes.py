"""What a simulated disk holds: files and directories, each once as cached and once as durable.

``cached`` is what reads see, ``durable`` is what the device holds, and ``unsynced`` lists in order
the changes that lead from one to the other. A sync applies them to ``durable``; power loss decides
the fate of each and makes ``cached`` whatever came of it.

Without a random generator power loss drops every unsynced change. With one, it does what devices
and file systems are allowed to do:

- file content: each write is kept, dropped or torn, each truncation kept or dropped, independently
  of the others: the page cache is written back in any order. A kept write behind a dropped one
  leaves zeros between.
- names in a directory: the changes survive up to some point and are lost from there on, because
  file systems journal them in order. Different directories, and names and content, are unrelated:
  a name may survive whose content did not.
"""

from __future__ import annotations

import itertools
import random
from typing import Final, TypeAlias

__all__ = ["NameChange", "Node", "SimDirectory", "SimInode"]

#: (position, bytes) is a write; (length, None) sets the size
_ContentChange: TypeAlias = tuple[int, bytes | None]
#: what a device writes as a whole or not at all
_SECTOR_BYTES: Final = 512


class SimInode:
    """A file's content, whatever names it has."""

    __slots__ = ("cached", "changes_made", "durable", "failed_syncs", "handles", "links", "unsynced")

    def __init__(self, content: bytes = b"") -> None:
        """``content`` is already durable."""
        self.cached = bytearray(content)
        self.durable = bytearray(content)
        self.unsynced: list[_ContentChange] = []
        #: how many changes there ever were; the last ``len(unsynced)`` of them are not durable
        self.changes_made = 0
        self.failed_syncs = 0
        self.links = 0
        self.handles = 0

    def write(self, position: int, content: bytes) -> None:
        change = (position, content)
        _apply(self.cached, change)
        self._remember(change)

    def truncate(self, length: int) -> None:
        change = (length, None)
        _apply(self.cached, change)
        self._remember(change)

    def sync(self, *, up_to: int) -> None:
        """Make durable the first ``up_to`` changes ever made, as ``changes_made`` counts them."""
        for change in self._take(up_to):
            _apply(self.durable, change)

    def forget_unsynced(self, *, up_to: int) -> None:
        """A failed sync: the pages count as clean, are still read, and will never be written."""
        self._take(up_to)
        self.failed_syncs += 1

    def lose_power(self, rng: random.Random | None) -> None:
        if rng is not None:
            for change in self.unsynced:
                for surviving in _after_power_loss(change, rng):
                    _apply(self.durable, surviving)
        self.unsynced.clear()
        self.cached = bytearray(self.durable)

    def flip_bit(self, bit: int) -> None:
        byte, mask = bit // 8, 1 << bit % 8
        self.cached[byte] ^= mask
        if byte < len(self.durable):
            self.durable[byte] ^= mask
        for index, (position, content) in enumerate(self.unsynced):
            if content is not None and position <= byte < position + len(content):
                damaged = bytearray(content)
                damaged[byte - position] ^= mask
                self.unsynced[index] = (position, bytes(damaged))

    def _remember(self, change: _ContentChange) -> None:
        self.unsynced.append(change)
        self.changes_made += 1

    def _take(self, up_to: int) -> list[_ContentChange]:
        # Another sync may have taken some of them, or all, while this one waited for the device.
        count = max(0, len(self.unsynced) - (self.changes_made - up_to))
        taken = self.unsynced[:count]
        del self.unsynced[:count]
        return taken


def _apply(content: bytearray, change: _ContentChange) -> None:
    position, written = change
    size = position if written is None else position + len(written)
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if written is None:
        del content[size:]
    else:
        content[position:size] = written


def _after_power_loss(change: _ContentChange, rng: random.Random) -> list[_ContentChange]:
    position, written = change
    if written is None:
        return [change] if rng.random() < 0.5 else []
    fate = rng.choice(("kept", "dropped", "cut", "sectors"))
    if fate == "kept":
        return [change]
    if fate == "cut":
        return [(position, written[: rng.randint(0, len(written))])]
    if fate == "sectors":
        return [sector for sector in _sectors(position, written) if rng.random() < 0.5]
    return []


def _sectors(position: int, written: bytes) -> list[_ContentChange]:
    """The write, divided at the device's sector boundaries."""
    end = position + len(written)
    inner = range(position // _SECTOR_BYTES * _SECTOR_BYTES + _SECTOR_BYTES, end, _SECTOR_BYTES)
    edges = [position, *inner, end]
    return [(start, written[start - position : stop - position]) for start, stop in itertools.pairwise(edges)]


class SimDirectory:
    """Names and what they refer to. A change sets or clears (None) names, all or none of them."""

    __slots__ = ("cached", "changes_made", "durable", "unsynced")

    def __init__(self) -> None:
        self.cached: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.unsynced: list[NameChange] = []
        self.changes_made = 0

    def change(self, names: NameChange) -> None:
        _apply_names(self.cached, names)
        self.unsynced.append(names)
        self.changes_made += 1

    def sync(self, *, up_to: int) -> None:
        count = max(0, len(self.unsynced) - (self.changes_made - up_to))
        for names in self.unsynced[:count]:
            _apply_names(self.durable, names)
        del self.unsynced[:count]

    def make_durable(self, name: str, node: Node) -> None:
        """For what is put on the disk from outside: set at once in both views."""
        self.cached[name] = node
        self.durable[name] = node

    def lose_power(self, rng: random.Random | None) -> None:
        """Also everything below, as far as it can still be reached."""
        survivors = 0 if rng is None else rng.randint(0, len(self.unsynced))
        for names in self.unsynced[:survivors]:
            _apply_names(self.durable, names)
        self.unsynced.clear()
        self.cached = dict(self.durable)
        for name in sorted(self.cached):
            self.cached[name].lose_power(rng)


Node: TypeAlias = SimInode | SimDirectory
NameChange: TypeAlias = tuple[tuple[str, Node | None], ...]


def _apply_names(entries: dict[str, Node], names: NameChange) -> None:
    for name, node in names:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
