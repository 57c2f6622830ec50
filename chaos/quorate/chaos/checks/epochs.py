"""Epochs in the committed metadata never go back (rule 2), and each leader epoch has one leader."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import BrokerId

__all__ = ["CHECKS"]


def _check_epochs(case: Case) -> Verdict:
    findings = Findings()
    for (source, partition, _), changes in case.changes().items():
        for before, now in pairwise(changes):
            for name in ("leader_epoch", "partition_epoch"):
                old, new = getattr(before, name), getattr(now, name)
                if new < old:
                    findings.add(f"{partition}: {source} saw {name} {new} after {old}")
    return findings.verdict("nonmonotonic-epoch", examined=len(case.history.changes))


def _check_one_leader(case: Case) -> Verdict:
    """Over all sources: no two of them know different leaders of one epoch."""
    findings, examined = Findings(), 0
    leaders: dict[tuple[str, int, int], BrokerId] = {}
    for change in case.history.changes:
        if change.leader is None:
            continue
        examined += 1
        key = (change.topic_id, change.partition.partition, change.leader_epoch)
        leader = leaders.setdefault(key, change.leader)
        if leader != change.leader:
            findings.add(
                f"{change.partition}: brokers {leader} and {change.leader} lead in leader epoch "
                f"{change.leader_epoch}"
            )
    return findings.verdict("split-brain", examined=examined)


CHECKS: Final = (_check_epochs, _check_one_leader)
