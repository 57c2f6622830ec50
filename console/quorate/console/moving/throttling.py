"""The bound on what moves may fetch: one setting for the whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.console.advice import AdvisedError
from quorate.errors import InvalidConfig
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls
    from quorate.console.session import Session

__all__ = ["THROTTLE_KEY", "lift_throttle", "note_throttle", "set_throttle"]

THROTTLE_KEY: Final = "follower.replication.throttled.rate"


async def set_throttle(connection: AdminCalls, rate: str, *, validate_only: bool = False) -> None:
    """``rate``: bytes per second, as they were given."""
    change = admin_pb2.ConfigChange(name=THROTTLE_KEY, value=rate)
    request = admin_pb2.AlterConfigsRequest(changes=[change], validate_only=validate_only)
    try:
        await connection.alter_configs(request)
    except InvalidConfig as error:
        told = InvalidConfig(f"--throttle {rate}: {error.message}", **error.facts)
        raise AdvisedError(told, "give bytes per second, such as 10MiB") from error


def note_throttle(session: Session, rate: str) -> None:
    """For who has set it and leaves it."""
    session.note(
        f"moves are held to {rate}/s until `quorate cluster alter-config --delete-config {THROTTLE_KEY}` "
        "lifts that"
    )


async def lift_throttle(connection: AdminCalls) -> None:
    """Back to the default."""
    change = admin_pb2.ConfigChange(name=THROTTLE_KEY)
    await connection.alter_configs(admin_pb2.AlterConfigsRequest(changes=[change]))
