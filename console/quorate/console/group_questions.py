"""What several commands ask about groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.client import AsyncAdmin
from quorate.client.admin.group_types import GroupDescription
from quorate.console.connecting import Clients
from quorate.errors import GroupNotEmpty, GroupNotFound

__all__ = ["check_is_empty", "describe_all", "with_admin"]

T = TypeVar("T")

#: A list of a thousand groups must not be a thousand questions at once.
_QUESTIONS_MAX: Final = 8


def with_admin(work: Callable[[AsyncAdmin], Awaitable[T]]) -> Callable[[Clients], Awaitable[T]]:
    async def run(clients: Clients) -> T:
        async with clients.admin() as admin:
            return await work(admin)

    return run


async def describe_all(admin: AsyncAdmin, *, timeout_s: float) -> list[GroupDescription]:
    """In the order of their names. One that cannot be described fails the whole: a gap would mislead."""
    listed = await admin.list_groups(timeout=timeout_s)
    turns = asyncio.Semaphore(_QUESTIONS_MAX)

    async def describe(group: str) -> GroupDescription | None:
        async with turns:
            try:
                return await admin.describe_group(group, timeout=timeout_s)
            except GroupNotFound:
                return None  # deleted since

    found = await asyncio.gather(*(describe(each.group) for each in listed))
    return [each for each in found if each is not None]


def check_is_empty(group: GroupDescription) -> None:
    """Before anybody is asked whether something should be done that would be refused."""
    if group.members:
        raise GroupNotEmpty(f"{group.group} has {len(group.members)} member(s)", group=group.group)
