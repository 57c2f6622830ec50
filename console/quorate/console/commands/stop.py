"""``quorate stop``: stop one node of a local cluster."""

from __future__ import annotations

import click

from quorate.console.directory_option import directory_option
from quorate.console.session import LocalCommand, Session, pass_session

__all__ = ["stop"]


@click.command(cls=LocalCommand)
@directory_option
@click.argument("name", metavar="NODE")
@pass_session
def stop(session: Session, directory: str, name: str) -> int:
    """Stop NODE of the local cluster in DIR cleanly, by name or id. Its data stays.

    The next `quorate up` leaves it out, as it should with a broker that was decommissioned; `quorate restart`
    starts it again. Exit status 1 if it had to be killed.
    """
    import asyncio

    from quorate.console.existing_cluster import existing_cluster
    from quorate.console.local_clusters import named_node, was_killed
    from quorate.console.output import print_json

    cluster = existing_cluster(directory)
    node = named_node(cluster, name)
    stopped = [node.name] if node.is_running else []
    is_clean = asyncio.run(cluster.stop_one(node.name))
    if session.json:
        killed = [] if is_clean else stopped
        print_json({"dir": cluster.directory, "stopped": stopped, "killed": killed})
    else:
        how = "is stopped" if is_clean else was_killed(cluster, node.name)
        session.note(f"{node.name} {how}; `quorate up` leaves it out, `quorate restart` starts it")
    return 0 if is_clean else 1
