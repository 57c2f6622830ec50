"""The log in memory: what the core decides on.

The *base* is the last entry that is no longer held; entries follow it without a gap. Several indexes run
along the log::

    base <= handed_out <= commit_index <= last_index
                          durable_index <= last_index

``durable_index`` is what this voter may count for itself, and what it has synced of the log *as it is now*:
a truncation takes back what a write that is still under way would have claimed. Entries are handed out to be
applied only when they are committed and durable here. A majority without this voter may commit an entry
first; but a snapshot of the applied state would then run ahead of the journal, and recovery would face a gap.

The voters in force are those of the newest VOTERS entry in the log, committed or not, so they are kept here,
beside the entries, and a truncation takes them back as well (rule 41).

All questions about terms are answered from runs of equal terms, of which there are as many as there were
elections: no step looks at the whole log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Final

from quorate.metadata.raft.entries import (
    NO_INDEX,
    NO_TERM,
    Entry,
    EntryKind,
    Index,
    Snapshot,
    SnapshotId,
    Term,
)
from quorate.metadata.raft.voters import Voters
from quorate.metadata.raft.voters_codec import decode_voters

__all__ = ["RaftLog", "entry_bytes"]

#: index, term, kind and framing on the wire
_ENTRY_OVERHEAD_BYTES: Final = 32


def entry_bytes(*contents: bytes) -> int:
    """What entries with these contents cost on the wire, roughly."""
    return sum(map(len, contents)) + _ENTRY_OVERHEAD_BYTES * len(contents)


class RaftLog:
    __slots__ = (
        "_base",
        "_entries",
        "_term_runs",
        "_unsynced",
        "_voters",
        "commit_index",
        "durable_index",
        "handed_out",
        "snapshot",
        "unsaved_from",
    )

    def __init__(self, base: SnapshotId | None, voters: Voters, entries: Sequence[Entry]) -> None:
        self._base = base or SnapshotId(NO_INDEX, NO_TERM)
        self._entries: list[Entry] = []
        #: (first index, term), ascending; the first run starts at the base
        self._term_runs: list[tuple[Index, Term]] = [(self._base.index, self._base.term)]
        #: (index, voters in force from there on), ascending; the first is in force at the base
        self._voters: list[tuple[Index, Voters]] = [(self._base.index, voters)]
        #: (sequence, last index that its write makes durable), ascending
        self._unsynced: deque[tuple[int, Index]] = deque()
        self.commit_index = self._base.index
        #: the last entry given to the state machine
        self.handed_out = self._base.index
        #: what a follower gets that needs entries from before the base
        self.snapshot: Snapshot | None = None
        for entry in entries:
            self._push(entry)
        self.durable_index = self.last_index
        #: entries from here on were not yet given to the driver to be persisted
        self.unsaved_from = Index(self.last_index + 1)

    # --- looking ----------------------------------------------------------------------------------

    @property
    def base(self) -> SnapshotId:
        return self._base

    @property
    def first_index(self) -> Index:
        """Of the first entry that is held, or would be."""
        return Index(self._base.index + 1)

    @property
    def last_index(self) -> Index:
        return Index(self._base.index + len(self._entries))

    @property
    def last_term(self) -> Term:
        return self._term_runs[-1][1]

    def term_at(self, index: Index) -> Term | None:
        """None where the log holds nothing, or no longer."""
        position = index - self._base.index - 1
        if 0 <= position < len(self._entries):
            return self._entries[position].term
        return self._base.term if position == -1 else None

    def meeting_point(self, index: Index, term: Term) -> Index:
        """The last index, at most ``index``, whose term is at most ``term``; NO_INDEX: before the base.

        Where a log and another disagree, the part after this point cannot be common to both, if the other
        has ``term`` at ``index``: terms never fall along a log. It skips a whole term in one step.
        """
        last = min(index, self.last_index)
        for start, run_term in reversed(self._term_runs):
            if start > last:
                continue
            if run_term <= term:
                return last
            last = Index(start - 1)
        return NO_INDEX

    def entries_from(self, index: Index, bytes_max: int) -> tuple[Entry, ...]:
        """As many as ``bytes_max`` allows; at least one, where there is one."""
        entries = self._entries
        start = index - self._base.index - 1
        assert start >= 0, f"entry {index} is compacted away"
        size = 0
        for stop in range(start, len(entries)):
            size += len(entries[stop].data) + _ENTRY_OVERHEAD_BYTES
            if size > bytes_max and stop > start:
                return tuple(entries[start:stop])
        return tuple(entries[start:])

    def entries_between(self, first: Index, last: Index) -> tuple[Entry, ...]:
        """Both inclusive."""
        return tuple(self._entries[first - self._base.index - 1 : last - self._base.index])

    # --- voters -----------------------------------------------------------------------------------

    @property
    def voters(self) -> Voters:
        """In force: of the newest VOTERS entry, committed or not."""
        return self._voters[-1][1]

    @property
    def voters_index(self) -> Index:
        """Where the voters in force come from."""
        return self._voters[-1][0]

    @property
    def committed_voters(self) -> Voters:
        return self.voters_at(self.commit_index)

    def voters_at(self, index: Index) -> Voters:
        """In force at ``index``, which the log must still know."""
        for start, voters in reversed(self._voters):
            if start <= index:
                return voters
        raise AssertionError(f"voters at {index} are compacted away")

    # --- changing ---------------------------------------------------------------------------------

    def find_conflict(self, entries: Sequence[Entry]) -> Index | None:
        """The first of ``entries`` that is missing here or has another term; None: all are here.

        What is here stays, even if the request ends before the log does: it may be an old request, and what
        follows may be acknowledged.
        """
        for entry in entries:
            if self.term_at(entry.index) != entry.term:
                return entry.index
        return None

    def append(self, entry: Entry) -> None:
        assert entry.index == self.last_index + 1
        assert entry.term >= self.last_term
        self._push(entry)

    def truncate_from(self, index: Index) -> None:
        """Forget ``index`` and what follows it."""
        assert index > self.commit_index, f"entry {index} is committed and may not be truncated"
        assert index > self._base.index
        del self._entries[index - self._base.index - 1 :]
        while self._term_runs[-1][0] >= index:
            self._term_runs.pop()
        while self._voters[-1][0] >= index:
            self._voters.pop()
        self.unsaved_from = min(self.unsaved_from, index)
        self._take_back_durable(Index(index - 1))

    def install(self, snapshot: Snapshot) -> None:
        """Start again from ``snapshot``: nothing of the log agrees with it."""
        assert snapshot.id.index > self.commit_index
        # Up to the commit index the snapshot stands for the same entries, and they were as durable before.
        self._take_back_durable(self.commit_index)
        self._base = snapshot.id
        self._entries.clear()
        self._term_runs = [(snapshot.id.index, snapshot.id.term)]
        self._voters = [(snapshot.id.index, snapshot.voters)]
        self.commit_index = snapshot.id.index
        self.handed_out = snapshot.id.index
        self.unsaved_from = Index(snapshot.id.index + 1)
        self.snapshot = snapshot

    def trim(self, snapshot: Snapshot, entries_kept: int) -> None:
        """Forget what ``snapshot`` stands for, but for the last ``entries_kept``."""
        newest = self.snapshot.id.index if self.snapshot is not None else Index(self._base.index - 1)
        if snapshot.id.index <= newest:
            return  # a later one was installed meanwhile
        assert snapshot.id.index <= self.handed_out, "a snapshot of what was not applied"
        self.snapshot = snapshot
        self._compact(Index(snapshot.id.index - entries_kept))

    def commit(self, index: Index) -> None:
        assert index >= self.commit_index
        assert index <= self.last_index
        self.commit_index = index

    # --- what the driver is given -----------------------------------------------------------------

    def take_committed(self) -> tuple[Entry, ...]:
        """Entries to apply; each is given once."""
        last = min(self.commit_index, self.durable_index)
        if last <= self.handed_out:
            return ()
        taken = self.entries_between(Index(self.handed_out + 1), last)
        self.handed_out = last
        return taken

    def take_unsaved(self) -> tuple[Entry, ...]:
        """Entries to persist, which replace what the journal holds from the first of them on."""
        last = self.last_index
        if self.unsaved_from > last:
            return ()
        taken = self.entries_between(self.unsaved_from, last)
        self.unsaved_from = Index(last + 1)
        return taken

    def writing(self, sequence: int) -> None:
        """The write of ``sequence`` makes the log, as it is now, durable."""
        self._unsynced.append((sequence, self.last_index))

    def written(self, sequence: int) -> None:
        """All writes up to ``sequence`` are durable."""
        while self._unsynced and self._unsynced[0][0] <= sequence:
            _, index = self._unsynced.popleft()
            self.durable_index = max(self.durable_index, index)

    # --- helpers ----------------------------------------------------------------------------------

    def _push(self, entry: Entry) -> None:
        assert entry.index == self.last_index + 1, f"gap before entry {entry.index}"
        self._entries.append(entry)
        if entry.term != self._term_runs[-1][1]:
            self._term_runs.append((entry.index, entry.term))
        if entry.kind is EntryKind.VOTERS:
            self._voters.append((entry.index, decode_voters(entry.data)))

    def _take_back_durable(self, index: Index) -> None:
        """Entries after ``index`` are gone, so no write, done or under way, makes them durable."""
        self.durable_index = min(self.durable_index, index)
        self._unsynced = deque((sequence, min(last, index)) for sequence, last in self._unsynced)

    def _compact(self, to: Index) -> None:
        """Forget entries up to and including ``to``."""
        term = self.term_at(to)
        if to <= self._base.index or term is None:
            return
        del self._entries[: to - self._base.index]
        self._base = SnapshotId(to, term)
        runs = self._term_runs
        self._term_runs = [(to, term), *runs[bisect_right(runs, to, key=lambda run: run[0]) :]]
        kept = bisect_right(self._voters, to, key=lambda change: change[0]) - 1
        self._voters = self._voters[kept:]
