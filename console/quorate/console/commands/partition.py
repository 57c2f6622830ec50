"""``quorate partition``: leaders, moves, and the last resort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quorate.console.option_types import MOVE_RATE, NUMBER
from quorate.console.option_values import parse_partition, parse_replicas
from quorate.console.session import QuorateGroup, Session, pass_session
from quorate.console.waiting_options import waiting_options

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["partition"]


@click.group(cls=QuorateGroup)
def partition() -> None:
    """Move leaders and replicas; recover a partition by hand."""


@partition.command()
@click.argument("names", metavar="[TOPIC[:PARTITION]]…", nargs=-1)
@pass_session
def elect(session: Session, names: tuple[str, ...]) -> int:
    """Move leaders back to the preferred replicas: of these partitions, or of all.

    Exit status 1 if some could not be moved.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.v1 import admin_pb2

    async def work(connection: ImpatientAdmin) -> admin_pb2.ElectPreferredLeadersResponse:
        chosen = [each for name in names for each in await _partitions(connection, name)]
        request = admin_pb2.ElectPreferredLeadersRequest(partitions=chosen)
        return await connection.elect_preferred_leaders(request)

    answer = with_connection(session.bootstrap, work)
    if session.json:
        print_json(
            {
                "moved": [_name_document(each) for each in answer.moved],
                "refused": [
                    {
                        **_name_document(each.partition),
                        "error": {"code": each.error.code, "message": each.error.message},
                    }
                    for each in answer.refused
                ],
            }
        )
    else:
        for moved in answer.moved:
            click.echo(f"moved {_text(moved)}")
        for refused in answer.refused:
            click.echo(f"refused {_text(refused.partition)}: {refused.error.code}: {refused.error.message}")
        session.note(f"{len(answer.moved)} leader(s) moved, {len(answer.refused)} refused")
    return 1 if answer.refused else 0


async def _partitions(connection: ImpatientAdmin, name: str) -> list[admin_pb2.PartitionName]:
    """``TOPIC:P``, or every partition of ``TOPIC``."""
    from quorate.v1 import admin_pb2

    if ":" in name:
        topic, number = parse_partition(name, hint="[TOPIC[:PARTITION]]…")
        return [admin_pb2.PartitionName(topic=topic, partition=number)]
    description = await connection.describe_topic(name)
    return [admin_pb2.PartitionName(topic=name, partition=each.partition) for each in description.partitions]


@dataclass(frozen=True, slots=True)
class _ReassignOptions:
    #: topic, number and replicas: of one move
    topic: str | None
    number: int | None
    replicas: str | None
    #: of a plan with many moves
    path: str | None
    #: bytes per second, as they were given
    throttle: str | None
    cancel: bool
    dry_run: bool
    #: until the moves are done
    waits: bool


@partition.command()
@click.option("--topic", help="Of one partition: its topic …")
@click.option("--partition", "number", type=NUMBER, help="… its number …")
@click.option("--replicas", metavar="ID,ID,…", help="… and where it should be, the preferred leader first.")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="PLAN",
    help="Many moves, in the form of Kafka's reassignment JSON.",
)
@click.option("--cancel", is_flag=True, help="Call the moves of these partitions off.")
@click.option("--list", "lists", is_flag=True, help="Show the moves that are under way.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")
@click.option(
    "--throttle",
    type=MOVE_RATE,
    metavar="BYTES/S",
    help="Let no broker fetch replicas that moves add to it faster than this (10MiB, say). It holds for the "
    "whole cluster, and until it is lifted.",
)
@waiting_options
@pass_session
def reassign(
    session: Session,
    topic: str | None,
    number: int | None,
    replicas: str | None,
    path: str | None,
    throttle: str | None,
    timeout_s: float | None,
    *,
    cancel: bool,
    lists: bool,
    dry_run: bool,
    no_wait: bool,
) -> None:
    """Move partitions to other brokers, all or none: grow, catch up, shrink.

    \b
    quorate partition reassign --topic orders --partition 0 --replicas 2,3,4
    quorate partition reassign --file plan.json --throttle 10MiB
    quorate partition reassign --list
    """
    from quorate.console.connecting import with_connection
    from quorate.console.moving.outcome import check_done
    from quorate.console.moving.throttling import note_throttle, telling_what_is_left
    from quorate.console.moving.watch import wait_for_moves
    from quorate.console.output import print_json
    from quorate.v1 import admin_pb2

    if lists:
        _list_moves(session)
        return
    options = _ReassignOptions(
        topic=topic,
        number=number,
        replicas=replicas,
        path=path,
        throttle=throttle,
        cancel=cancel,
        dry_run=dry_run,
        waits=not (no_wait or cancel or dry_run),
    )
    moves = _moves(options)
    names = {(each.partition.topic, each.partition.partition) for each in moves}

    async def work(connection: ImpatientAdmin) -> list[admin_pb2.PartitionName]:
        """Of which partitions the outcome is told."""
        affected = [each.partition for each in moves]
        if cancel:
            running = [each.partition for each in await connection.list_reassignments()]
            affected = [each for each in affected if each in running]
        await _prepare_moves(connection, moves, options)
        if dry_run:
            return affected
        with telling_what_is_left(session, throttle):
            await connection.reassign_partitions(admin_pb2.ReassignPartitionsRequest(moves=moves))
            if options.waits:
                await wait_for_moves(session, connection, names, timeout_s=timeout_s)
                await check_done(connection, moves)
        return affected

    affected = with_connection(session.bootstrap, work)
    outcome = _outcome(options)
    if session.json:
        partitions = [_name_document(each) for each in affected]
        print_json({"outcome": outcome, "partitions": partitions, "throttle": throttle})
        return
    others = [_text(each.partition) for each in moves if each.partition not in affected]
    besides = f"; not under way (any more): {', '.join(others)}" if others else ""
    session.note(f"{len(affected)} move(s) {outcome}{besides}")
    if throttle is not None and not dry_run:
        note_throttle(session, throttle)


