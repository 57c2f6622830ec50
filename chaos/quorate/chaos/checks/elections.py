"""Whoever is elected was in the ISR or the ELR before (rule 27), so that no election is unclean.

A partition epoch that is one more than the one before shows that no state between the two was missed; only
such pairs say who could be elected. What the metadata itself has marked as unclean is wrong, unless it is of
a topic of which an operator may give up something.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import PartitionChange
from quorate.core.ids import TopicPartition

__all__ = ["NAME", "check"]

NAME: Final = "unclean-election"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    allowed: set[TopicPartition] = set()
    for partition in case.partitions:
        examined += 1
        if partition.final.losses:
            allowed.add(partition.partition)
        elif partition.final.unclean_leader_epochs:
            findings.add(
                f"{partition.partition}: a leader may have lacked records, in the leader epochs "
                f"{list(partition.final.unclean_leader_epochs)}"
            )
    counts: Counter[str] = Counter()
    for changes in case.changes().values():
        for before, now in pairwise(changes):
            examined += 1
            counts.update(_happened(before, now))
            if _is_unclean(before, now) and now.partition not in allowed:
                findings.add(
                    f"{now.partition}: broker {now.leader} was elected in leader epoch {now.leader_epoch}; "
                    f"ISR {list(before.isr)}, ELR {list(before.elr)}"
                )
    return findings.verdict(NAME, examined=examined, figures=counts)


def _is_elected(before: PartitionChange, now: PartitionChange) -> bool:
    return now.leader is not None and now.leader_epoch > before.leader_epoch and now.leader != before.leader


def _is_unclean(before: PartitionChange, now: PartitionChange) -> bool:
    is_next = now.partition_epoch == before.partition_epoch + 1
    return is_next and _is_elected(before, now) and now.leader not in (*before.isr, *before.elr)


def _happened(before: PartitionChange, now: PartitionChange) -> list[str]:
    return [
        name
        for name, is_so in (
            ("elections", _is_elected(before, now)),
            ("isr_shrinks", bool(set(before.isr) - set(now.isr))),
            ("isr_expansions", bool(set(now.isr) - set(before.isr))),
            ("offline", before.leader is not None and now.leader is None),
        )
        if is_so
    ]
