"""The checkout whose docs/evidence a command records to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["source_checkout"]


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
