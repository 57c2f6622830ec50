"""``quorate cluster``: the cluster as a whole, and the quorum that keeps its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.console.option_types import COUNT, MOVE_RATE, VOTER_ID, FiniteRange
from quorate.console.option_values import check_address
from quorate.console.session import LocalCommand, QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.console.cluster_health import Health
    from quorate.v1 import admin_pb2

__all__ = ["cluster"]


@click.group(cls=QuorateGroup)
def cluster() -> None:
    """Show the cluster and its metadata quorum; change voters and defaults."""


@cluster.command()
@pass_session
def describe(session: Session) -> None:
    """Show brokers, controllers, partitions that are not as they should be, what `alter-config` has set."""
    from quorate.console.cluster_documents import cluster_document, print_cluster
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.console.topic_documents import config_document, print_configs

    async def work(
        connection: ImpatientAdmin,
    ) -> tuple[admin_pb2.DescribeClusterResponse, list[admin_pb2.ConfigEntry]]:
        found = await connection.describe_cluster()
        # Without an active controller nobody knows what holds now, and asking would only take long.
        return found, list((await connection.describe_configs()).configs) if found.HasField(
            "controller"
        ) else []

    found, configs = with_connection(session.bootstrap, work)
    if session.json:
        print_json({**cluster_document(found), "configs": config_document(configs)})
    else:
        print_cluster(found)
        print_configs(configs)


@cluster.command()
@pass_session
def health(session: Session) -> int:
    """Say what is wrong. Exit status 1 if anything is."""
    from quorate.console.advice import advice_on
    from quorate.console.cluster_health import Health, look_at_cluster
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.errors import QuorateError

    try:
        found = with_connection(session.bootstrap, look_at_cluster)
    except QuorateError as error:
        # Nobody who could be asked is an answer too, and scripts want it in the same form.
        advice = advice_on(error)
        found = Health(problems=[f"{error.code}: {error.message}"], next_steps=[advice] if advice else [])
    is_healthy = not found.problems
    if session.json:
        print_json(
            {
                "healthy": is_healthy,
                "problems": found.problems,
                "what_to_do": found.what_to_do,
                "next_steps": found.next_steps,
                "warnings": found.warnings,
                "partitions": found.partitions,
            }
        )
    else:
        _print_health(found)
    return 0 if is_healthy else 1


def _print_health(found: Health) -> None:
    from quorate.console.output import print_table

    if found.problems:
        click.secho("not healthy", fg="red", bold=True)
    else:
        click.secho("healthy", fg="green")
    for problem in found.problems:
        click.echo(f"  problem: {problem}")
    for step in found.next_steps:
        click.echo(f"  what to do: {step}")
    for warning in found.warnings:
        click.echo(f"  warning: {warning}")
    if found.partitions:
        keys = ("topic", "partition", "leader", "replicas", "isr", "elr", "state")
        rows = [[each[key] for key in keys] for each in found.partitions]
        print_table((key.upper() for key in keys), rows)


@cluster.command()
@pass_session
def quorum(session: Session) -> None:
    """Show every voter: how far it is, when it was heard, and whether its metadata equals the leader's."""
    from quorate.console.cluster_documents import print_quorum, quorum_document
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    found = with_connection(session.bootstrap, lambda connection: connection.describe_quorum())
    if session.json:
        print_json(quorum_document(found))
    else:
        print_quorum(found)


@cluster.command("add-voter")
@click.argument("node_id", metavar="ID", type=VOTER_ID)
@click.argument("address", metavar="HOST:PORT", callback=check_address)
@pass_session
def add_voter(session: Session, node_id: int, address: str) -> None:
    """Let the controller ID, which runs at HOST:PORT, vote; it is brought up to date first."""
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    directory = with_connection(session.bootstrap, lambda connection: connection.add_voter(node_id, address))
    if session.json:
        print_json({"id": node_id, "address": address, "directory_id": directory})
    else:
        session.note(f"node {node_id} votes, directory {directory}")


@cluster.command("remove-voter")
@click.argument("node_id", metavar="ID", type=VOTER_ID)
@click.option("--directory", "directory", metavar="UUID", help="Only if its directory has this id.")
@pass_session
def remove_voter(session: Session, node_id: int, directory: str | None) -> None:
    """Take the vote of controller ID away. It may be dead."""
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.errors import VoterChangeRefused

    async def remove(connection: ImpatientAdmin) -> str:
        voters = {voter.node_id: voter.directory_id for voter in (await connection.describe_quorum()).voters}
        found = voters.get(node_id)
        if found is None:
            there_are = ", ".join(str(each) for each in sorted(voters))
            raise VoterChangeRefused(
                f"there is no voter {node_id}; the voters are {there_are}: nothing was changed",
                node_id=node_id,
            )
        if directory not in (None, found):
            raise VoterChangeRefused(
                f"the directory of voter {node_id} is {found}, not {directory}: nothing was changed",
                node_id=node_id,
            )
        # Named by its directory: if the request is sent twice, it cannot hit a voter that came after.
        await connection.remove_voter(node_id, found)
        return found

    removed = with_connection(session.bootstrap, remove)
    if session.json:
        print_json({"id": node_id, "directory_id": removed, "removed": True})
    else:
        session.note(f"node {node_id} votes no more; its directory was {removed}")


