"""Where the snapshot and the journal meet at a start.

Normally the journal holds the snapshot's last entry, and the log goes on from there. Two other things may
be:

- The journal ends before the snapshot, or contradicts it: the process died after an installed snapshot was
  durable and before the journal said so. A snapshot stands for committed entries, so the journal gives way.
- The newest snapshot is damaged. The one before it, or the very beginning, serves as well if the journal
  holds everything from there up to the damaged one's last entry; that is what it is kept for. Else nobody
  knows what the damaged one stood for, and the voter does not start (rule 42).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.metadata.raft.entries import NO_INDEX, Entry, Snapshot, SnapshotId
from quorate.metadata.raft.journal_replay import ORIGIN, Replay
from quorate.metadata.raft.quorum_damage import quorum_damaged
from quorate.metadata.raft.snapshot_store import DamagedSnapshot, SnapshotStore

__all__ = ["LogRestored", "restore_log"]


@dataclass(frozen=True, slots=True)
class LogRestored:
    snapshot: Snapshot | None
    #: after it, gap-free
    entries: tuple[Entry, ...]
    #: the journal gives way: it has to be told to restart after the snapshot
    must_restart: bool
    #: newer ones that are damaged and can be done without
    damaged: tuple[DamagedSnapshot, ...]


async def restore_log(store: SnapshotStore, replay: Replay) -> LogRestored:
    """Raises QuorumDamaged."""
    damaged: dict[SnapshotId, DamagedSnapshot] = {}
    snapshot = None
    for each in store.stored():
        try:
            snapshot = await store.read(each)
            break
        except DamagedSnapshot as found:
            damaged[each] = found
    newest_damaged = next(iter(damaged), None)
    if newest_damaged is not None and not _reaches(replay, snapshot, newest_damaged):
        error = damaged[newest_damaged]
        raise quorum_damaged(
            error.path, f"{error.reason}, and the journal does not make up for it"
        ) from error
    start = NO_INDEX if snapshot is None else snapshot.id.index
    if _continues(replay, snapshot):
        entries = replay.entries_after(start)
        return LogRestored(snapshot, entries, must_restart=False, damaged=tuple(damaged.values()))
    if snapshot is None or replay.starts_after(start):
        where = "and no snapshot stands for them" if snapshot is None else "where the newest snapshot ends"
        raise quorum_damaged(store.directory, f"the journal lacks entries after entry {start}, {where}")
    return LogRestored(snapshot, (), must_restart=True, damaged=())


def _continues(replay: Replay, snapshot: Snapshot | None) -> bool:
    """Without a snapshot, the log has to begin with the first entry there ever was."""
    if snapshot is None:
        return replay.base == ORIGIN
    return replay.agrees_with(snapshot.id)


def _reaches(replay: Replay, snapshot: Snapshot | None, damaged: SnapshotId) -> bool:
    return _continues(replay, snapshot) and replay.agrees_with(damaged)
