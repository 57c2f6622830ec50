"""What ``--config`` and ``--delete-config`` ask for, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from quorate.console.described_topics import describe_topics
from quorate.console.headroom import headroom_warning
from quorate.console.option_values import parse_settings
from quorate.core.config.topic import MIN_INSYNC_REPLICAS
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin

__all__ = ["alter_cluster_configs", "config_changes"]


def config_changes(configs: Iterable[str], removed: Iterable[str]) -> list[admin_pb2.ConfigChange]:
    wanted = parse_settings(configs)
    unwanted = sorted(set(removed))
    for key in unwanted:
        if key in wanted:
            raise click.BadParameter(f"{key} is set and deleted at once", param_hint="--delete-config")
    return [
        *(admin_pb2.ConfigChange(name=key, value=value) for key, value in wanted.items()),
        *(admin_pb2.ConfigChange(name=key) for key in unwanted),
    ]


async def alter_cluster_configs(
    connection: ImpatientAdmin, request: admin_pb2.AlterConfigsRequest
) -> tuple[list[admin_pb2.ConfigEntry], list[str]]:
    """What is in force then, and what to be warned of."""
    in_force = list(await connection.alter_configs(request))
    if all(change.name != MIN_INSYNC_REPLICAS for change in request.changes):
        return in_force, []
    described = await describe_topics(connection)
    return in_force, [each for each in (headroom_warning(described.topics), described.left_out) if each]
