"""The options of commands that wait until something has come to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from quorate.console.option_types import FiniteRange

__all__ = ["waiting_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def waiting_options(command: Command) -> Command:
    """``--no-wait`` and ``--timeout``."""
    command = click.option("--no-wait", is_flag=True, help="Return once it is under way.")(command)
    return click.option(
        "--timeout",
        "timeout_s",
        type=FiniteRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Wait no longer than this; it goes on all the same. Default: until it is done.",
    )(command)
