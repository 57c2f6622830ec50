"""``quorate down``: stop a local cluster."""

from __future__ import annotations

import click

from quorate.console.directory_option import directory_option
from quorate.console.session import LocalCommand, Session, pass_session

__all__ = ["down"]


@click.command(cls=LocalCommand)
@directory_option
@pass_session
def down(session: Session, directory: str) -> int:
    """Stop every node of the local cluster in DIR cleanly. Its data stays.

    Exit status 1 if a node had to be killed.
    """
    import asyncio

    from quorate.console.existing_cluster import existing_cluster
    from quorate.console.local_clusters import was_killed
    from quorate.console.output import print_json

    cluster = existing_cluster(directory)
    stopped = [node.name for node in cluster.nodes if node.is_running]
    killed = asyncio.run(cluster.stop())
    cluster.remove_if_temporary()
    if session.json:
        print_json({"dir": cluster.directory, "stopped": stopped, "killed": killed})
    else:
        session.note(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
        for name in killed:
            session.note(f"{name} {was_killed(cluster, name)}")
    return 1 if killed else 0
