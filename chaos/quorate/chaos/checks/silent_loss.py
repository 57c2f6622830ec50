"""A reader is told when what it has read is given up: it does not go on as if nothing had happened (rule 66).

What an operator gives up had been read, perhaps. Whoever has read it, and reads on in the log that took its
place, has missed records and does not know. It has to be told, and begins anew: with another assignment.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "silent-loss"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        if partition.final.losses:
            examined += _check_partition(partition, findings)
    return findings.verdict(NAME, examined=examined)


def _check_partition(partition: PartitionCase, findings: Findings) -> int:
    records = partition.final.records
    #: by assignment: the last offset that was read, and is not there any more
    vanished: dict[int, Offset] = {}
    examined = 0
    for poll in partition.polls:
        serial = poll.assignment.serial
        for offset, value in poll.records:
            examined += 1
            if records.get(offset) != value:
                vanished[serial] = offset
            elif serial in vanished and offset > vanished[serial]:
                findings.add(
                    f"{partition.partition}: {poll.assignment.reader} went on at {offset}; what it had read "
                    f"at {vanished.pop(serial)} has vanished, and it was not told"
                )
    return examined
