"""``quorate node``: run a node."""

from __future__ import annotations

import click

from quorate.console.session import QuorateGroup

__all__ = ["node"]


@click.group(cls=QuorateGroup)
def node() -> None:
    """Run a node."""


@node.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The node's configuration in TOML; docs/configuration.md lists every key.",
)
@click.option(
    "--set",
    "set_options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key; wins over the environment and the file. May be repeated.",
)
def run(config_file: str | None, set_options: tuple[str, ...]) -> int:
    """Run one node in the foreground, as a container runs it.

    Prints `ready: bootstrap=HOST:PORT` once it serves, and logs to stderr. SIGTERM and Ctrl-C stop it
    cleanly; it may be killed at any time and recovers at the next start.

    \b
    quorate node run --set node.id=1 --set data.dir=/tmp/quorate
    """
    from quorate.core.config import load_node_config
    from quorate.node.process import run_node

    return run_node(load_node_config(config_file, set_options=set_options))
