"""``quorate topic``: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from quorate.console.option_types import COUNT, FiniteRange
from quorate.console.option_values import parse_replicas, parse_settings
from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["topic"]

_WITH_LOAD: Final = ("interval_s", "keys", "records")
_DEFAULT: Final = ParameterSource.DEFAULT


@click.group(cls=QuorateGroup)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("name")
@click.option("--partitions", type=COUNT, help="How many; else the broker's num.partitions.")
@click.option(
    "--replication-factor", type=COUNT, help="Copies of each partition; default: the cluster's, 3 as a rule."
)
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic setting; may be repeated."
)
@click.option(
    "--assignment",
    metavar="ID:ID:…[,ID:ID:…]",
    help="Replicas of each partition by hand, the preferred leader first: 1:2:3,2:3:1 for two partitions.",
)
@pass_session
def create(
    session: Session,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    assignment: str | None,
) -> None:
    """Create a topic called NAME."""
    from quorate.console.connecting import with_connection
    from quorate.console.topic_documents import print_topics
    from quorate.v1 import admin_pb2

    request = admin_pb2.CreateTopicRequest(
        name=name,
        partition_count=partitions,
        replication_factor=replication_factor,
        configs=parse_settings(configs),
        assignments=_parse_assignment(assignment),
    )
    created = with_connection(session.bootstrap, lambda connection: connection.create_topic(request))
    _warn(session, created)
    if session.json:
        print_topics([created], session)
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
@click.option(
    "--load",
    is_flag=True,
    help="What is written to each partition now, how uneven that is, and the heaviest keys.",
)
@click.option(
    "--interval",
    "interval_s",
    type=FiniteRange(min=0.1, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --load: how long to look.",
)
@click.option(
    "--keys", type=COUNT, default=10, show_default=True, metavar="N", help="With --load: how many to show."
)
@click.option(
    "--sample",
    "records",
    type=COUNT,
    default=10_000,
    show_default=True,
    metavar="N",
    help="With --load: records of each partition to read for the keys, the newest.",
)
@click.pass_context
@pass_session
def describe(
    session: Session,
    context: click.Context,
    /,
    *,
    name: str | None,
    load: bool,
    interval_s: float,
    keys: int,
    records: int,
) -> None:
    """Show all about a topic, or about every topic: settings, leaders, replicas, offsets, sizes.

    With --load: bytes and records per second of each partition, and the keys that weigh most.
    """
    if load:
        _describe_load(session, name, interval_s=interval_s, keys=keys, records=records)
        return
    _refuse_what_goes_with_load(context)
    from quorate.console.connecting import with_connection
    from quorate.console.topic_documents import print_topics

    async def collect(connection: ImpatientAdmin) -> list[admin_pb2.TopicDescription]:
        names = [name] if name is not None else [each.name for each in await connection.list_topics()]
        return [await connection.describe_topic(each) for each in names]

    print_topics(with_connection(session.bootstrap, collect), session)


def _refuse_what_goes_with_load(context: click.Context) -> None:
    """Taken and not used, it would look as if it had been."""
    for parameter in context.command.params:
        if parameter.name in _WITH_LOAD and context.get_parameter_source(parameter.name) is not _DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} goes with --load")


def _describe_load(session: Session, name: str | None, *, interval_s: float, keys: int, records: int) -> None:
    if name is None:
        raise click.UsageError("--load is about one topic: name it")
    from quorate.console.connecting import with_clients
    from quorate.console.loads.command import LoadOptions, show_load

    options = LoadOptions(interval_s=interval_s, keys=keys, records=records)
    with_clients(session.bootstrap, lambda clients: show_load(clients, session, name, options))


@topic.command()
@click.argument("name")
@click.option("--partitions", type=COUNT, help="How many in all; there can only be more.")
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="Set a setting; may be repeated."
)
@click.option(
    "--delete-config", "removed", metavar="KEY", multiple=True, help="Back to the default; may be repeated."
)
@pass_session
def alter(
    session: Session, name: str, partitions: int | None, configs: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    """Change settings of the topic NAME, or give it more partitions.

    Everything is checked before anything is changed. Records with a key go to other partitions once there
    are more of them.
    """
    if partitions is None and not configs and not removed:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")
    from quorate.console.config_changes import config_changes
    from quorate.console.connecting import with_connection
    from quorate.console.topic_documents import print_topics
    from quorate.v1 import admin_pb2

    changes = config_changes(configs, removed)

    async def change(connection: ImpatientAdmin) -> admin_pb2.TopicDescription:
        for validate_only in (True, False):
            if changes:
                await connection.alter_configs(
                    admin_pb2.AlterConfigsRequest(topic=name, changes=changes, validate_only=validate_only)
                )
            if partitions is not None:
                await connection.create_partitions(
                    admin_pb2.CreatePartitionsRequest(
                        name=name, partition_count=partitions, validate_only=validate_only
                    )
                )
        return await connection.describe_topic(name)

    altered = with_connection(session.bootstrap, change)
    _warn(session, altered)
    if session.json:
        print_topics([altered], session)
    else:
        session.note(f"altered {altered.name}: {len(altered.partitions)} partition(s)")


@topic.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:  # noqa: FBT001  # click calls it
    """Delete the topic NAME and its records.

    Its name is free at once; the data goes from the disks after a delay.
    """
    from quorate.console.confirming import confirm
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    # By id: between the question and the answer somebody may have made another topic of that name.
    found = with_connection(session.bootstrap, lambda connection: connection.describe_topic(name))
    confirm(
        f"{name} has {len(found.partitions)} partition(s), id {found.topic_id}. "
        "All of its records will be gone.",
        f"Delete {name}?",
        otherwise=f"{name} was not deleted",
        yes=yes,
    )
    with_connection(session.bootstrap, lambda connection: connection.delete_topic(found.topic_id))
    if session.json:
        print_json({"name": name, "topic_id": found.topic_id})
    else:
        session.note(f"deleted {name}, id {found.topic_id}")


def _warn(session: Session, changed: admin_pb2.TopicDescription) -> None:
    from quorate.console.headroom import own_min_isr_warning

    if (warning := own_min_isr_warning(changed)) is not None:
        session.note(f"warning: {warning}")


def _parse_assignment(text: str | None) -> list[admin_pb2.ReplicaAssignment]:
    from quorate.v1 import admin_pb2

    if text is None:
        return []
    return [
        admin_pb2.ReplicaAssignment(
            partition=number, replicas=parse_replicas(part, separator=":", hint="--assignment")
        )
        for number, part in enumerate(text.split(","))
    ]
