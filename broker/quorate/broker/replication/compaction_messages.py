"""What leaders and followers tell each other of compaction, on the wire."""

from __future__ import annotations

from quorate.core.ids import Offset
from quorate.storage import NOT_COMPACTED, Compacted
from quorate.v1 import replica_pb2

__all__ = ["compacted_from", "compacted_to"]


def compacted_from(message: replica_pb2.Compacted) -> Compacted:
    return Compacted(Offset(message.superseded_below), Offset(message.tombstones_removed_below))


def compacted_to(compacted: Compacted) -> replica_pb2.Compacted | None:
    """None, as nearly always: nothing is missing."""
    if compacted == NOT_COMPACTED:
        return None
    return replica_pb2.Compacted(
        superseded_below=compacted.superseded_below,
        tombstones_removed_below=compacted.tombstones_removed_below,
    )
