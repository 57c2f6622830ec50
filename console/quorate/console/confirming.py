"""Asking before something that cannot be undone."""

from __future__ import annotations

import sys

import click

__all__ = ["confirm"]


def confirm(warning: str, question: str, *, yes: bool) -> None:
    """Returns if it may be done. Whoever cannot be asked has to say so with --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning} Nobody is there to confirm it: give --yes if it is meant.")
    click.secho(warning, fg="red", bold=True, err=True)
    click.confirm(question, abort=True, err=True)
