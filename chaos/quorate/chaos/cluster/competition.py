"""Clients that compete for the end of one log during a simulated run, and the verdict about what they saw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.compare_and_set import CompareAndSetClients
from quorate.chaos.cluster.compare_and_set_history import EMPTY_LOG, CompareAndSetHistory, log_step
from quorate.chaos.cluster.linearizability import Stuck, linearize
from quorate.chaos.cluster.plan import COMPETED
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

__all__ = ["Competition", "CompetitionReport"]


@dataclass(frozen=True, slots=True)
class CompetitionReport:
    appended: int
    mismatches: int
    unknown: int
    refused: int


class Competition:
    def __init__(self, cluster: SimCluster, competitors: int) -> None:
        self.partition = TopicPartition(TopicName(COMPETED), PartitionId(0))
        self._history = CompareAndSetHistory()
        self._clients = CompareAndSetClients(cluster, self._history, self.partition)
        self._tasks = [
            asyncio.create_task(self._clients.compete(f"c{number}"), name=f"competitor-{number}")
            for number in range(competitors)
        ]

    async def end(self) -> None:
        """Every attempt has its outcome."""
        self._clients.end()
        await asyncio.gather(*self._tasks)

    def check(self, committed: Mapping[Offset, bytes]) -> CompetitionReport:
        """``Violation`` if what the clients saw is not linearizable."""
        history = self._history
        history.note_final_content([committed[offset] for offset in sorted(committed)])
        try:
            linearize(history.operations, EMPTY_LOG, log_step)
        except Stuck as stuck:
            raise Violation(f"{self.partition}: {stuck}", check="not-linearizable") from stuck
        return CompetitionReport(history.appended, history.mismatches, history.unknown, history.refused)
