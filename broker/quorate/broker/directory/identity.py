"""Whose data directory it is.

Written when a directory is used for the first time, before anything else. The directory's id is drawn at
random: a disk that was wiped or replaced gets another one, and by that the controller knows that nothing of
what the broker once had is there any more (rule 32).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.core.clock import Clock
from quorate.core.disk import Disk
from quorate.core.ids import BrokerId
from quorate.errors import InvalidConfig, StorageFailed
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably
from quorate.storage.data_directory_files import IDENTITY_NAME

__all__ = ["DirectoryIdentity", "check_owner", "new_identity", "read_identity", "write_identity"]

_VERSION: Final = 1
_ID_BYTES: Final = 16
_ID_CHARACTERS: Final = 22


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    directory_id: str
    node_id: BrokerId
    #: None until the first registration
    cluster_id: str | None


def new_identity(node_id: BrokerId, random_bytes: Callable[[int], bytes]) -> DirectoryIdentity:
    """Of no cluster yet: what the configuration calls it may be wrong, and could not be corrected later."""
    directory_id = base64.urlsafe_b64encode(random_bytes(_ID_BYTES)).decode()[:_ID_CHARACTERS]
    return DirectoryIdentity(directory_id, node_id, cluster_id=None)


def read_identity(disk: Disk, directory: str) -> DirectoryIdentity | None:
    """None where there is none yet. Nothing can restore one that is damaged, so there is no start then."""
    path = f"{directory}/{IDENTITY_NAME}"
    try:
        state = read_checkpoint(disk, path)
    except DamagedCheckpoint as damaged:
        raise _unreadable(path, damaged.reason) from damaged
    if state is None:
        return None
    if state["version"] != _VERSION:
        raise _unreadable(path, f"version {state['version']} of the format is not known here")
    return DirectoryIdentity(state["directory_id"], BrokerId(state["node_id"]), state["cluster_id"])


async def write_identity(
    disk: Disk, directory: str, identity: DirectoryIdentity, *, clock: Clock | None = None
) -> None:
    state = {
        "version": _VERSION,
        "directory_id": identity.directory_id,
        "node_id": identity.node_id,
        "cluster_id": identity.cluster_id,
    }
    await write_durably(disk, f"{directory}/{IDENTITY_NAME}", state, clock=clock)


def check_owner(path: str, identity: DirectoryIdentity, node_id: BrokerId, cluster_id: str | None) -> None:
    """A directory serves one node of one cluster: in another, its replicas would pass for theirs."""
    if identity.node_id != node_id:
        raise InvalidConfig(
            f"{path} belongs to node {identity.node_id}, but node.id is {node_id}; "
            "give the node its own data.dir, or the directory its own node",
            path=path,
            node_id=node_id,
        )
    if cluster_id is not None and identity.cluster_id not in (None, cluster_id):
        raise InvalidConfig(
            f"{path} belongs to cluster {identity.cluster_id}, this is cluster {cluster_id}; "
            "correct cluster.id or controller.voters, or give the node an empty data.dir to join with",
            path=path,
            cluster_id=cluster_id,
        )


def _unreadable(path: str, reason: str) -> StorageFailed:
    return StorageFailed(
        f"{path} cannot be read ({reason}): whose directory this is, is not known. Put the file back from a "
        "backup, or give the node an empty data.dir; it then fetches its replicas anew",
        path=path,
        reason=reason,
    )
