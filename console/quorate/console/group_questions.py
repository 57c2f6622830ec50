"""What several commands ask about groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.client import AsyncAdmin
from quorate.client.admin.group_types import GroupDescription
from quorate.console.connecting import Clients
from quorate.console.session import Session
from quorate.errors import GroupNotEmpty, QuorateError, UnknownTopicOrPartition

__all__ = ["check_is_empty", "describe_all", "missing_topics", "with_admin"]

T = TypeVar("T")

#: An election is shorter.
_REMARK_S: Final = 3.0


def with_admin(
    session: Session, work: Callable[[AsyncAdmin], Awaitable[T]]
) -> Callable[[Clients], Awaitable[T]]:
    """Who waits hears before the time is over that nobody answers yet."""

    async def run(clients: Clients) -> T:
        still_trying = f"no answer from {session.bootstrap} yet; still trying"
        timer = asyncio.get_running_loop().call_later(_REMARK_S, session.note, still_trying)
        try:
            async with clients.admin() as admin:
                return await work(admin)
        finally:
            timer.cancel()

    return run


async def describe_all(admin: AsyncAdmin, *, timeout_s: float) -> list[GroupDescription]:
    """In the order of their names. One that cannot be described fails the whole: a gap would mislead."""
    listed = await admin.list_groups(timeout=timeout_s)
    # Without those that were deleted since.
    described = await admin.describe_groups([each.group for each in listed], timeout=timeout_s)
    return list(described.values())


async def missing_topics(admin: AsyncAdmin, group: GroupDescription) -> list[str]:
    """That members have named and that there are not, as far as anybody can be asked."""
    read = {each.partition.topic for each in group.progress}
    missing = []
    for topic in sorted({each for member in group.members for each in member.topics} - read):
        try:
            await admin.describe_topic(topic)
        except UnknownTopicOrPartition:
            missing.append(topic)
        except QuorateError:
            break  # the group is described all the same
    return missing


def check_is_empty(group: GroupDescription) -> None:
    """Before anybody is asked whether something should be done that would be refused."""
    if group.members:
        raise GroupNotEmpty(f"{group.group} has {len(group.members)} member(s)", group=group.group)
