"""Asks again and again how far a group has come: what a coordinator says must never go back (rule 63).

It is no member, and knows only what it is told. Members ask seldom, when they are given something; a
coordinator that says too little for a moment, while it loads, or after another has taken over, would mostly
be lucky with them. Now and then it asks as an application does that assigns partitions by itself: it begins
to read where the group stands (rule 66).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.history.history import History
from quorate.client.admin import AsyncAdmin
from quorate.core.ids import Offset, TopicPartition
from quorate.errors import QuorateError

__all__ = ["OffsetWatch"]

_PAUSE_S_MAX: Final = 0.1
_BEGIN_SHARE: Final = 0.15
_ANSWER_TIMEOUT_S: Final = 2.0
_NOTHING: Final = Offset(0)


class OffsetWatch:
    """``history``: of the group's members."""

    def __init__(self, cluster: SimCluster, history: History, group: str) -> None:
        self._cluster = cluster
        self._history = history
        self._group = group
        #: what a coordinator has said, at most
        self._told: dict[TopicPartition, Offset] = {}
        #: how many times there was an answer that could have been wrong
        self.examined = 0

    async def watch(self) -> NoReturn:
        """Until it is cancelled, or a coordinator has said less than was known."""
        rng = self._cluster.client_rng()
        async with self._cluster.admin() as admin:
            while True:
                known = self._known()
                with contextlib.suppress(QuorateError):
                    if known and rng.random() < _BEGIN_SHARE:
                        self._compare(known, await self._beginnings(list(known)), "a reader begins")
                    else:
                        self._compare(known, await self._offsets(admin), "the coordinator says")
                await self._cluster.clock.sleep(rng.uniform(0, _PAUSE_S_MAX))

    async def _offsets(self, admin: AsyncAdmin) -> dict[TopicPartition, Offset]:
        found = await admin.list_group_offsets(self._group, timeout=_ANSWER_TIMEOUT_S)
        return {partition: Offset(each.offset) for partition, each in found.items()}

    async def _beginnings(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        async with self._cluster.consumer(group=self._group) as consumer:
            consumer.assign(partitions)
            return {
                each: Offset(await consumer.position(each, timeout=_ANSWER_TIMEOUT_S)) for each in partitions
            }

    def _compare(
        self,
        known: Mapping[TopicPartition, tuple[Offset, str]],
        told: Mapping[TopicPartition, Offset],
        what: str,
    ) -> None:
        for partition, (offset, by) in known.items():
            self.examined += 1
            if told.get(partition, _NOTHING) < offset:
                raise Violation(
                    f"{partition}: {what} {told.get(partition)}, and {self._group} had come to {offset} by "
                    f"then, by the word of {by}",
                    check="commit-lost",
                )
        for partition, offset in told.items():
            self._told[partition] = max(self._told.get(partition, offset), offset)

    def _known(self) -> dict[TopicPartition, tuple[Offset, str]]:
        """How far it had surely come before it is asked, and who says so."""
        known = {partition: (offset, "a coordinator") for partition, offset in self._told.items()}
        for commit in self._history.commits:
            before, _ = known.get(commit.partition, (_NOTHING, ""))
            if commit.is_acknowledged and commit.offset > before:
                known[commit.partition] = (commit.offset, commit.assignment.reader)
        return known