async def _prepare_moves(
    connection: ImpatientAdmin, moves: list[admin_pb2.PartitionMove], options: _ReassignOptions
) -> None:
    """The throttle first, and everything checked before it: a refused move leaves no throttle behind."""
    from quorate.console.moving.throttling import set_throttle
    from quorate.v1 import admin_pb2

    if options.throttle is not None or options.dry_run:
        await connection.reassign_partitions(
            admin_pb2.ReassignPartitionsRequest(moves=moves, validate_only=True)
        )
    if options.throttle is not None:
        await set_throttle(connection, options.throttle, validate_only=options.dry_run)


def _outcome(options: _ReassignOptions) -> str:
    if options.dry_run:
        return "checked"
    if options.cancel:
        return "cancelled"
    return "done" if options.waits else "started"


def _moves(options: _ReassignOptions) -> list[admin_pb2.PartitionMove]:
    from quorate.console.move_plans import read_plan
    from quorate.v1 import admin_pb2

    topic, number, replicas = options.topic, options.number, options.replicas
    path, cancel = options.path, options.cancel
    if cancel and options.throttle is not None:
        raise click.UsageError("--cancel moves nothing: there is nothing to throttle")
    if path is not None:
        if topic is not None or number is not None or replicas is not None:
            raise click.UsageError(
                "--file has all the moves: no --topic, --partition or --replicas beside it"
            )
        moves = read_plan(path)
        if cancel:
            return [admin_pb2.PartitionMove(partition=each.partition) for each in moves]
        return moves
    if topic is None or number is None or (replicas is None) != cancel:
        wanted = "--topic and --partition" if cancel else "--topic, --partition and --replicas"
        raise click.UsageError(f"give {wanted}, or --file, or --list")
    name = admin_pb2.PartitionName(topic=topic, partition=number)
    wished = [] if replicas is None else parse_replicas(replicas)
    return [admin_pb2.PartitionMove(partition=name, replicas=wished)]


def _list_moves(session: Session) -> None:
    from quorate.console.connecting import with_connection
    from quorate.console.moving.documents import move_documents, print_moves
    from quorate.console.output import print_json

    documents = with_connection(session.bootstrap, move_documents)
    if session.json:
        print_json({"reassignments": documents})
    else:
        print_moves(documents)


@partition.command()
@click.argument("name", metavar="TOPIC:PARTITION")
@click.option("--leader", type=NUMBER, help="Elect this replica; else the one that goes furthest.")
@click.option(
    "--accept-missing-replicas",
    is_flag=True,
    help="Even though not every former member can be asked: what only they hold is lost.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def recover(
    session: Session, *, name: str, leader: int | None, accept_missing_replicas: bool, yes: bool
) -> None:
    """The last resort: give a partition a leader although nobody is known to hold all of its records.

    For a partition whose ISR and ELR are gone for good. Acknowledged records may be lost, and consumers may
    have read records that are no longer there. If any former member can be brought back, do that instead.
    """
    from quorate.client.admin_calls import incident_of
    from quorate.console.confirming import confirm
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.v1 import admin_pb2

    topic, number = parse_partition(name, hint="TOPIC:PARTITION")
    request = admin_pb2.RecoverPartitionRequest(
        partition=admin_pb2.PartitionName(topic=topic, partition=number),
        leader=leader,
        accept_missing_replicas=accept_missing_replicas,
    )
    # Before the question: what is given up is what is missing now, and not after another election.
    found = with_connection(session.bootstrap, lambda connection: connection.describe_topic(topic))
    incident = incident_of(found, request)
    confirm(
        f"{name}, leader epoch {incident.leader_epoch}: ACKNOWLEDGED RECORDS MAY BE LOST FOR EVER.\n"
        "Recover a partition only if the replicas that held all of its records will not come back.",
        f"Recover {name}, and accept the loss?",
        otherwise=f"{name} was not recovered, and nothing was lost by it",
        yes=yes,
    )
    answer = with_connection(session.bootstrap, lambda connection: connection.recover_partition(incident))
    documents = [
        {
            "id": each.broker_id,
            "last_epoch": None if each.is_missing else each.last_epoch,
            "log_end_offset": None if each.is_missing else each.log_end_offset,
            "is_missing": each.is_missing,
        }
        for each in answer.candidates
    ]
    if session.json:
        print_json({"topic": topic, "partition": number, "leader": answer.leader, "candidates": documents})
        return
    click.secho(f"broker {answer.leader} leads {name}; acknowledged records may be lost", fg="red", err=True)
    if documents:
        _print_candidates(documents)


def _print_candidates(documents: list[dict[str, Any]]) -> None:
    from quorate.console.output import print_table

    keys = ("id", "last_epoch", "log_end_offset")
    rows = [
        [*(document[key] for key in keys), "missing" if document["is_missing"] else "asked"]
        for document in documents
    ]
    print_table(("BROKER", "LAST EPOCH", "LOG END", "STATE"), rows)


def _name_document(name: admin_pb2.PartitionName) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition}


def _text(name: admin_pb2.PartitionName) -> str:
    return f"{name.topic}:{name.partition}"
