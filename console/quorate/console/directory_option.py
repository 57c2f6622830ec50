"""``--dir DIR`` of a local cluster that exists."""

from __future__ import annotations

import click

__all__ = ["directory_option"]

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    required=True,
    help="Where `quorate up` keeps the cluster.",
)
