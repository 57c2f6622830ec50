"""A voter's disk, as far as the core's contract is concerned.

Writes take effect in order. Until a sync has covered them, a crash leaves a prefix of them, of any length:
whole records of the journal, since a torn one is cut at the start. Hard state, snapshot and entries of one
``Ready`` are steps of that same order.

What is synced stays, but for two faults: the last records of the journal may be damaged (the voter then knows
that it lost some, and starts as recovering), and the whole directory may be wiped (it is then another one).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Entry, Index, Snapshot, Term
from quorate.metadata.raft.ready import HardState, Ready, Restored
from quorate.metadata.raft.voters import DirectoryId, Voters

__all__ = ["VoterDisk"]

Write: TypeAlias = HardState | Snapshot | Entry


class VoterDisk:
    def __init__(self, directory_id: DirectoryId, founding: Voters) -> None:
        self.directory_id = directory_id
        self.incarnation = 0
        self.hard_state = HardState(NO_TERM, None)
        self.snapshot: Snapshot | None = None
        #: after ``snapshot``, gap-free
        self.entries: list[Entry] = []
        self._founding = founding
        #: entries that were replaced since somebody looked, and the term in which the voter was told to
        self.cut: list[tuple[Entry, Term]] = []
        #: all that it held before damage, for as long as it recovers from it
        self._held_before_damage: set[tuple[Index, Term]] = set()

    # --- what it holds --------------------------------------------------------------------------------

    @property
    def base_index(self) -> Index:
        """The last index that ``snapshot`` stands for."""
        return NO_INDEX if self.snapshot is None else self.snapshot.id.index

    @property
    def last_index(self) -> Index:
        return Index(self.base_index + len(self.entries))

    def has_written(self, index: Index, term: Term) -> bool:
        position = index - self.base_index - 1
        return position < 0 or (position < len(self.entries) and self.entries[position].term == term)

    def may_be_counted(self, index: Index, term: Term) -> bool:
        """Whether a leader may count this entry as durable here.

        Of a recovering voter, only what it held before the damage: it may have acknowledged that, and the
        acknowledgement may come late. What it has received since then does not count. Once it has
        recovered, it must hold again all that can be counted.
        """
        if self.hard_state.is_recovering:
            return (index, term) in self._held_before_damage
        return self.has_written(index, term)

    def lost_to_damage(self) -> list[tuple[Index, Term]]:
        """What it held before and does not hold now."""
        return sorted(entry for entry in self._held_before_damage if not self.has_written(*entry))

    def restored(self) -> Restored:
        return Restored(
            hard_state=self.hard_state,
            incarnation=self.incarnation,
            snapshot=None if self.snapshot is None else self.snapshot.id,
            voters=self._founding if self.snapshot is None else self.snapshot.voters,
            entries=tuple(self.entries),
        )

    # --- writing --------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process opens the directory: it counts its starts before it says a word."""
        self.incarnation += 1

    def write(self, ready: Ready) -> None:
        """What this ``Ready`` wanted persisted is durable now."""
        for write in _writes(ready):
            self._apply(write)

    def write_part(self, unsynced: list[Ready], random: random.Random) -> int:
        """A crash: a prefix of what no sync covered is on the disk. Returns how many writes were lost."""
        writes = [write for ready in unsynced for write in _writes(ready)]
        # The extremes are the interesting ones: all of it lost, all of it there but not known to be.
        survivors = random.choice((0, random.randint(0, len(writes)), len(writes)))
        for write in writes[:survivors]:
            self._apply(write)
        return len(writes) - survivors

    def save_own_snapshot(self, snapshot: Snapshot) -> None:
        """The state machine's own snapshot is durable: the entries it stands for go."""
        index, term = snapshot.id.index, snapshot.id.term
        if index <= self.base_index:
            return
        position = index - self.base_index - 1
        # The journal may lag behind what was applied. If it holds another entry there, then all that comes
        # after it follows from that one, and must not be taken for a continuation of the snapshot.
        continues = position < len(self.entries) and self.entries[position].term == term
        self.entries = self.entries[position + 1 :] if continues else []
        self.snapshot = snapshot

    def damage_tail(self, records: int) -> None:
        """The last records cannot be read any more."""
        if not self.hard_state.is_recovering:
            self._held_before_damage = {(entry.index, entry.term) for entry in self.entries}
        kept = max(0, len(self.entries) - records)
        del self.entries[kept:]
        self.hard_state = HardState(self.hard_state.term, self.hard_state.vote, is_recovering=True)

    def _apply(self, write: Write) -> None:
        if isinstance(write, Entry):
            self._write_entry(write)
        elif isinstance(write, HardState):
            self._write_hard_state(write)
        else:
            self._write_snapshot(write)

    def _write_hard_state(self, hard_state: HardState) -> None:
        self.hard_state = hard_state

    def _write_entry(self, entry: Entry) -> None:
        position = entry.index - self.base_index - 1
        if position < 0:
            return  # the snapshot, saved meanwhile, stands for it
        assert position <= len(self.entries), f"a gap in the journal before {entry.index}"
        if position < len(self.entries):
            self._note_cut(self.entries[position:])
            del self.entries[position:]
        self.entries.append(entry)

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.id.index <= self.base_index:
            return  # its own snapshot, saved meanwhile, stands for more
        self._note_cut(self.entries[snapshot.id.index - self.base_index :])
        self.snapshot, self.entries = snapshot, []

    def _note_cut(self, entries: list[Entry]) -> None:
        # The term is always written before the entries that came in it.
        self.cut += [(entry, self.hard_state.term) for entry in entries]


def _writes(ready: Ready) -> Iterator[Write]:
    """In the order of the contract."""
    if ready.hard_state is not None:
        yield ready.hard_state
    if ready.snapshot is not None:
        yield ready.snapshot
    yield from ready.entries
