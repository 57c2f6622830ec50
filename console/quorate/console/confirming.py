"""Asking before something that cannot be undone."""

from __future__ import annotations

import sys

import click

from quorate.console.output import CodedError

__all__ = ["NotConfirmed", "confirm"]


class NotConfirmed(CodedError):
    """Somebody was asked, and said no."""

    code = "NOT_CONFIRMED"


def confirm(warning: str, question: str, *, otherwise: str, yes: bool) -> None:
    """Returns if it may be done. ``otherwise``: what a no means. Who cannot be asked has to give --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning} Nobody is there to confirm it: give --yes if it is meant.")
    click.secho(warning, fg="red", bold=True, err=True)
    if not click.confirm(question, err=True):
        raise NotConfirmed(otherwise)
