"""A voter's directory: all that it must remember, and the only thing that makes it the voter that it is.

    .lock                             held while a process uses the directory
    identity                          cluster, node, directory id, number of starts, founding voters
    hard-state                        term, vote, and whether part of the log was lost
    <number>.journal                  the log's entries (``journal``)
    journal-synced                    how far they were once durable (``journal_mark``)
    <index>-<term>.snapshot           the two newest snapshots (``snapshot_store``)
    <number>.<incarnation>.damaged    a damaged end of the journal, kept aside

Order is what keeps it sound. A directory is formatted once its identity is there, which is written last. A
start writes the identity last as well: so the number of starts, and the note that the journal was found
sound in this uptime of the machine, are durable before anybody hears from this voter, and never before the
journal is repaired. That the log has lost its end is noted before the end is cut, so that no crash in
between can hide it. A snapshot is durable before the journal is trimmed.

Two snapshots are kept, and the journal from the older one on: a damaged snapshot costs a longer start, not
the voter. It goes as soon as there are two again that were not found damaged.

Opening raises errors of ``quorate.errors``. After that a failed write raises ``OSError`` and leaves nobody
knowing what the device holds: the caller ends the process (rule 45).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from quorate.core.disk import Disk, File
from quorate.core.logging import get_logger
from quorate.errors import DiskFull, InvalidConfig, StorageFailed
from quorate.metadata.raft.entries import NO_TERM, Entry, Snapshot, SnapshotId
from quorate.metadata.raft.journal import SEGMENT_BYTES, Journal, create_journal
from quorate.metadata.raft.journal_mark import read_synced_mark
from quorate.metadata.raft.journal_recovery import Recovered, Tail, TailKind, read_journal, segment_numbers
from quorate.metadata.raft.quorum_damage import quorum_damaged
from quorate.metadata.raft.quorum_state import (
    HARD_STATE_NAME,
    IDENTITY_NAME,
    Identity,
    read_hard_state,
    read_identity,
    write_hard_state,
    write_identity,
)
from quorate.metadata.raft.ready import HardState, Restored
from quorate.metadata.raft.restoring import LogRestored, restore_log
from quorate.metadata.raft.snapshot_store import SnapshotStore
from quorate.metadata.raft.voters import DirectoryId, NodeId, VoterKey, Voters
from quorate.metadata.raft.voters_codec import encode_voters
from quorate.storage.file_writes import make_durable_directory
from quorate.storage.log_context import is_disk_full

__all__ = ["OpeningReport", "QuorumDirectory"]

log = get_logger(__name__)

_LOCK_NAME: Final = ".lock"
_DIRECTORY_ID_BYTES: Final = 16
_ID_CHARACTERS: Final = 22
_SNAPSHOTS_KEPT: Final = 2
_NOTHING_PROMISED: Final = HardState(NO_TERM, None)


@dataclass(slots=True)
class OpeningReport:
    """What a start found that a person may want to know."""

    is_formatted: bool = False
    #: bytes of a write that never finished
    torn_bytes: int = 0
    torn_reason: str = ""
    #: where the damaged end of the journal lies now; this voter has to catch up before it counts
    damaged_tail: str | None = None
    #: that were in the journal once, and are not; this voter has to catch up before it counts
    groups_lost: int = 0
    damaged_snapshots: tuple[str, ...] = ()
    #: an installed snapshot was durable, and the journal did not know of it yet
    is_install_finished: bool = False


class QuorumDirectory:
    """Belongs to one event loop. ``open`` makes one."""

    def __init__(self, disk: Disk, path: str, identity: Identity, *, segment_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._segment_bytes = segment_bytes
        self._lock: File | None = None
        self._journal: Journal | None = None
        self._store = SnapshotStore(disk, path)
        #: by their names, newest first
        self._snapshots: list[SnapshotId] = []
        #: found damaged at the start, and done without
        self._damaged_snapshots: list[SnapshotId] = []
        self._snapshots_changing = asyncio.Lock()
        self._is_installing = False
        self.identity = identity
        self.hard_state = _NOTHING_PROMISED
        #: None until this directory is founded, or has joined, and again once the core has taken it
        self.restored: Restored | None = None
        #: the newest
        self.snapshot: Snapshot | None = None
        self.opening_report = OpeningReport()

    @classmethod
    async def open(
        cls,
        disk: Disk,
        path: str,
        *,
        cluster_id: str | None,
        node_id: NodeId,
        random_bytes: Callable[[int], bytes],
        segment_bytes: int = SEGMENT_BYTES,
    ) -> QuorumDirectory:
        """Take the directory for this process, format it if it is new, and recover what it holds.

        ``cluster_id`` None: whatever the directory says, or will be founded with.
        """
        try:
            await make_durable_directory(disk, path)
            lock = disk.lock(f"{path}/{_LOCK_NAME}")
        except BlockingIOError as error:
            raise StorageFailed(f"{path} is used by another process", path=path) from error
        except OSError as error:
            raise _cannot_use(path, error) from error
        directory = None
        try:
            identity = read_identity(disk, path)
            is_new = identity is None
            if identity is None:
                identity = _new_identity(cluster_id, node_id, random_bytes)
            else:
                _check_owner(path, identity, cluster_id, node_id)
            directory = cls(disk, path, identity, segment_bytes=segment_bytes)
            await directory._start(cluster_id, is_new=is_new)
            directory._lock = lock
        except BaseException as error:
            if directory is not None:
                directory.close()
            lock.close()
            if isinstance(error, OSError):
                raise _cannot_use(path, error) from error
            raise
        return directory

    @property
    def key(self) -> VoterKey:
        return self.identity.key

    # --- founding ---------------------------------------------------------------------------------------

    async def found(self, voters: Voters, cluster_id: str | None = None) -> None:
        """Hold this founding set, durably and for good. To vote takes ``confirm_founding`` as well.

        Without a ``cluster_id``, given or configured, one is derived from the voters.
        """
        assert self.key in voters, f"{self.key} cannot found a quorum without itself: {voters}"
        cluster_id = cluster_id or self.identity.cluster_id or _cluster_id_of(voters)
        await self._begin(voters, cluster_id, is_confirmed=False)

    async def confirm_founding(self) -> None:
        """Every founding voter holds the same set durably: from now on a start need not ask again."""
        assert self.identity.founding is not None
        await self._write_identity(replace(self.identity, is_confirmed=True))

    async def join(self, cluster_id: str | None) -> None:
        """Take part in a quorum that others founded: without voters, until the log names them."""
        await self._begin(Voters(()), cluster_id or self.identity.cluster_id, is_confirmed=True)

    async def _begin(self, founding: Voters, cluster_id: str | None, *, is_confirmed: bool) -> None:
        assert self.identity.founding is None, "a directory is founded once in its life"
        # Before the identity says so: a founded directory without a journal has lost it.
        await create_journal(self._disk, self._path)
        await self._write_identity(
            replace(self.identity, cluster_id=cluster_id, founding=founding, is_confirmed=is_confirmed)
        )
        await self._recover(founding)

    # --- what the core wants persisted ----------------------------------------------------------------

    async def write_hard_state(self, hard_state: HardState) -> None:
        assert hard_state.term >= self.hard_state.term, "terms never fall"
        await write_hard_state(self._disk, self._path, hard_state)
        self.hard_state = hard_state

    def append(self, entries: Sequence[Entry]) -> None:
        """Durable with the next ``sync``. From the first one's index on they replace what was there."""
        assert not self._is_installing, (
            "what a snapshot replaces, and what comes after it, must not be mixed up"
        )
        self._founded_journal.append(entries)

    async def sync(self) -> None:
        """Returns once all that was appended before the call is durable."""
        await self._founded_journal.sync()

    async def install_snapshot(self, snapshot: Snapshot) -> None:
        """A leader's: durable when this returns, and the journal restarts after it.

        Entries of the journal stay only where it holds the snapshot's last entry (``journal_replay``).
        """
        journal = self._founded_journal
        assert not self._is_installing
        self._is_installing = True
        try:
            async with self._snapshots_changing:
                assert self.snapshot is None or snapshot.id.index > self.snapshot.id.index
                # What was appended before belongs before the restart.
                await journal.sync()
                await self._store.write(snapshot)
                journal.restart_after(snapshot.id)
                await journal.sync()
                await self._take_in(snapshot)
        finally:
            self._is_installing = False

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Of the applied state: durable when this returns. May run while entries are appended and synced."""
        async with self._snapshots_changing:
            if self.snapshot is not None and snapshot.id.index <= self.snapshot.id.index:
                return  # a newer one was installed while this one was taken
            await self._store.write(snapshot)
            await self._take_in(snapshot)

    async def _take_in(self, snapshot: Snapshot) -> None:
        """It is durable: forget what two snapshots now stand for, and those that were done without."""
        self.snapshot = snapshot
        self._snapshots = [snapshot.id, *(each for each in self._snapshots if each != snapshot.id)]
        if len(self._snapshots) < _SNAPSHOTS_KEPT:
            return
        await self._founded_journal.trim(self._snapshots[_SNAPSHOTS_KEPT - 1].index)
        # One that was taken anew in the place of a damaged one is none any more.
        damaged = [each for each in self._damaged_snapshots if each not in self._snapshots]
        await self._store.remove([*self._snapshots[_SNAPSHOTS_KEPT:], *damaged])
        del self._snapshots[_SNAPSHOTS_KEPT:]
        self._damaged_snapshots.clear()

    def close(self) -> None:
        """What was appended and not synced is forgotten."""
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.close()

    # --- starting -------------------------------------------------------------------------------------

    async def _start(self, cluster_id: str | None, *, is_new: bool) -> None:
        identity, founding = self.identity, self.identity.founding
        self._store.remove_unfinished()
        await self._load_hard_state(is_new=is_new)
        if founding is None:
            self._check_nothing_promised()
        else:
            await self._recover(founding)
        if is_new:
            # A process that died between making the directory and this may have left its name unsynced.
            await self._disk.fsync_directory(self._path.rpartition("/")[0] or "/")
        self.opening_report.is_formatted = is_new
        await self._write_identity(
            replace(
                identity,
                cluster_id=identity.cluster_id or cluster_id,
                incarnation=identity.incarnation + 1,
                boot_id=self._disk.boot_id(),
            )
        )
        if self.restored is not None:
            self.restored = replace(self.restored, incarnation=self.identity.incarnation)
        log.info(
            "quorum_directory_opened",
            path=self._path,
            voter=str(self.key),
            incarnation=self.identity.incarnation,
            **asdict(self.opening_report),
        )

    def take_restored(self) -> Restored:
        """For the core, which keeps what it needs: all that the journal held is not held twice."""
        restored, self.restored = self.restored, None
        assert restored is not None, "neither founded nor joined, or taken before"
        return restored

    async def _load_hard_state(self, *, is_new: bool) -> None:
        hard_state = read_hard_state(self._disk, self._path)
        if hard_state is None:
            if not is_new:
                raise quorum_damaged(f"{self._path}/{HARD_STATE_NAME}", "the file is missing")
            hard_state = _NOTHING_PROMISED
            await write_hard_state(self._disk, self._path, hard_state)
        self.hard_state = hard_state

    def _check_nothing_promised(self) -> None:
        """Nobody has voted, or taken entries, in a directory that is not founded."""
        names = self._disk.list(self._path)
        journal = any(self._disk.size(f"{self._path}/{name}") for name in names if segment_numbers([name]))
        if journal or self._store.stored() or self.hard_state != _NOTHING_PROMISED:
            raise quorum_damaged(
                f"{self._path}/{IDENTITY_NAME}", "it is missing, or not that of the files beside it"
            )

    async def _recover(self, founding: Voters) -> None:
        lost_power = self.identity.boot_id != self._disk.boot_id()
        synced = read_synced_mark(self._disk, self._path)
        recovered = read_journal(self._disk, self._path, lost_power=lost_power, synced=synced)
        if not recovered.segments:
            raise quorum_damaged(self._path, "the journal is missing")
        # Before anything is changed: whoever refuses to start leaves all files as they were.
        restored = await restore_log(self._store, recovered.replay)
        self._check_terms(restored)
        # A snapshot whose name is not durable yet may go with the next power loss. What follows makes the
        # journal rely on it.
        await self._disk.fsync_directory(self._path)
        if recovered.groups_lost:
            await self._note_groups_lost(recovered)
        if recovered.tail is not None:
            await self._note_tail(recovered.tail)
        self._journal = await Journal.open(
            self._disk, self._path, recovered, segment_bytes=self._segment_bytes
        )
        if restored.must_restart:
            assert restored.snapshot is not None
            self._journal.restart_after(restored.snapshot.id)
            await self._journal.sync()
        self._set_restored(restored, founding)

    def _check_terms(self, restored: LogRestored) -> None:
        """An entry's term is on record before the entry is."""
        highest = restored.snapshot.id.term if restored.snapshot is not None else NO_TERM
        if restored.entries:
            highest = restored.entries[-1].term
        if highest > self.hard_state.term:
            raise quorum_damaged(
                f"{self._path}/{HARD_STATE_NAME}",
                f"it is of term {self.hard_state.term}, the log of term {highest}: the file is an old copy",
            )

    async def _note_groups_lost(self, recovered: Recovered) -> None:
        """Before the mark that tells of it is lowered."""
        await self.write_hard_state(replace(self.hard_state, is_recovering=True))
        self.opening_report.groups_lost = recovered.groups_lost
        first = recovered.next_number
        log.error("journal_shortened", first=first, last=first + recovered.groups_lost - 1, path=self._path)

    async def _note_tail(self, tail: Tail) -> None:
        """Before it is cut."""
        facts = {
            "path": tail.path,
            "position": tail.position,
            "bytes": len(tail.content),
            "reason": tail.reason,
        }
        if tail.kind is TailKind.TORN:
            self.opening_report.torn_bytes = len(tail.content)
            self.opening_report.torn_reason = tail.reason
            log.info("journal_tail_cut", **facts)
            return
        await self.write_hard_state(replace(self.hard_state, is_recovering=True))
        # The number of this start is not durable yet: if it dies here, the next keeps the same bytes again.
        aside = f"{tail.path.removesuffix('.journal')}.{self.identity.incarnation + 1}.damaged"
        await self._disk.write_file(aside, tail.content)
        await self._disk.fsync_directory(self._path)
        self.opening_report.damaged_tail = aside
        log.error("journal_tail_damaged", kept_as=aside, **facts)

    def _set_restored(self, restored: LogRestored, founding: Voters) -> None:
        snapshot = self.snapshot = restored.snapshot
        skipped = {error.path for error in restored.damaged}
        stored = self._store.stored()
        self._snapshots = [each for each in stored if self._store.path_of(each) not in skipped]
        self._damaged_snapshots = [each for each in stored if self._store.path_of(each) in skipped]
        report = self.opening_report
        report.damaged_snapshots = tuple(str(error) for error in restored.damaged)
        report.is_install_finished = restored.must_restart
        for error in restored.damaged:
            log.error(
                "snapshot_damaged",
                path=error.path,
                reason=error.reason,
                used_instead=str(snapshot and snapshot.id),
            )
        self.restored = Restored(
            hard_state=self.hard_state,
            incarnation=self.identity.incarnation,
            snapshot=None if snapshot is None else snapshot.id,
            voters=founding if snapshot is None else snapshot.voters,
            entries=restored.entries,
        )

    async def _write_identity(self, identity: Identity) -> None:
        await write_identity(self._disk, self._path, identity)
        self.identity = identity

    @property
    def _founded_journal(self) -> Journal:
        assert self._journal is not None, "nothing is written before the quorum is founded"
        return self._journal


