"""``quorate topic``: create, list and describe topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.client.connection import Connection
    from quorate.v1 import admin_pb2

__all__ = ["topic"]

#: key of a partition's document -> heading of its column
_COLUMNS: Final = {
    "partition": "PARTITION",
    "leader": "LEADER",
    "leader_epoch": "EPOCH",
    "replicas": "REPLICAS",
    "isr": "ISR",
    "log_start_offset": "START",
    "high_watermark": "HIGH WATERMARK",
    "size_bytes": "BYTES",
    "error": "STATE",
}


@click.group(cls=QuorateGroup)
def topic() -> None:
    """Create, list and describe topics."""


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="How many; else the broker's num.partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Copies of each partition.")
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic setting; may be repeated."
)
@pass_session
def create(
    session: Session,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
) -> None:
    """Create a topic called NAME."""
    from quorate.console.connecting import with_connection
    from quorate.v1 import admin_pb2

    request = admin_pb2.CreateTopicRequest(
        name=name,
        partition_count=partitions,
        replication_factor=replication_factor,
        configs=_parse_configs(configs),
    )
    created = with_connection(session.bootstrap, lambda connection: connection.create_topic(request))
    if session.json:
        _print_descriptions([created], session)
    else:
        session.note(
            f"created {created.name} with {len(created.partitions)} partition(s), id {created.topic_id}"
        )


@topic.command("list")
@pass_session
def list_topics(session: Session) -> None:
    """Name every topic."""
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json, print_table

    topics = with_connection(session.bootstrap, lambda connection: connection.list_topics())
    rows = [(each.name, each.partition_count, each.replication_factor, each.topic_id) for each in topics]
    if session.json:
        keys = ("name", "partition_count", "replication_factor", "topic_id")
        print_json({"topics": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        print_table(("NAME", "PARTITIONS", "REPLICATION", "ID"), rows)


@topic.command()
@click.argument("name", required=False)
@pass_session
def describe(session: Session, name: str | None) -> None:
    """Show all about a topic, or about every topic: settings, leaders, replicas, offsets, sizes."""
    from quorate.console.connecting import with_connection

    async def collect(connection: Connection) -> list[admin_pb2.TopicDescription]:
        names = [name] if name is not None else [each.name for each in await connection.list_topics()]
        return [await connection.describe_topic(each) for each in names]

    _print_descriptions(with_connection(session.bootstrap, collect), session)


def _parse_configs(configs: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for text in configs:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--config")
        parsed[key] = value
    return parsed


def _print_descriptions(topics: list[admin_pb2.TopicDescription], session: Session) -> None:
    from quorate.console.output import print_json

    if session.json:
        print_json({"topics": [_document(each) for each in topics]})
        return
    for index, each in enumerate(topics):
        if index > 0:
            click.echo()
        _print_description(each)


def _document(description: admin_pb2.TopicDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "topic_id": description.topic_id,
        "replication_factor": description.replication_factor,
        "configs": {
            entry.name: {"value": entry.value, "source": _source(entry)} for entry in description.configs
        },
        "partitions": [_partition_document(each) for each in description.partitions],
    }


def _source(entry: admin_pb2.ConfigEntry) -> str:
    from quorate.v1 import admin_pb2

    if entry.source not in admin_pb2.ConfigSource.values():
        return "unknown"  # a newer broker's
    return admin_pb2.ConfigSource.Name(entry.source).removeprefix("CONFIG_SOURCE_").lower()


def _partition_document(partition: admin_pb2.PartitionDescription) -> dict[str, Any]:
    error = partition.error
    return {
        "partition": partition.partition,
        "leader": partition.leader if partition.HasField("leader") else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "log_start_offset": partition.log_start_offset if partition.HasField("log_start_offset") else None,
        "high_watermark": partition.high_watermark if partition.HasField("high_watermark") else None,
        "size_bytes": partition.size_bytes if partition.HasField("size_bytes") else None,
        "error": {"code": error.code, "message": error.message} if partition.HasField("error") else None,
    }


def _print_description(description: admin_pb2.TopicDescription) -> None:
    from quorate.console.output import print_table

    click.echo(
        f"topic {description.name}  id {description.topic_id}  replication {description.replication_factor}"
    )
    changed = [entry for entry in description.configs if _source(entry) != "default"]
    for entry in changed:
        click.echo(f"  {entry.name}={entry.value} ({_source(entry)})")
    documents = [_partition_document(each) for each in description.partitions]
    print_table(_COLUMNS.values(), [_row(document) for document in documents])
    for document in documents:
        if document["error"]:
            click.echo(f"partition {document['partition']}: {document['error']['message']}")


def _row(document: dict[str, Any]) -> list[object]:
    state = document["error"]["code"] if document["error"] else "ok"
    return [_cell(document[key]) for key in list(_COLUMNS)[:-1]] + [state]


def _cell(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value
