"""``quorate broker``: take a broker out of service, for a while or for good."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from quorate.console.option_types import BROKER_ID, MOVE_RATE
from quorate.console.session import QuorateGroup, Session, pass_session
from quorate.console.waiting_options import waiting_options
from quorate.errors import NotEnoughReplicas, QuorateError

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["broker"]

_ADD_A_BROKER: Final = (
    "add a broker (in a local cluster: `quorate up --dir DIR --brokers N`), and run it again; until then "
    "broker {id} stays as it is"
)

_VOTES_TOO: Final = (
    "node {id} votes in the metadata quorum as well, and is missed there until `quorate cluster remove-voter "
    "{id}`; add another one first (`quorate cluster add-voter`): two of three voters would need each other"
)

_broker_id = click.argument("broker_id", metavar="ID", type=BROKER_ID)


@click.group(cls=QuorateGroup)
def broker() -> None:
    """List brokers; take one out of service."""


@broker.command("list")
@pass_session
def list_brokers(session: Session) -> None:
    """Show every registered broker."""
    from quorate.console.cluster_documents import broker_document, print_brokers
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    found = with_connection(session.bootstrap, lambda connection: connection.describe_cluster())
    if session.json:
        print_json({"brokers": [broker_document(each) for each in found.brokers]})
    else:
        print_brokers(list(found.brokers))


@broker.command("safe-to-restart")
@_broker_id
@pass_session
def safe_to_restart(session: Session, broker_id: int) -> int:
    """Say whether broker ID can stop without making a partition, or the metadata quorum, unavailable.

    Exit status 0: yes, 1: no.
    """
    from quorate.client.quorum_objections import quorum_objections
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    async def work(connection: ImpatientAdmin) -> tuple[bool, list[str]]:
        answer = await connection.check_broker_restart(broker_id)
        # It may be a voter as well; the controllers look at partitions alone.
        quorum = await connection.describe_quorum()
        objections = quorum_objections(broker_id, quorum, name=f"broker {broker_id}")
        return answer.is_safe and not objections, [*answer.reasons, *objections]

    is_safe, reasons = with_connection(session.bootstrap, work)
    if session.json:
        print_json({"id": broker_id, "is_safe": is_safe, "reasons": reasons})
    else:
        click.echo("yes" if is_safe else "no")
        for reason in reasons:
            click.echo(f"  {reason}")
    return 0 if is_safe else 1


@broker.command()
@_broker_id
@click.option("--cancel", is_flag=True, help="Take it back into service.")
@waiting_options
@pass_session
def drain(
    session: Session,
    broker_id: int,
    *,
    cancel: bool,
    no_wait: bool,
    timeout_s: float | None,
) -> int:
    """Move leaders away from broker ID, and let it lead nothing new; it goes on following.

    What nobody else can lead stays where it is. Where only such partitions are left, it names them and ends.

    Exit status 0: it leads nothing (or it was called off, or --no-wait), 1: it still leads partitions.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.console.undrainable import KeptLeader, kept_leaders, told_kept
    from quorate.console.waiting import wait_until_none_left

    kept: list[KeptLeader] = []

    async def work(connection: ImpatientAdmin) -> admin_pb2.DrainBrokerResponse:
        answer = await connection.drain_broker(broker_id, cancel=cancel)

        async def leaders_left() -> int:
            nonlocal answer, kept
            before, answer = answer, await connection.drain_broker(broker_id)
            led = answer.remaining_leaders
            # As long as some go, nobody has to ask what becomes of the others.
            is_still = bool(led) and led == before.remaining_leaders
            kept = await kept_leaders(connection, broker_id, led) if is_still else []
            return len(led)

        if not cancel and not no_wait:
            await wait_until_none_left(
                session,
                f"leaders of broker {broker_id}",
                leaders_left,
                first=len(answer.remaining_leaders),
                timeout_s=timeout_s,
                is_stuck=lambda: bool(kept),
            )
        return answer

    left = [
        {"topic": each.topic, "partition": each.partition}
        for each in with_connection(session.bootstrap, work).remaining_leaders
    ]
    if session.json:
        stuck = [each.document() for each in kept]
        document = {"id": broker_id, "is_draining": not cancel, "remaining_leaders": left}
        print_json({**document, "stuck_leaders": stuck})
    elif cancel:
        session.note(f"broker {broker_id} is back in service")
    elif kept:
        session.note(told_kept(broker_id, kept, len(left)))
    else:
        leads = f"it still leads {len(left)} partition(s)" if left else "it leads nothing"
        session.note(f"broker {broker_id} is draining: {leads}")
    return 1 if kept else 0


