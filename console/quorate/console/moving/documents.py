"""Moves that are under way, as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quorate.console.moving.watch import Copying, look_at_moves
from quorate.console.output import print_table

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls

__all__ = ["move_documents", "print_moves"]


async def move_documents(connection: AdminCalls) -> list[dict[str, Any]]:
    moves = await connection.list_reassignments()
    copying = await look_at_moves(connection, moves)
    return [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": list(move.replicas),
            "adding_replicas": list(move.adding_replicas),
            "removing_replicas": list(move.removing_replicas),
            "isr": list(move.isr),
            "copying": [
                _copying_document(each)
                for each in copying
                if each.name == (move.partition.topic, move.partition.partition)
            ],
        }
        for move in moves
    ]


def print_moves(documents: Sequence[dict[str, Any]]) -> None:
    keys = ("topic", "partition", "replicas", "adding_replicas", "removing_replicas", "isr")
    rows = [
        [*(document[key] for key in keys), ", ".join(map(_copied, document["copying"])) or "-"]
        for document in documents
    ]
    print_table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "ISR", "COPIED"), rows)


def _copying_document(copying: Copying) -> dict[str, Any]:
    return {
        "id": copying.broker_id,
        "is_in_sync": copying.is_in_sync,
        "copied_bytes": copying.copied_bytes,
        "leader_bytes": copying.leader_bytes,
    }


def _copied(document: dict[str, Any]) -> str:
    """In sync is all of it, whatever the sizes: replicas of a compacted log differ in theirs."""
    if document["is_in_sync"]:
        return f"{document['id']}: all"
    copied, of = document["copied_bytes"], document["leader_bytes"]
    if copied is None or not of:
        return f"{document['id']}: ?"
    return f"{document['id']}: {min(100 * copied // of, 99)}%"
