"""What ``--config`` and ``--delete-config`` ask for."""

from __future__ import annotations

from collections.abc import Iterable

import click

from quorate.console.option_values import parse_settings
from quorate.v1 import admin_pb2

__all__ = ["config_changes"]


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
