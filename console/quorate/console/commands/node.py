"""``quorate node``: run a node."""

from __future__ import annotations

import click

from quorate.console.option_values import parse_settings
from quorate.console.plain_structlog import import_plain_structlog
from quorate.console.session import LocalGroup

__all__ = ["node"]


@click.group(cls=LocalGroup)
def node() -> None:
    """Run a node."""


def _check_set_options(
    _context: click.Context, _parameter: click.Parameter, options: tuple[str, ...]
) -> tuple[str, ...]:
    parse_settings(options, hint="--set")
    return options  # as texts: the configuration reads them, as it reads those of the environment


@node.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The node's configuration in TOML; docs/configuration.md lists every key.",
)
@click.option(
    "--set",
    "set_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_check_set_options,
    help="Set a key; wins over the environment and the file. May be repeated.",
)
def run(config_file: str | None, set_options: tuple[str, ...]) -> int:
    """Run one node in the foreground, as a container runs it.

    Prints `ready: bootstrap=HOST:PORT` once it serves, and logs to stderr. SIGTERM and Ctrl-C stop it
    cleanly; it may be killed at any time and recovers at the next start.

    \b
    quorate node run --set node.id=1 --set data.dir=/tmp/quorate
    """
    import_plain_structlog()
    from quorate.console.advice import AdvisedError
    from quorate.console.output import CannotWriteOutput, forget_standard_output
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
    except BrokenPipeError as error:
        # A node that ends because nobody heard that it was ready has not done what it was started for.
        forget_standard_output()
        raise CannotWriteOutput(error) from error
