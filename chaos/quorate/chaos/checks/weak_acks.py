"""What acks=0 and acks=1 lose: counted and told, and no violation, as nothing was promised."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import Acks

__all__ = ["NAME", "check"]

NAME: Final = "weak-acks"

_WEAK: Final[tuple[Acks, ...]] = ("0", "1")


def check(case: Case) -> Verdict:
    figures: dict[str, float] = {}
    for acks in _WEAK:
        for what in ("acknowledged", "lost"):
            figures[f"acks_{acks}_{what}"] = 0
    examined = 0
    for partition in case.partitions:
        for sent in partition.sent:
            if sent.acks == "all" or not sent.is_acknowledged:
                continue
            examined += 1
            figures[f"acks_{sent.acks}_acknowledged"] += 1
            is_gone = sent.offset is not None and (
                partition.is_deleted(sent.offset) or partition.is_replaced(sent.value, sent.offset)
            )
            if sent.value not in partition.offset_of and not is_gone:
                figures[f"acks_{sent.acks}_lost"] += 1
    return Findings().verdict(NAME, examined=examined, figures=figures)
