"""``quorate restart``: start or restart one node of a local cluster."""

from __future__ import annotations

import click

from quorate.console.directory_option import directory_option
from quorate.console.session import QuorateCommand, Session, pass_session

__all__ = ["restart"]


@click.command(cls=QuorateCommand)
@directory_option
@click.argument("name", metavar="NODE")
@pass_session
def restart(session: Session, directory: str, name: str) -> None:
    """Start NODE of the local cluster in DIR, by name or id; stop it first if it runs.

    Returns once it serves. A `quorate up` that watches the cluster goes on watching the new process.
    """
    import asyncio

    from quorate.console.advice import AdvisedError
    from quorate.console.local_clusters import PORT_ADVICE, node_document
    from quorate.console.output import print_json
    from quorate.errors import CannotListen, Unavailable
    from quorate.node.local_cluster import LocalCluster

    cluster = LocalCluster(directory)
    name = {str(node.id): node.name for node in cluster.nodes}.get(name, name)
    try:
        asyncio.run(cluster.restart(name))
    except CannotListen as error:
        raise AdvisedError(error, PORT_ADVICE) from error
    except Unavailable as error:
        raise AdvisedError(error, "its log says why; correct that and run it again") from error
    node = node_document(cluster.node(name))
    if session.json:
        print_json(node)
    else:
        session.note(f"{name} runs at {node['address']}, pid {node['pid']}")
