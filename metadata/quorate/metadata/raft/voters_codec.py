"""Voters as bytes: in VOTERS entries, in snapshots, in a voter's identity.

Canonical JSON (sorted, no spaces): equal sets are equal bytes at every voter, whatever version it runs, since
a cluster's id may be a digest of them. ``VoterSet``, as which voters travel in messages, was rejected here:
protobuf promises the same meaning from one version of its library to the next, and not the same bytes.
"""

from __future__ import annotations

import json

from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters

__all__ = ["decode_voters", "encode_voters"]


def encode_voters(voters: Voters) -> bytes:
    members = [
        {"address": voter.address, "directory_id": voter.key.directory_id, "node_id": voter.key.node_id}
        for voter in voters
    ]
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def decode_voters(data: bytes) -> Voters:
    """Raises ValueError where ``data`` is not what ``encode_voters`` writes."""
    members = json.loads(data)
    if not isinstance(members, list):
        raise ValueError(f"voters are not a list: {data[:80]!r}")
    return Voters(tuple(_decode_voter(member) for member in members))


def _decode_voter(member: object) -> Voter:
    match member:
        case {"node_id": int(node_id), "directory_id": str(directory_id), "address": str(address)}:
            return Voter(VoterKey(NodeId(node_id), DirectoryId(directory_id)), address)
        case _:
            raise ValueError(f"not a voter: {member!r}")