@broker.command()
@_broker_id
@click.option("--cancel", is_flag=True, help="Call it off; replicas that have moved stay where they are.")
@click.option(
    "--throttle",
    type=MOVE_RATE,
    metavar="BYTES/S",
    help="Let no broker fetch replicas that moves add to it faster than this (10MiB, say). It holds for the "
    "whole cluster, and until it is lifted.",
)
@waiting_options
@pass_session
def decommission(
    session: Session,
    broker_id: int,
    *,
    cancel: bool,
    throttle: str | None,
    no_wait: bool,
    timeout_s: float | None,
) -> int:
    """Move every replica away from broker ID; once it holds none and has stopped, it is forgotten.

    Three steps: run this, stop the broker, run this again. A bounded number of replicas moves at a time, and
    asking again starts the next: with --no-wait, run it again until it is done. Where only partitions without
    a leader are left, which cannot move, it names them and ends. The vote of a node that is a controller as
    well stays, and it says so.

    Exit status 0: forgotten (or called off), 1: not yet; the outcome says what comes next.
    """
    from quorate.console.advice import AdvisedError
    from quorate.console.connecting import with_connection
    from quorate.console.moving.throttling import note_throttle, set_throttle, telling_what_is_left
    from quorate.console.output import print_json
    from quorate.console.waiting import wait_until_none_left

    if cancel and throttle is not None:
        raise click.UsageError("--cancel moves nothing: there is nothing to throttle")

    async def work(connection: ImpatientAdmin) -> tuple[admin_pb2.DecommissionBrokerResponse, bool]:
        if throttle is not None:
            await set_throttle(connection, throttle, validate_only=True)
        answer = await connection.decommission_broker(broker_id, cancel=cancel)
        if throttle is not None:
            # Not before: where it is refused no throttle must be left behind.
            await set_throttle(connection, throttle)

        async def replicas_left() -> int:
            nonlocal answer
            answer = await connection.decommission_broker(broker_id)
            return answer.remaining_replica_count

        if not cancel and not no_wait:
            with telling_what_is_left(session, throttle):
                await wait_until_none_left(
                    session,
                    f"replicas of broker {broker_id}",
                    replicas_left,
                    first=answer.remaining_replica_count,
                    timeout_s=timeout_s,
                    is_stuck=lambda: _is_stuck(answer),
                )
        return answer, not cancel and await _is_voter(connection, broker_id)

    try:
        answer, is_voter = with_connection(session.bootstrap, work)
    except NotEnoughReplicas as error:
        raise AdvisedError(error, _ADD_A_BROKER.format(id=broker_id)) from error
    outcome = _outcome(answer, cancel=cancel)
    if session.json:
        print_json(
            {
                "id": broker_id,
                "outcome": outcome,
                "is_cancelled": cancel,
                "is_removed": answer.is_removed,
                "is_voter": is_voter,
                "remaining_replica_count": answer.remaining_replica_count,
                "moving_count": answer.moving_count,
                "offline_count": answer.offline_count,
                "offline_partitions": [
                    {"topic": each.topic, "partition": each.partition} for each in answer.offline_partitions
                ],
            }
        )
    else:
        session.note(_told(broker_id, answer, outcome))
        if is_voter and outcome in ("empty", "forgotten"):
            session.note(_VOTES_TOO.format(id=broker_id))
        if throttle is not None:
            note_throttle(session, throttle)
    return 0 if outcome in ("forgotten", "cancelled") else 1


def _outcome(answer: admin_pb2.DecommissionBrokerResponse, *, cancel: bool) -> str:
    """What comes next: "moving" is to be asked again, "empty" to be stopped and then asked again.

    "offline" is what only partitions without a leader keep from going on.
    """
    if cancel:
        return "cancelled"
    if answer.is_removed:
        return "forgotten"
    if _is_stuck(answer):
        return "offline"
    return "moving" if answer.remaining_replica_count else "empty"


async def _is_voter(connection: ImpatientAdmin, broker_id: int) -> bool:
    """False as well where the quorum cannot be asked: what was done must be told all the same."""
    with suppress(QuorateError):
        return any(voter.node_id == broker_id for voter in (await connection.describe_quorum()).voters)
    return False


def _is_stuck(answer: admin_pb2.DecommissionBrokerResponse) -> bool:
    """Nobody has what could be copied."""
    return 0 < answer.remaining_replica_count == answer.offline_count


def _told(broker_id: int, answer: admin_pb2.DecommissionBrokerResponse, outcome: str) -> str:
    if outcome == "cancelled":
        return f"broker {broker_id} stays, with {answer.remaining_replica_count} replica(s)"
    if outcome == "forgotten":
        return f"broker {broker_id} is forgotten"
    if outcome == "moving":
        return (
            f"broker {broker_id} still holds {answer.remaining_replica_count} replica(s), "
            f"{answer.moving_count} of them moving; run this again until it holds none"
        )
    if outcome == "offline":
        return _told_offline(broker_id, answer)
    return f"broker {broker_id} holds nothing any more: stop it, then run this again to forget it"


def _told_offline(broker_id: int, answer: admin_pb2.DecommissionBrokerResponse) -> str:
    names = [f"{each.topic}:{each.partition}" for each in answer.offline_partitions]
    more = f" and {answer.offline_count - len(names)} more" if answer.offline_count > len(names) else ""
    return (
        f"broker {broker_id} still holds {answer.offline_count} replica(s) of partitions without a leader, "
        f"so there is nobody to copy from: {', '.join(names)}{more}; `quorate cluster health` says whom each "
        "waits for: bring that broker back; if it is gone for good, `quorate partition recover "
        f"{names[0]}` or `quorate topic delete`; then run this again"
    )
