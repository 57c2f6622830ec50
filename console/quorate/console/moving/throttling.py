"""The bound on what moves may fetch: one setting for the whole cluster.

A command that sets it and does not come to its end leaves it: what it began goes on, and without the bound
would take all that there is. It says so, because nobody else will.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from quorate.console.advice import AdvisedError
from quorate.errors import InvalidConfig
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls
    from quorate.console.session import Session

__all__ = [
    "THROTTLE_KEY",
    "current_throttle",
    "note_throttle",
    "restore_throttle",
    "set_throttle",
    "telling_what_is_left",
]

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


async def current_throttle(connection: AdminCalls) -> str | None:
    """What somebody has set for the cluster; None: nobody has."""
    entries = (await connection.describe_configs()).configs
    return next(
        (
            entry.value
            for entry in entries
            if entry.name == THROTTLE_KEY and entry.source == admin_pb2.CONFIG_SOURCE_CLUSTER
        ),
        None,
    )


async def restore_throttle(connection: AdminCalls, former: str | None) -> None:
    """``former``: as ``current_throttle`` found it."""
    change = admin_pb2.ConfigChange(name=THROTTLE_KEY, value=former)
    await connection.alter_configs(admin_pb2.AlterConfigsRequest(changes=[change]))


def note_throttle(session: Session, rate: str, *, former: str | None = None) -> None:
    """For who has set it and leaves it."""
    if former is None:
        undoing = f"--delete-config {THROTTLE_KEY}` lifts that"
    else:
        undoing = f"{THROTTLE_KEY}={former}` sets what it was"
    session.note(f"moves are held to {rate}/s until `quorate cluster alter-config {undoing}")


@contextmanager
def telling_what_is_left(session: Session, rate: str | None, *, former: str | None = None) -> Iterator[None]:
    """From when it was set; ``rate`` None: it was not."""
    try:
        yield
    except BaseException:
        # Whoever interrupts it leaves the throttle, too.
        if rate is not None:
            note_throttle(session, rate, former=former)
        raise
