"""``quorate up``: a local cluster of real processes."""

from __future__ import annotations

import click
from click.core import ParameterSource

from quorate.console.option_values import settings_option
from quorate.console.session import QuorateCommand, Session, pass_session

__all__ = ["up"]


@click.command(cls=QuorateCommand)
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
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Only 0 for now: brokers join the quorum in a later version.",
)
@click.option("--combined", is_flag=True, help="Nodes that are controllers and brokers; in a later version.")
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

    Prints `ready: bootstrap=…` once a controller is active, and stays until Ctrl-C, which stops every node. A
    node that dies is reported and left alone, unless --restart is given. DIR/cluster.json names every node.
    """
    if detach and restarts:
        raise click.UsageError("--restart needs somebody who stays: not with --detach")
    from quorate.console.advice import AdvisedError
    from quorate.console.local_clusters import UpOptions, bring_up
    from quorate.errors import UnsupportedOperation

    if combined:
        refusal = UnsupportedOperation(
            "--combined: a node that is both controller and broker is not there in this version; "
            "run the controllers alone with --brokers 0"
        )
        raise AdvisedError(refusal, "")
    sources = {name: context.get_parameter_source(name) for name in ("controllers", "brokers", "port")}
    given = frozenset(name for name, source in sources.items() if source is not ParameterSource.DEFAULT)
    options = UpOptions(
        directory=directory,
        controllers=controllers,
        brokers=brokers,
        port=port,
        settings=settings,
        given=given,
        detach=detach,
        restarts=restarts,
    )
    return bring_up(session, options)
