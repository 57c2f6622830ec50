"""Options that the commands of `quorate sim` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["parse_seeds_option", "source_checkout", "world_option"]

world_option = click.option(
    "--world",
    type=click.Choice(["cluster", "quorum"]),
    default="cluster",
    show_default=True,
    help="Whole clusters with their clients, or the metadata quorum's Raft core alone.",
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


def source_checkout() -> Path:
    """Evidence is kept beside the sources that it is about."""
    from quorate.chaos.evidence.checkout import find_checkout

    root = find_checkout()
    if root is None:
        raise click.ClickException(
            "evidence is about sources and kept beside them, in docs/evidence, and this quorate does not run "
            "from a source checkout"
        )
    return root
