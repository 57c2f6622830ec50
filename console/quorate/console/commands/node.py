"""``quorate node``: run a node, and ask it whether it may stop."""

from __future__ import annotations

import click

from quorate.console.option_types import FiniteRange
from quorate.console.option_values import parse_settings
from quorate.console.session import LocalGroup, Session, pass_session
from quorate.core.plain_structlog import import_plain_structlog

__all__ = ["node"]


@click.group(cls=LocalGroup)
def node() -> None:
    """Run a node, or ask one that runs here."""


def _check_set_options(
    _context: click.Context, _parameter: click.Parameter, options: tuple[str, ...]
) -> tuple[str, ...]:
    parse_settings(options, hint="--set")
    return options  # as texts: the configuration reads them, as it reads those of the environment


_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The node's configuration in TOML; docs/configuration.md lists every key.",
)
_set_option = click.option(
    "--set",
    "set_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_check_set_options,
    help="Set a key; wins over the environment and the file. May be repeated.",
)


@node.command()
@_config_option
@_set_option
def run(config_file: str | None, set_options: tuple[str, ...]) -> int:
    """Run one node in the foreground, as a container runs it.

    Prints `ready: bootstrap=HOST:PORT` once it serves, and logs to stderr; it goes on without either where
    that cannot be written. SIGTERM and Ctrl-C stop it cleanly; it may be killed at any time and recovers at
    the next start.

    \b
    quorate node run --set node.id=1 --set data.dir=/tmp/quorate
    """
    import_plain_structlog()
    from quorate.console.advice import AdvisedError
    from quorate.core.config import load_node_config
    from quorate.errors import StorageFailed
    from quorate.node.process import run_node

    config = load_node_config(config_file, set_options=set_options)
    try:
        return run_node(config)
    except StorageFailed as error:
        raise AdvisedError(
            error, "check that data.dir may be written and that no other node uses it"
        ) from error


@node.command("safe-to-stop")
@_config_option
@_set_option
@click.option(
    "--wait",
    "timeout_s",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Ask again for so long until it is. Default: once.",
)
@pass_session
def safe_to_stop(
    session: Session, *, config_file: str | None, set_options: tuple[str, ...], timeout_s: float
) -> int:
    """Say whether the node with this configuration, which runs here, can stop without anybody noticing.

    For whoever ends it without asking, such as Kubernetes, to be run just before. Exit status 0: yes, 1: no.
    """
    import asyncio

    from quorate.console.output import print_json
    from quorate.console.rolling.before_stop import StoppingNode, wait_until_safe
    from quorate.core.config import load_node_config

    config = load_node_config(config_file, set_options=set_options)
    objections = asyncio.run(wait_until_safe(StoppingNode.of(config), timeout_s))
    if session.json:
        print_json({"id": config.node_id, "is_safe": not objections, "reasons": objections})
    else:
        click.echo("no" if objections else "yes")
        for objection in objections:
            click.echo(f"  {objection}")
    return 1 if objections else 0
