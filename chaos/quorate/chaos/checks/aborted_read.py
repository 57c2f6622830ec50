"""What was refused is in no log, and no reader saw it: "not written" is a promise, too (rule 19)."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "aborted-read"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        refused = {sent.value: sent for sent in partition.sent_by_value.values() if sent.is_refused}
        examined += len(refused)
        if not refused:
            continue
        for value, sent in refused.items():
            if value in partition.offset_of:
                findings.add(
                    f"{partition.partition}: {value!r} is at {partition.offset_of[value]}, and was refused "
                    f"with {sent.error}"
                )
        for poll in partition.polls:
            for offset, value in poll.records:
                if value in refused and value not in partition.offset_of:
                    findings.add(
                        f"{partition.partition}: {poll.assignment.reader} read {value!r} at {offset}, which "
                        f"was refused with {refused[value].error}"
                    )
    return findings.verdict(NAME, anomaly="G1a", examined=examined)
