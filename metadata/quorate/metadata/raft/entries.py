"""What the quorum's log is made of.

Indexes start at 1; 0 stands before the first entry. An entry's index is its *metadata offset*: brokers follow
the log by it, and a broker's epoch is the index of the entry that registered it. Terms start at 1; 0 means
that there was no election yet.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NewType

from quorate.metadata.raft.voters import Voters

__all__ = ["NO_INDEX", "NO_TERM", "Entry", "EntryKind", "Index", "Snapshot", "SnapshotId", "Term"]

Index = NewType("Index", int)
Term = NewType("Term", int)

NO_INDEX: Final = Index(0)
NO_TERM: Final = Term(0)


class EntryKind(enum.IntEnum):
    #: the first entry of every term: what came before it is committed through it (rule 38)
    NOOP = 1
    #: bytes of the state machine's
    COMMAND = 2
    #: the set of voters, in force as soon as it is in the log
    VOTERS = 3


@dataclass(frozen=True, slots=True)
class Entry:
    index: Index
    term: Term
    kind: EntryKind
    data: bytes


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """The last entry that a snapshot stands for (inclusive)."""

    index: Index
    term: Term


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after ``id.index``, and the voters in force there."""

    id: SnapshotId
    voters: Voters
    data: bytes
