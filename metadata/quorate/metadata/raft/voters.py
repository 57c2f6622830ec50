"""Who may vote.

A voter is a node id *and* the id of its directory: a disk that was wiped and formatted again has another
directory id, so it cannot vote a second time under the name of one that has already voted (rule 41).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType

__all__ = ["DirectoryId", "NodeId", "Voter", "VoterKey", "Voters"]

NodeId = NewType("NodeId", int)
#: 22 characters of URL-safe base64: drawn when a directory is formatted
DirectoryId = NewType("DirectoryId", str)


@dataclass(frozen=True, slots=True, order=True)
class VoterKey:
    node_id: NodeId
    directory_id: DirectoryId

    def __str__(self) -> str:
        return f"{self.node_id}/{self.directory_id}"


@dataclass(frozen=True, slots=True, order=True)
class Voter:
    key: VoterKey
    #: host:port on which the other nodes reach it
    address: str


@dataclass(frozen=True, slots=True)
class Voters:
    """A set of voters, sorted by node id, at most one directory per node id."""

    members: tuple[Voter, ...]

    def __post_init__(self) -> None:
        ids = [voter.key.node_id for voter in self.members]
        if ids != sorted(set(ids)):
            raise ValueError(f"voters must be sorted and unique: {ids}")

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, key: VoterKey) -> bool:
        return any(voter.key == key for voter in self.members)

    @property
    def majority(self) -> int:
        """How many make a quorum."""
        return len(self.members) // 2 + 1

    def by_node_id(self, node_id: NodeId) -> Voter | None:
        return next((voter for voter in self.members if voter.key.node_id == node_id), None)

    def with_voter(self, voter: Voter) -> Voters:
        return Voters(tuple(sorted((*self.members, voter))))

    def without(self, key: VoterKey) -> Voters:
        return Voters(tuple(voter for voter in self.members if voter.key != key))
