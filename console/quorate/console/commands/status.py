"""``quorate status``: what runs of a local cluster."""

from __future__ import annotations

import click

from quorate.console.directory_option import directory_option
from quorate.console.session import LocalCommand, Session, pass_session

__all__ = ["status"]


@click.command(cls=LocalCommand)
@directory_option
@pass_session
def status(session: Session, directory: str) -> None:
    """Show which nodes of the local cluster in DIR run.

    About processes only; `quorate cluster health` asks the cluster itself.
    """
    from quorate.console.existing_cluster import existing_cluster
    from quorate.console.local_clusters import node_document
    from quorate.console.output import print_json, print_table

    cluster = existing_cluster(directory)
    nodes = [node_document(node) for node in cluster.nodes]
    if session.json:
        print_json({"dir": cluster.directory, "bootstrap": cluster.bootstrap, "nodes": nodes})
        return
    click.echo(f"bootstrap {cluster.bootstrap}")
    keys = ("name", "id", "roles", "state", "pid", "address", "metrics_address", "log_file")
    rows = [[node[key] for key in keys] for node in nodes]
    print_table(("NAME", "ID", "ROLES", "STATE", "PID", "ADDRESS", "METRICS", "LOG"), rows)
