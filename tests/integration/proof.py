"""The proof: everything acknowledged is at its offset, for readers and in every replica's files.

Run once every node is back. The cluster has to become whole first, which is part of the proof: all replicas
are in the ISR, so all of them must hold everything below the high watermark (rule 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.verdict import Verdict, raise_violations
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.reach import Reach

__all__ = ["Proof", "prove"]


@dataclass(frozen=True, slots=True)
class Proof:
    verdicts: Sequence[Verdict]
    acknowledged: int
    refused: int
    unknown: int
    #: below the high watermarks, in all partitions
    committed: int
    #: how many copies of partitions were read from files
    replicas: int


async def prove(reach: Reach, history: History, *topics: str) -> Proof:
    """``Violation`` if a promise was broken. Nobody writes any more, and every node runs."""
    final = await collect(reach, history, topics)
    verdicts = check_all(history, final)
    raise_violations(verdicts)
    outcomes = history.outcomes()
    return Proof(
        verdicts=verdicts,
        acknowledged=outcomes[Outcome.ACKNOWLEDGED],
        refused=outcomes[Outcome.REFUSED],
        unknown=outcomes[Outcome.UNKNOWN],
        committed=sum(len(partition.records) for partition in final.partitions.values()),
        replicas=sum(len(partition.copies) for partition in final.partitions.values()),
    )
