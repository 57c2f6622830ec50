"""Options that the commands of `quorate sim` share."""

from __future__ import annotations

import os

import click

__all__ = ["jobs_option", "parse_seeds_option", "world_option"]

world_option = click.option(
    "--world",
    type=click.Choice(["cluster", "quorum"]),
    default="cluster",
    show_default=True,
    help="Whole clusters with their clients, or the metadata quorum's Raft core alone.",
)

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    help="Processes that share them (default: as many as there are cores).",
)


def parse_seeds_option(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> range | None:
    """``1..20000``, both inclusive."""
    if value is None:
        return None
    from quorate.chaos.campaign.seed_ranges import parse_seed_range

    try:
        return parse_seed_range(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
