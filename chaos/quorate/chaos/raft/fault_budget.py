"""How much may be destroyed at a time, so that what is committed can always be found again.

Raft survives the loss of a minority of its disks, not of more. So a disk may be damaged or wiped only while,
of the voters in force, those that are whole remain a majority, and only while nobody can doubt who the voters
in force are. A voter counts as whole again when it has recovered, or when it was removed. Without such a
budget a checker would report what no system can prevent.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.chaos.raft.cluster import Cluster
from quorate.chaos.raft.invariants import Invariant, Replica
from quorate.chaos.raft.ledger import Ledger
from quorate.chaos.raft.node import SimulatedNode
from quorate.chaos.raft.operator import Operator
from quorate.metadata.raft.entries import NO_INDEX, Entry, EntryKind, Index
from quorate.metadata.raft.ready import RemoveVoter

__all__ = ["FaultBudget", "VoterChangesInLogs"]


class VoterChangesInLogs(Invariant):
    """Only an observer: remembers whether some log has a change of voters that may yet be committed."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._newest = NO_INDEX

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        for entry in entries:
            if entry.kind is EntryKind.VOTERS and entry.index > self._newest:
                self._newest = entry.index

    @property
    def are_settled(self) -> bool:
        """Once something is committed at an index, nothing else ever will be."""
        return self._newest <= self.ledger.last_index


class FaultBudget:
    def __init__(
        self, cluster: Cluster, ledger: Ledger, changes: VoterChangesInLogs, operator: Operator
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._changes = changes
        self._operator = operator

    def may_lose_its_disk(self, node: SimulatedNode) -> bool:
        """All of it, or the end of its journal."""
        if not self._changes.are_settled or self._is_about_to_change(node):
            return False
        if node.key not in self._ledger.voters or node.is_recovering:
            return True
        return self.losses_left > 0

    @property
    def losses_left(self) -> int:
        """How many of the voters in force may lose their disks now."""
        keys = [voter.key for voter in self._ledger.voters]
        lost = sum(self._cluster.is_wiped(key) or self._cluster.is_recovering(key) for key in keys)
        return (len(keys) - 1) // 2 - lost

    @property
    def is_settled(self) -> bool:
        return self._changes.are_settled and not self._operator.pending

    def _is_about_to_change(self, node: SimulatedNode) -> bool:
        """Fewer voters can afford fewer losses; and one that is being added is about to be counted."""
        for change in self._operator.pending.values():
            if isinstance(change, RemoveVoter) or change.voter.key == node.key:
                return True
        return False
