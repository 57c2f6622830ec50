"""What every command shares: the global options, and the command class that repeats them.

``quorate --output json topic list`` and ``quorate topic list --output json`` mean the same: people put
options last, scripts put them first. So each command takes the global options too, and what stands
nearer to the command wins.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import click

from quorate.console.option_types import TEXT

__all__ = [
    "DEFAULT_BOOTSTRAP",
    "LocalCommand",
    "LocalGroup",
    "QuorateCommand",
    "QuorateGroup",
    "Session",
    "pass_session",
]

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


@dataclass
class Session:
    """The global options as given so far."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    output: Literal["table", "json"] = "table"
    quiet: bool = False
    #: which of these somebody has said: a file may say otherwise where nobody has
    given: set[str] = field(default_factory=set)

    @property
    def json(self) -> bool:
        return self.output == "json"

    def note(self, text: str) -> None:
        """Something worth knowing beside the result; on stderr, so that it never mixes with output."""
        if not self.quiet:
            click.echo(text, err=True)

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and not self.json and sys.stderr.isatty()


pass_session: Final = click.make_pass_decorator(Session, ensure=True)


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    # Not given: what was said nearer to the program's name stays.
    if value not in (None, False):
        assert parameter.name is not None
        session = context.ensure_object(Session)
        setattr(session, parameter.name, value)
        session.given.add(parameter.name)


def _global_options(*, environment: bool = False, asks_cluster: bool = True) -> list[click.Parameter]:
    """``environment``: for the program itself only, or a variable would win over ``quorate --bootstrap``.

    ``asks_cluster``: whether --bootstrap means anything; where it does not, it is taken and not shown.
    """
    return [
        click.Option(
            ["--bootstrap"],
            metavar="HOST:PORT[,…]",
            expose_value=False,
            envvar="QUORATE_BOOTSTRAP" if environment else None,
            callback=_remember,
            hidden=not asks_cluster,
            help=f"Where the cluster is (or QUORATE_BOOTSTRAP; default {DEFAULT_BOOTSTRAP}).",
        ),
        click.Option(
            ["--output"],
            type=click.Choice(["table", "json"]),
            expose_value=False,
            callback=_remember,
            help="For people (default), or one JSON document with stable keys.",
        ),
        click.Option(
            ["--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Print results only: no progress, no remarks.",
        ),
    ]


class QuorateCommand(click.Command):
    """A command that also takes the global options."""

    asks_cluster: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _global_options(asks_cluster=self.asks_cluster)
        _take_text_only(self.params)


class LocalCommand(QuorateCommand):
    """One that asks no cluster, or finds it by itself."""

    asks_cluster = False


class QuorateGroup(click.Group):
    """A group of such commands."""

    command_class: type[QuorateCommand] = QuorateCommand

    def __init__(self, *args: Any, environment: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asks_cluster = self.command_class.asks_cluster
        self.params += _global_options(environment=environment, asks_cluster=asks_cluster)
        _take_text_only(self.params)


class LocalGroup(QuorateGroup):
    command_class = LocalCommand


def _take_text_only(parameters: list[click.Parameter]) -> None:
    """Paths are left out: they need not be UTF-8, and are not sent anywhere."""
    for parameter in parameters:
        if parameter.type is click.STRING:
            parameter.type = TEXT