@cluster.command("transfer-controller")
@click.argument("node_id", metavar="[ID]", type=VOTER_ID, required=False)
@pass_session
def transfer_controller(session: Session, node_id: int | None) -> None:
    """Make voter ID the active controller; without ID, whichever is furthest."""
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    now = with_connection(session.bootstrap, lambda connection: connection.transfer_controller(node_id))
    if session.json:
        print_json({"controller": now if now >= 0 else None})
    elif now >= 0:
        session.note(f"the active controller is {now}")
    else:
        session.note("leadership was given up; the next controller is not known yet")


@cluster.command("rolling-restart", cls=LocalCommand)
@click.argument("names", metavar="[NODE]…", nargs=-1)
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="A local cluster: where `quorate up` keeps it.",
)
@click.option(
    "--agent",
    "agent_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Any other: the file says how its nodes are stopped and started (examples/drill-agents).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long all may take to be in sync again, after each node.",
)
@click.option(
    "--force", is_flag=True, help="Go on although partitions, or the quorum, will be away meanwhile."
)
@pass_session
def rolling_restart(
    session: Session,
    *,
    names: tuple[str, ...],
    directory: str | None,
    agent_file: str | None,
    timeout_s: float,
    force: bool,
) -> None:
    """Restart every node (or those named), one at a time, each when all are in sync again.

    Refuses to begin unless the cluster is healthy, and to go on where a partition, or the quorum, would be
    unavailable meanwhile. Controllers first, the active one last.
    """
    if (directory is None) == (agent_file is None):
        raise click.UsageError("say where the nodes are: either --dir, or --agent")
    from quorate.console.rolling.command import restart_in_turn

    restart_in_turn(
        session,
        names,
        directory=directory,
        agent_file=agent_file,
        timeout_s=timeout_s,
        is_forced=force,
    )


@cluster.command()
@click.option("--execute", is_flag=True, help="Do it; else the plan is shown, and nothing is changed.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated. Default: all.")
@click.option(
    "--at-a-time",
    type=COUNT,
    default=5,
    show_default=True,
    metavar="N",
    help="How many partitions move at the same time.",
)
@click.option(
    "--throttle",
    type=MOVE_RATE,
    metavar="BYTES/S",
    help="Let no broker fetch what is moved to it faster than this (10MiB, say); lifted when it is done.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait no longer than this: moves under way go on, the rest is not begun. Default: until it is done.",
)
@pass_session
def rebalance(
    session: Session,
    *,
    execute: bool,
    topics: tuple[str, ...],
    at_a_time: int,
    throttle: str | None,
    timeout_s: float | None,
) -> None:
    """Propose a more even placement of replicas and leaders; with --execute, move them there.

    Brokers that were added get their share; racks stay as far apart as they are, or get further. Run it
    again at any time: it goes on from what there is.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.rebalancing.command import Rebalance, RebalanceOptions

    options = RebalanceOptions(
        execute=execute, topics=topics, at_a_time=at_a_time, throttle=throttle, timeout_s=timeout_s
    )
    with_connection(session.bootstrap, Rebalance(session, options).run)


@cluster.command("raise-feature-level")
@click.argument("level", metavar="[LEVEL]", type=COUNT, required=False)
@pass_session
def raise_feature_level(session: Session, level: int | None) -> None:
    """Let the metadata contain what came with newer software; it cannot be taken back.

    Without LEVEL: to the highest that every node supports.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    in_force = with_connection(
        session.bootstrap, lambda connection: connection.update_feature_level(level or 0)
    )
    if session.json:
        print_json({"feature_level": in_force})
    else:
        session.note(f"the feature level is {in_force}")


@cluster.command("alter-config")
@click.argument("settings", metavar="[KEY=VALUE]…", nargs=-1)
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="The same as an option; may be repeated."
)
@click.option(
    "--delete-config", "removed", metavar="KEY", multiple=True, help="Back to the default; may be repeated."
)
@pass_session
def alter_config(
    session: Session, settings: tuple[str, ...], configs: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    """Change what holds for every topic that has no value of its own.

    Warns of topics that can then spare none of their brokers.
    """
    if not settings and not configs and not removed:
        raise click.UsageError("nothing to change: give KEY=VALUE or --delete-config")
    from quorate.console.config_changes import alter_cluster_configs, config_changes
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.console.topic_documents import config_document, print_configs
    from quorate.v1 import admin_pb2

    request = admin_pb2.AlterConfigsRequest(changes=config_changes([*settings, *configs], removed))
    in_force, warnings = with_connection(
        session.bootstrap, lambda connection: alter_cluster_configs(connection, request)
    )
    for warning in warnings:
        session.note(f"warning: {warning}")
    if session.json:
        print_json({"configs": config_document(in_force)})
    else:
        # Also those that are at their default now: it tells what a deletion has led to.
        print_configs(in_force, also=removed)
