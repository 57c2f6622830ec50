"""From the journal's groups to the log: replacing, restarting, and where a snapshot joins in.

The journal is only ever appended to. A group whose first entry has an index that the log already holds
replaces the log from there on. A group may also say that the journal *restarts* after a snapshot that was
installed:

- The log holds the snapshot's last entry, with its term: it agrees with the snapshot, and stays as it is.
  What follows that entry may have been acknowledged, and is not the installer's to drop.
- Else nothing of the log is worth keeping: it ends before the snapshot, or contradicts what is committed.

Everything else that does not follow without a gap is damage: never guessed at, never skipped (rule 42).
"""

from __future__ import annotations

from typing import Final

from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Entry, Index, SnapshotId
from quorate.metadata.raft.journal_format import Group, MalformedGroup

__all__ = ["ORIGIN", "Replay"]

#: where a journal begins that was never trimmed
ORIGIN: Final = SnapshotId(NO_INDEX, NO_TERM)


class Replay:
    """The log, as far as the groups given so far tell it."""

    def __init__(self, base: SnapshotId | None) -> None:
        #: the entry before the first one; None: nobody says, the journal was trimmed there
        self.base = base
        self.entries: list[Entry] = []

    @property
    def last_index(self) -> Index:
        if self.entries:
            return self.entries[-1].index
        return NO_INDEX if self.base is None else self.base.index

    def apply(self, group: Group) -> None:
        """Raises MalformedGroup where the group does not follow."""
        if group.restart_after is not None and not self.agrees_with(group.restart_after):
            self.base = group.restart_after
            self.entries.clear()
        if group.entries:
            self._replace_from(group.entries[0].index)
            for entry in group.entries:
                self._push(entry)

    def agrees_with(self, snapshot: SnapshotId) -> bool:
        """Does the log hold the snapshot's last entry, or begin right after it?"""
        if not self.entries:
            return self.base == snapshot
        position = snapshot.index - self.entries[0].index
        if 0 <= position < len(self.entries):
            return self.entries[position].term == snapshot.term
        return position == -1 and self.base in (None, snapshot)

    def entries_after(self, index: Index) -> tuple[Entry, ...]:
        """Of a log that agrees with a snapshot at ``index``."""
        if not self.entries:
            return ()
        return tuple(self.entries[index + 1 - self.entries[0].index :])

    def starts_after(self, index: Index) -> bool:
        """Is there a gap between ``index`` and what the log holds?"""
        first = self.entries[0].index if self.entries else self.last_index + 1
        return first > index + 1

    def _replace_from(self, index: Index) -> None:
        first = self.entries[0].index if self.entries else self.last_index + 1
        if self.base is None and (not self.entries or index < first):
            # The journal was trimmed within what this replaces; nothing of that was committed at the time.
            self.entries.clear()
            return
        if index < first:
            raise MalformedGroup(f"entry {index} would replace what was committed before entry {first}")
        if index > self.last_index + 1:
            raise MalformedGroup(
                f"entry {index} follows entry {self.last_index}: entries are missing between"
            )
        del self.entries[index - first :]

    def _push(self, entry: Entry) -> None:
        before = self.entries[-1] if self.entries else self.base
        if before is not None and entry.index != before.index + 1:
            raise MalformedGroup(f"entry {entry.index} follows entry {before.index}")
        if entry.term < (NO_TERM if before is None else before.term):
            raise MalformedGroup(f"term falls to {entry.term} at entry {entry.index}")
        self.entries.append(entry)