def _new_identity(cluster_id: str | None, node_id: NodeId, random_bytes: Callable[[int], bytes]) -> Identity:
    directory_id = DirectoryId(_as_id(random_bytes(_DIRECTORY_ID_BYTES)))
    return Identity(cluster_id, node_id, directory_id, incarnation=0, boot_id="")


def _check_owner(path: str, identity: Identity, cluster_id: str | None, node_id: NodeId) -> None:
    if identity.node_id != node_id:
        raise InvalidConfig(
            f"{path} belongs to node {identity.node_id}, but node.id is {node_id}; "
            "give the node its own directory, or the directory its own node",
            path=path,
            node_id=node_id,
        )
    if cluster_id is not None and identity.cluster_id not in (None, cluster_id):
        raise InvalidConfig(
            f"{path} belongs to cluster {identity.cluster_id}, but cluster.id is {cluster_id}",
            path=path,
            cluster_id=cluster_id,
        )


def _cluster_id_of(voters: Voters) -> str:
    """The same at every founding voter, and at no other cluster: directory ids are random."""
    return _as_id(hashlib.sha256(encode_voters(voters)).digest())


def _as_id(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()[:_ID_CHARACTERS]


def _cannot_use(path: str, error: OSError) -> DiskFull | StorageFailed:
    if is_disk_full(error):
        return DiskFull(f"no space left to start the quorum's voter in {path}: {error}", path=path)
    return StorageFailed(f"cannot use {path} as the quorum's directory: {error}", path=path)
