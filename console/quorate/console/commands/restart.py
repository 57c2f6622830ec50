"""``quorate restart``: start or restart one node of a local cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.console.directory_option import directory_option
from quorate.console.session import LocalCommand, Session, pass_session

if TYPE_CHECKING:
    from quorate.node.local_cluster import LocalCluster

__all__ = ["restart"]

#: A node that needs nobody else is ready sooner.
_SILENCE_S: Final = 3.0


@click.command(cls=LocalCommand)
@directory_option
@click.argument("name", metavar="NODE")
@pass_session
def restart(session: Session, directory: str, name: str) -> None:
    """Start NODE of the local cluster in DIR, by name or id; stop it first if it runs.

    Returns once it serves. A `quorate up` that watches the cluster goes on watching the new process.
    """
    from quorate.console.advice import AdvisedError
    from quorate.console.existing_cluster import existing_cluster
    from quorate.console.local_clusters import PORT_ADVICE, named_node, node_document
    from quorate.console.output import print_json
    from quorate.errors import CannotListen, Unavailable
    from quorate.node.interruption import run_interruptible

    cluster = existing_cluster(directory)
    name = named_node(cluster, name).name
    try:
        run_interruptible(_restart(session, cluster, name))
    except CannotListen as error:
        raise AdvisedError(error, PORT_ADVICE) from error
    except Unavailable as error:
        advice = _start_the_others(cluster, name) or "its log says why; correct that and run it again"
        raise AdvisedError(error, advice) from error
    node = node_document(cluster.node(name))
    if session.json:
        print_json(node)
    else:
        session.note(f"{name} runs at {node['address']}, pid {node['pid']}")


async def _restart(session: Session, cluster: LocalCluster, name: str) -> None:
    """Whoever waits hears soon what for."""
    import asyncio

    from quorate.node.interruption import telling_of_interruption

    def tell_what_is_waited_for() -> None:
        if cluster.is_running(name):
            others = _start_the_others(cluster, name)
            session.note(
                f"{name} is started, and " + (f"waits for a quorum; {others}" if others else "not ready yet")
            )

    timer = asyncio.get_running_loop().call_later(_SILENCE_S, tell_what_is_waited_for)
    try:
        await telling_of_interruption(
            cluster.restart(name), lambda: session.note(f"interrupted; {name} is not left stopped")
        )
    finally:
        timer.cancel()


def _start_the_others(cluster: LocalCluster, name: str) -> str | None:
    """Those that a quorum may be missing; None: all of them run."""
    stopped = [
        node
        for node in cluster.nodes
        if node.name != name and "controller" in node.roles and not node.is_running
    ]
    if not stopped:
        return None
    # `quorate up` starts none that was stopped by its name.
    is_up_enough = not any(node.is_left_out for node in stopped)
    command = f"quorate {'up' if is_up_enough else 'restart'} --dir {cluster.directory}"
    starts = f"`{command}` starts all" if is_up_enough else f"`{command} NODE` starts one"
    return f"stopped: {', '.join(node.name for node in stopped)}; {starts}"
