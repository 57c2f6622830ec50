"""What is in a log, or was read from it, was sent to this topic, not to one deleted before it (rule 43)."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "phantom"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        records = partition.final.records
        sent = partition.sent_by_value
        examined += len(records)
        for offset, value in records.items():
            if value not in sent:
                findings.add(f"{partition.partition}: {value!r} at {offset} {_reproach(partition, value)}")
        for poll in partition.polls:
            examined += len(poll.records)
            for offset, value in poll.records:
                # What is in the log as well was looked at above.
                if value not in sent and records.get(offset) != value:
                    findings.add(
                        f"{partition.partition}: {value!r}, read at {offset} by {poll.assignment.reader}, "
                        f"{_reproach(partition, value)}"
                    )
    return findings.verdict(NAME, examined=examined)


def _reproach(partition: PartitionCase, value: bytes) -> str:
    if any(sent.value == value for sent in partition.former):
        return "was sent to a topic that was deleted before"
    return "was never sent there"
