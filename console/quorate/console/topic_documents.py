"""How topics are shown, and in which state each of their partitions is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import click

from quorate.client.admin.answers import config_source_name
from quorate.console.output import print_json, print_table
from quorate.console.session import Session
from quorate.v1 import admin_pb2

__all__ = [
    "config_document",
    "partition_documents",
    "print_configs",
    "print_topics",
    "topic_document",
]

_MIN_ISR: Final = "min.insync.replicas"

#: key of a partition's document -> heading of its column
_COLUMNS: Final = {
    "partition": "PARTITION",
    "leader": "LEADER",
    "leader_epoch": "EPOCH",
    "replicas": "REPLICAS",
    "isr": "ISR",
    "elr": "ELR",
    "log_start_offset": "START",
    "high_watermark": "HIGH WATERMARK",
    "size_bytes": "BYTES",
    "state": "STATE",
}


def print_topics(topics: Sequence[admin_pb2.TopicDescription], session: Session) -> None:
    if session.json:
        print_json({"topics": [topic_document(each) for each in topics]})
        return
    for index, each in enumerate(topics):
        if index > 0:
            click.echo()
        _print_topic(each)


def topic_document(description: admin_pb2.TopicDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "topic_id": description.topic_id,
        "replication_factor": description.replication_factor,
        "configs": config_document(description.configs),
        "partitions": partition_documents(description),
    }


def partition_documents(description: admin_pb2.TopicDescription) -> list[dict[str, Any]]:
    """With a ``state``, the worst that can be said of the partition: "ok" is the best."""
    told = {entry.name: entry.value for entry in description.configs}
    min_isr = int(told.get(_MIN_ISR, 1))
    documents = [_partition_document(each) for each in description.partitions]
    return [{**document, "state": _state(document, min_isr)} for document in documents]


def config_document(configs: Iterable[admin_pb2.ConfigEntry]) -> dict[str, Any]:
    return {
        entry.name: {"value": entry.value, "source": config_source_name(entry.source)} for entry in configs
    }


def print_configs(configs: Iterable[admin_pb2.ConfigEntry], *, also: Collection[str] = ()) -> None:
    """Those that somebody has set, and ``also`` these."""
    for entry in configs:
        if entry.source != admin_pb2.CONFIG_SOURCE_DEFAULT or entry.name in also:
            click.echo(f"  {entry.name}={entry.value} ({config_source_name(entry.source)})")


def _partition_document(partition: admin_pb2.PartitionDescription) -> dict[str, Any]:
    error = partition.error
    return {
        "partition": partition.partition,
        "leader": partition.leader if partition.HasField("leader") else None,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.elr),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "is_recovering": partition.is_recovering,
        "is_sync_pending": partition.is_sync_pending,
        "may_lack_records": partition.may_lack_records,
        "log_start_offset": partition.log_start_offset if partition.HasField("log_start_offset") else None,
        "high_watermark": partition.high_watermark if partition.HasField("high_watermark") else None,
        "size_bytes": partition.size_bytes if partition.HasField("size_bytes") else None,
        "error": {"code": error.code, "message": error.message} if partition.HasField("error") else None,
    }


def _print_topic(description: admin_pb2.TopicDescription) -> None:
    click.echo(
        f"topic {description.name}  id {description.topic_id}  replication {description.replication_factor}"
    )
    print_configs(description.configs)
    documents = partition_documents(description)
    print_table(_COLUMNS.values(), [[each[key] for key in _COLUMNS] for each in documents])
    for document in documents:
        if document["error"]:
            click.echo(f"partition {document['partition']}: {document['error']['message']}")


def _state(document: dict[str, Any], min_isr: int) -> str:
    if document["error"]:
        return str(document["error"]["code"])
    if document["leader"] is None:
        return "offline"
    in_sync = len(document["isr"])
    # What a move adds does not count until it is there.
    wanted = len(document["replicas"]) - len(document["adding_replicas"])
    if in_sync < min(min_isr, wanted):
        return "under min.insync.replicas"
    if document["is_recovering"]:
        return "recovering"
    if document["is_sync_pending"]:
        return "not synced yet"
    if set(document["replicas"]) - set(document["adding_replicas"]) - set(document["isr"]):
        return "under-replicated"
    moves = [("+", document["adding_replicas"]), ("-", document["removing_replicas"])]
    changes = [f"{sign}{','.join(map(str, replicas))}" for sign, replicas in moves if replicas]
    if changes:
        return f"moving {' '.join(changes)}"
    return "ok"
