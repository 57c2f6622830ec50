"""``quorate broker``: take a broker out of service, for a while or for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.console.session import QuorateGroup, Session, pass_session
from quorate.console.waiting_options import waiting_options

if TYPE_CHECKING:
    from quorate.client.connection import Connection
    from quorate.v1 import admin_pb2

__all__ = ["broker"]

_broker_id = click.argument("broker_id", metavar="ID", type=click.IntRange(min=0))


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
    """Say whether broker ID can stop without making a partition unavailable.

    Exit status 0: yes, 1: no.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json

    answer = with_connection(session.bootstrap, lambda connection: connection.check_broker_restart(broker_id))
    if session.json:
        print_json({"id": broker_id, "is_safe": answer.is_safe, "reasons": list(answer.reasons)})
    else:
        click.echo("yes" if answer.is_safe else "no")
        for reason in answer.reasons:
            click.echo(f"  {reason}")
    return 0 if answer.is_safe else 1


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
) -> None:
    """Move leaders away from broker ID, and let it lead nothing new; it goes on following."""
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.console.waiting import wait_until_none_left

    async def work(connection: Connection) -> admin_pb2.DrainBrokerResponse:
        answer = await connection.drain_broker(broker_id, cancel=cancel)

        async def leaders_left() -> int:
            nonlocal answer
            answer = await connection.drain_broker(broker_id)
            return len(answer.remaining_leaders)

        if not cancel and not no_wait:
            await wait_until_none_left(
                session,
                f"leaders of broker {broker_id}",
                leaders_left,
                first=len(answer.remaining_leaders),
                timeout_s=timeout_s,
            )
        return answer

    left = [
        {"topic": each.topic, "partition": each.partition}
        for each in with_connection(session.bootstrap, work).remaining_leaders
    ]
    if session.json:
        print_json({"id": broker_id, "is_draining": not cancel, "remaining_leaders": left})
    elif cancel:
        session.note(f"broker {broker_id} is back in service")
    else:
        leads = f"it still leads {len(left)} partition(s)" if left else "it leads nothing"
        session.note(f"broker {broker_id} is draining: {leads}")


@broker.command()
@_broker_id
@click.option("--cancel", is_flag=True, help="Call it off; replicas that have moved stay where they are.")
@waiting_options
@pass_session
def decommission(
    session: Session,
    broker_id: int,
    *,
    cancel: bool,
    no_wait: bool,
    timeout_s: float | None,
) -> None:
    """Move every replica away from broker ID; once it holds none and has stopped, it is forgotten.

    A bounded number of replicas moves at a time, and asking again starts the next: without waiting, run it
    again until it is done.
    """
    from quorate.console.connecting import with_connection
    from quorate.console.output import print_json
    from quorate.console.waiting import wait_until_none_left

    async def work(connection: Connection) -> admin_pb2.DecommissionBrokerResponse:
        answer = await connection.decommission_broker(broker_id, cancel=cancel)

        async def replicas_left() -> int:
            nonlocal answer
            answer = await connection.decommission_broker(broker_id)
            return answer.remaining_replica_count

        if not cancel and not no_wait:
            await wait_until_none_left(
                session,
                f"replicas of broker {broker_id}",
                replicas_left,
                first=answer.remaining_replica_count,
                timeout_s=timeout_s,
            )
        return answer

    answer = with_connection(session.bootstrap, work)
    if session.json:
        print_json(
            {
                "id": broker_id,
                "is_cancelled": cancel,
                "is_removed": answer.is_removed,
                "remaining_replica_count": answer.remaining_replica_count,
                "moving_count": answer.moving_count,
            }
        )
    else:
        session.note(_told(broker_id, answer, cancel=cancel))


def _told(broker_id: int, answer: admin_pb2.DecommissionBrokerResponse, *, cancel: bool) -> str:
    if cancel:
        return f"broker {broker_id} stays, with {answer.remaining_replica_count} replica(s)"
    if answer.is_removed:
        return f"broker {broker_id} is gone from the cluster"
    if answer.remaining_replica_count:
        return (
            f"broker {broker_id} still holds {answer.remaining_replica_count} replica(s), "
            f"{answer.moving_count} of them moving"
        )
    return f"broker {broker_id} holds nothing any more: stop it, then run this again to forget it"
