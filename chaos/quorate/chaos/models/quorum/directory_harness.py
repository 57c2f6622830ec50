"""A voter's directory on a simulated disk, and a ledger of what it answered for.

The ledger knows every state that the log has had, in order, and up to which of them the directory has said
that it is durable. After a death the log must be in one of the states from there on: nothing that was
answered for may lack, and nothing may be there that never was.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from quorate.chaos.sim.disk import SimDisk
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.journal_mark import MARK_NAME
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from quorate.metadata.raft.ready import HardState
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters

__all__ = [
    "DirectoryHarness",
    "Ledger",
    "command",
    "commands",
    "hard_state",
    "snapshot_at",
]

PATH = "/data/quorum"
NODE = NodeId(1)
SEGMENT_BYTES = 200


def command(index: int, term: int = 1, data: bytes | None = None) -> Entry:
    content = b"%d in %d" % (index, term) if data is None else data
    return Entry(Index(index), Term(term), EntryKind.COMMAND, content)


def commands(first: int, last: int, term: int = 1) -> list[Entry]:
    """``last`` is inclusive."""
    return [command(index, term) for index in range(first, last + 1)]


def hard_state(term: int, voted_for: int | None = None) -> HardState:
    vote = None if voted_for is None else VoterKey(NodeId(voted_for), DirectoryId("d" * 22))
    return HardState(Term(term), vote)


def snapshot_at(index: int, term: int = 1, data: bytes = b"state") -> Snapshot:
    voter = Voter(VoterKey(NODE, DirectoryId("s" * 22)), "localhost:1")
    return Snapshot(SnapshotId(Index(index), Term(term)), Voters((voter,)), data)


@dataclass(frozen=True)
class LogState:
    """The log as the journal tells it: after ``base``, if anything is known of it."""

    base: SnapshotId | None = None
    entries: tuple[Entry, ...] = ()

    def replaced_by(self, entries: Sequence[Entry]) -> LogState:
        kept = tuple(entry for entry in self.entries if entry.index < entries[0].index)
        return LogState(self.base, (*kept, *entries))

    def restarted_after(self, snapshot: SnapshotId) -> LogState:
        return self if self.holds(snapshot) else LogState(snapshot)

    def holds(self, snapshot: SnapshotId) -> bool:
        same = (each for each in self.entries if (each.index, each.term) == (snapshot.index, snapshot.term))
        return self.base == snapshot or next(same, None) is not None

    def after(self, snapshot: SnapshotId | None) -> tuple[Entry, ...]:
        """What follows the snapshot, as far as the log agrees with it."""
        if snapshot is None:
            return self.entries
        if not self.holds(snapshot):
            return ()
        return tuple(entry for entry in self.entries if entry.index > snapshot.index)


@dataclass
class Ledger:
    logs: list[LogState] = field(default_factory=lambda: [LogState()])
    durable_log: int = 0
    hard_states: list[HardState] = field(default_factory=lambda: [hard_state(0)])
    #: None, and then every snapshot that was begun
    snapshots: list[SnapshotId | None] = field(default_factory=lambda: [None])
    durable_snapshot: int = 0

    def check(self, directory: QuorumDirectory) -> None:
        restored = directory.restored
        assert restored is not None
        assert restored.hard_state in self.hard_states
        assert restored.snapshot in self.snapshots[self.durable_snapshot :]
        possible = [state.after(restored.snapshot) for state in self.logs[self.durable_log :]]
        assert restored.entries in possible, f"{restored.entries} is none of {possible}"
        if restored.snapshot is not None:
            assert directory.snapshot is not None
            assert directory.snapshot.id == restored.snapshot

    def settle(self, directory: QuorumDirectory) -> None:
        """After a start: what was found is what counts from now on."""
        restored = directory.restored
        assert restored is not None
        self.hard_states = [restored.hard_state]
        self.snapshots = [restored.snapshot]
        self.durable_snapshot = 0
        states = self.logs[self.durable_log :]
        found = next(state for state in states if state.after(restored.snapshot) == restored.entries)
        self.logs = [found if restored.snapshot is None else found.restarted_after(restored.snapshot)]
        self.durable_log = 0


class DirectoryHarness:
    def __init__(self, *, segment_bytes: int = SEGMENT_BYTES, seed: int = 1) -> None:
        self.disk = SimDisk()
        self.ledger = Ledger()
        self._segment_bytes = segment_bytes
        self._random = random.Random(seed)
        self.directory: QuorumDirectory

    async def open(self, *, node_id: int = NODE, cluster_id: str | None = None) -> QuorumDirectory:
        self.directory = await QuorumDirectory.open(
            self.disk,
            PATH,
            cluster_id=cluster_id,
            node_id=NodeId(node_id),
            random_bytes=self._random.randbytes,
            segment_bytes=self._segment_bytes,
        )
        return self.directory

    def forget_synced(self) -> None:
        """As if the last group had never been synced."""
        self.overwrite(MARK_NAME, b"")

    async def begin(self) -> QuorumDirectory:
        """Open, and found a quorum of this voter alone if need be."""
        directory = await self.open()
        if directory.restored is None:
            await directory.found(Voters((Voter(directory.key, "localhost:1"),)))
        if not directory.identity.is_confirmed:
            await directory.confirm_founding()
        return directory

    async def restart(self) -> QuorumDirectory:
        """The process dies, and another one takes its place."""
        self.disk.crash()
        return await self.begin()

    async def power_loss(self, rng: random.Random | None = None) -> QuorumDirectory:
        self.disk.power_loss(rng)
        return await self.begin()

    # --- steps, told to the ledger ----------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        self.ledger.logs.append(self.ledger.logs[-1].replaced_by(entries))
        self.directory.append(entries)

    async def sync(self) -> None:
        covered = len(self.ledger.logs) - 1
        await self.directory.sync()
        self.ledger.durable_log = max(self.ledger.durable_log, covered)

    async def store(self, *entries: Entry) -> None:
        self.append(entries)
        await self.sync()

    async def write_hard_state(self, state: HardState) -> None:
        self.ledger.hard_states.append(state)
        await self.directory.write_hard_state(state)
        self.ledger.hard_states = [state]

    async def save(self, snapshot: Snapshot) -> None:
        self.ledger.snapshots.append(snapshot.id)
        await self.directory.save_snapshot(snapshot)
        self.ledger.durable_snapshot = len(self.ledger.snapshots) - 1

    async def install(self, snapshot: Snapshot) -> None:
        self.ledger.snapshots.append(snapshot.id)
        self.ledger.logs.append(self.ledger.logs[-1].restarted_after(snapshot.id))
        covered = len(self.ledger.logs) - 1
        await self.directory.install_snapshot(snapshot)
        self.ledger.durable_snapshot = len(self.ledger.snapshots) - 1
        self.ledger.durable_log = covered

    # --- files --------------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        return f"{PATH}/{name}"

    def names(self, suffix: str) -> list[str]:
        return [name for name in self.disk.list(PATH) if name.endswith(suffix)]

    def content(self, name: str) -> bytes:
        return self.disk.snapshot(PATH).files[name]

    def overwrite(self, name: str, content: bytes) -> None:
        """From outside, and durable at once."""
        self.disk.crash()
        files = self.disk.snapshot(PATH)
        self.disk.restore(type(files)(files.directories, {**files.files, name: content}), PATH)

    def remove(self, name: str) -> None:
        self.disk.crash()
        files = self.disk.snapshot(PATH)
        rest = {each: content for each, content in files.files.items() if each != name}
        self.disk.restore(type(files)(files.directories, rest), PATH)
