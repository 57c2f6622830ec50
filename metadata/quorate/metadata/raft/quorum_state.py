"""The two small files of a voter: who it is, and what it must never forget.

Both are checkpoints: replaced as a whole, durable when the write returns, guarded by a checksum. Neither
can be restored from anything else, so a damaged one refuses the start (rule 42).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from quorate.core.disk import Disk
from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.quorum_damage import quorum_damaged
from quorate.metadata.raft.ready import HardState
from quorate.metadata.raft.voters import DirectoryId, NodeId, VoterKey, Voters
from quorate.metadata.raft.voters_codec import decode_voters, encode_voters
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably

__all__ = [
    "HARD_STATE_NAME",
    "IDENTITY_NAME",
    "Identity",
    "read_hard_state",
    "read_identity",
    "write_hard_state",
    "write_identity",
]

IDENTITY_NAME: Final = "identity"
HARD_STATE_NAME: Final = "hard-state"

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Written at the end of every start and never between, but for the steps of founding."""

    #: None: neither configured nor founded yet
    cluster_id: str | None
    node_id: NodeId
    #: drawn when the directory was formatted
    directory_id: DirectoryId
    #: number of starts, this one included
    incarnation: int
    #: the machine's uptime in which the journal was last found sound
    boot_id: str
    #: what this voter has agreed to found with; set once in the life of a directory. Empty: it joined
    #: a quorum that others had founded, and learns the voters from the log
    founding: Voters | None = None
    #: every founding voter holds the same founding set durably: from now on this one may vote
    is_confirmed: bool = False

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.node_id, self.directory_id)


def read_identity(disk: Disk, directory: str) -> Identity | None:
    state = _read(disk, f"{directory}/{IDENTITY_NAME}")
    if state is None:
        return None
    founding = state["founding"]
    return Identity(
        cluster_id=state["cluster_id"],
        node_id=NodeId(state["node_id"]),
        directory_id=DirectoryId(state["directory_id"]),
        incarnation=state["incarnation"],
        boot_id=state["boot_id"],
        founding=None if founding is None else decode_voters(founding.encode()),
        is_confirmed=state["is_confirmed"],
    )


async def write_identity(disk: Disk, directory: str, identity: Identity) -> None:
    state = {
        "version": _VERSION,
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "directory_id": identity.directory_id,
        "incarnation": identity.incarnation,
        "boot_id": identity.boot_id,
        "founding": None if identity.founding is None else encode_voters(identity.founding).decode(),
        "is_confirmed": identity.is_confirmed,
    }
    await write_durably(disk, f"{directory}/{IDENTITY_NAME}", state)


def read_hard_state(disk: Disk, directory: str) -> HardState | None:
    state = _read(disk, f"{directory}/{HARD_STATE_NAME}")
    if state is None:
        return None
    vote = None
    if state["vote"] is not None:
        node_id, directory_id = state["vote"]
        vote = VoterKey(NodeId(node_id), DirectoryId(directory_id))
    return HardState(Term(state["term"]), vote, is_recovering=state["is_recovering"])


async def write_hard_state(disk: Disk, directory: str, hard_state: HardState) -> None:
    vote = hard_state.vote
    state = {
        "version": _VERSION,
        "term": hard_state.term,
        "vote": None if vote is None else [vote.node_id, vote.directory_id],
        "is_recovering": hard_state.is_recovering,
    }
    await write_durably(disk, f"{directory}/{HARD_STATE_NAME}", state)


def _read(disk: Disk, path: str) -> dict[str, Any] | None:
    try:
        state = read_checkpoint(disk, path)
    except DamagedCheckpoint as damaged:
        raise quorum_damaged(path, damaged.reason) from damaged
    if state is not None and state["version"] != _VERSION:
        raise quorum_damaged(path, f"version {state['version']} of the format is not known here")
    return state
