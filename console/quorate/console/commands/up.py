"""``quorate up``: a local cluster of real processes."""

from __future__ import annotations

import click
from click.core import ParameterSource

from quorate.console.option_types import LOCAL_BROKERS
from quorate.console.option_values import settings_option
from quorate.console.session import LocalCommand, Session, pass_session
from quorate.core.plain_structlog import import_plain_structlog

__all__ = ["up"]

#: what a cluster that exists was made with, and keeps
_LAYOUT_OPTIONS = ("controllers", "brokers", "combined", "port")


@click.command(cls=LocalCommand)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where it lives; running it again there goes on. Default: a temporary one, removed at the end.",
)
@click.option("--controllers", type=click.IntRange(1, 9), default=3, show_default=True, metavar="N")
@click.option(
    "--brokers",
    type=LOCAL_BROKERS,
    default=3,
    show_default=True,
    metavar="N",
    help="Nodes that keep records. More than a cluster has: they are added.",
)
@click.option(
    "--combined",
    is_flag=True,
    help="No controllers of their own: the first three brokers (five, where there are as many) vote, too.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9092,
    show_default=True,
    help="Of the first node; the others follow. 0: any that are free.",
)
@click.option("--detach", is_flag=True, help="Return once it is ready, and leave it running.")
@click.option("--restart", "restarts", is_flag=True, help="Start a node that dies again, after a pause.")
@settings_option
@click.pass_context
@pass_session
def up(
    session: Session,
    context: click.Context,
    *,
    directory: str | None,
    controllers: int,
    brokers: int,
    combined: bool,
    port: int,
    detach: bool,
    restarts: bool,
    settings: dict[str, str],
) -> int:
    """Run a local cluster of real processes.

    Prints `ready: bootstrap=…` once every broker serves, and stays until Ctrl-C, which stops every node. A
    node that dies is reported and left alone, unless --restart is given. DIR/cluster.json names every node.
    """
    if detach and restarts:
        raise click.UsageError("--restart needs somebody who stays: not with --detach")
    import_plain_structlog()
    from quorate.console.local_clusters import UpOptions, bring_up

    sources = {name: context.get_parameter_source(name) for name in _LAYOUT_OPTIONS}
    given = frozenset(name for name, source in sources.items() if source is not ParameterSource.DEFAULT)
    if combined and "controllers" in given:
        raise click.UsageError("--combined: the brokers are the controllers; leave --controllers out")
    options = UpOptions(
        directory=directory,
        controllers=controllers,
        brokers=brokers,
        is_combined=combined,
        port=port,
        settings=settings,
        given=given,
        detach=detach,
        restarts=restarts,
    )
    return bring_up(session, options)
