"""Looks at moves until they are over, and tells how far they are."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.client.replica_sizes import ReplicaOf, ReplicaSizes
from quorate.console.advice import AdvisedError
from quorate.console.moving.estimate import Estimate, Progress
from quorate.console.planning.quantities import show_bytes, show_duration
from quorate.console.session import Session
from quorate.errors import QuorateError, RequestTimedOut, UnknownTopicOrPartition
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls

__all__ = ["Copying", "look_at_moves", "wait_for_moves"]

_POLL_S: Final = 0.5
#: A line, where there is no terminal: sooner only if a move has ended.
_LINE_S: Final = 5.0

Name = tuple[str, int]


class Copying(NamedTuple):
    """A replica that a move adds."""

    name: Name
    broker_id: int
    #: it has caught up, and joined the ISR
    is_in_sync: bool
    #: what it holds; None: nobody knows
    copied_bytes: int | None
    #: what its leader holds
    leader_bytes: int | None


async def look_at_moves(connection: AdminCalls, moves: Sequence[admin_pb2.Reassignment]) -> list[Copying]:
    """How far each replica is that these moves add."""
    adding = [move for move in moves if set(move.adding_replicas) - set(move.removing_replicas)]
    if not adding:
        return []
    sizes, topic_ids = await _leader_sizes(connection, {move.partition.topic for move in adding})
    brokers = {each.broker_id: each.address for each in (await connection.describe_cluster()).brokers}
    wanted: dict[int, list[ReplicaOf]] = defaultdict(list)
    for move in adding:
        if (topic_id := topic_ids.get(move.partition.topic)) is not None:
            for broker_id in move.adding_replicas:
                wanted[broker_id].append(ReplicaOf(topic_id, move.partition.partition))
    async with ReplicaSizes(brokers) as replicas:
        found = await replicas.ask(wanted)
    result: list[Copying] = []
    for move in adding:
        name = (move.partition.topic, move.partition.partition)
        replica = ReplicaOf(topic_ids.get(name[0], ""), name[1])
        result += [
            Copying(
                name,
                broker_id,
                broker_id in move.isr,
                found.get((broker_id, replica)),
                sizes.get(name),
            )
            for broker_id in move.adding_replicas
        ]
    return result


async def _leader_sizes(
    connection: AdminCalls, topics: Collection[str]
) -> tuple[dict[Name, int], dict[str, str]]:
    """By partition; and the ids of the topics. One that was deleted meanwhile is left out."""
    sizes: dict[Name, int] = {}
    topic_ids: dict[str, str] = {}
    for topic in sorted(topics):
        try:
            described = await connection.describe_topic(topic)
        except UnknownTopicOrPartition:
            continue
        topic_ids[topic] = described.topic_id
        for each in described.partitions:
            if each.HasField("size_bytes"):
                sizes[topic, each.partition] = each.size_bytes
    return sizes, topic_ids


async def wait_for_moves(
    session: Session,
    connection: AdminCalls,
    names: Collection[Name],
    *,
    timeout_s: float | None,
    proceed: Callable[[Collection[Name]], Awaitable[int]] | None = None,
) -> None:
    """Until none of these is under way.

    ``proceed``: told which are, it may start others, and answers how many are still to come.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await _Watch(session, connection, names, proceed).until_none_left()
    except TimeoutError:
        raise AdvisedError(
            RequestTimedOut(f"moves: not done after {timeout_s:g} s"),
            "what was begun goes on; `quorate partition reassign --list` shows how far it is",
        ) from None


class _Watch:
    def __init__(
        self,
        session: Session,
        connection: AdminCalls,
        names: Collection[Name],
        proceed: Callable[[Collection[Name]], Awaitable[int]] | None,
    ) -> None:
        self._session = session
        self._connection = connection
        self._names = names
        self._proceed = proceed
        self._estimate = Estimate()
        self._told: int | None = None
        self._told_at_s = 0.0

    async def until_none_left(self) -> None:
        while True:
            running = [
                move
                for move in await self._connection.list_reassignments()
                if (move.partition.topic, move.partition.partition) in self._names
            ]
            waiting = 0
            if self._proceed is not None:
                waiting = await self._proceed(
                    {(move.partition.topic, move.partition.partition) for move in running}
                )
            left = len(running) + waiting
            if left == 0:
                return
            await self._tell(running, left)
            await asyncio.sleep(_POLL_S)

    async def _tell(self, running: Sequence[admin_pb2.Reassignment], left: int) -> None:
        now_s = time.monotonic()
        if left == self._told and now_s - self._told_at_s < _LINE_S:
            return
        copying: list[Copying] = []
        # How far they are is nice to know; that they end is waited for all the same.
        with suppress(QuorateError):
            copying = await look_at_moves(self._connection, running)
        self._estimate.saw(_progress(copying, left), now_s=now_s)
        self._session.note(_line(copying, left, self._estimate))
        self._told, self._told_at_s = left, now_s


def _progress(copying: Sequence[Copying], left: int) -> Progress:
    total = sum(each.leader_bytes or 0 for each in copying)
    copied = sum(min(each.copied_bytes or 0, each.leader_bytes or 0) for each in copying)
    return Progress(left, copied, total)


def _line(copying: Sequence[Copying], left: int, estimate: Estimate) -> str:
    progress = _progress(copying, left)
    parts = [f"moves: {left} left"]
    if progress.total_bytes:
        copied, total = Fraction(progress.copied_bytes), Fraction(progress.total_bytes)
        parts.append(f"{show_bytes(copied)} of {show_bytes(total)} copied")
    if (rate := estimate.bytes_per_s) is not None:
        parts.append(f"{show_bytes(Fraction(round(rate)))}/s")
    if (seconds := estimate.seconds_left) is not None:
        parts.append(f"about {show_duration(Fraction(round(seconds)))} for what moves now")
    return ", ".join(parts)
