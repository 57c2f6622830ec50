"""Of a compacted topic the last word on every key stays, and a key that was deleted stays deleted (rule 48).

What compaction removes was acknowledged, and it goes because something newer is there. The last word on a key
is the last record of it that is known to have been in the log: by an acknowledgement, by a reader, or because
it is there. A tombstone may go in its time, but only if nothing is left of what it deletes. And whoever reads
from the beginning to the end has the same of every key as the log has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.final_state import SentKey
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "last-word"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        if partition.final.keys:
            examined += _check_keys(partition, partition.final.keys, findings)
            _check_readers(case, partition, partition.final.keys, findings)
    return findings.verdict(NAME, examined=examined)


def _check_keys(partition: PartitionCase, keys: Mapping[bytes, SentKey], findings: Findings) -> int:
    records = partition.final.records
    left: dict[bytes, Offset] = {}
    for offset, value in records.items():
        # What nobody has sent is another check's.
        if value in keys:
            left.setdefault(keys[value].key, offset)
    for key, (offset, value) in partition.last_words.items():
        if records.get(offset) == value or partition.is_deleted(offset):
            continue
        if not keys[value].is_tombstone:
            if not partition.is_replaced(value, offset):
                findings.add(
                    f"{partition.partition}: {value!r} at {offset} is gone, the last word on {key!r}"
                )
        elif key in left:
            findings.add(
                f"{partition.partition}: {key!r} was deleted at {offset}, which is gone, and the record at "
                f"{left[key]} is not"
            )
    return len(partition.last_words)


def _check_readers(
    case: Case, partition: PartitionCase, keys: Mapping[bytes, SentKey], findings: Findings
) -> None:
    due = _table(partition.final.records.values(), keys)
    for assignment in case.assignments_of(partition.partition):
        start = assignment.starts[partition.partition]
        if assignment.caught_up_s is None or start is None or start > partition.final.log_start_offset:
            continue
        read = (
            value for poll in partition.polls if poll.assignment is assignment for _, value in poll.records
        )
        found = _table(read, keys)
        for key in sorted(key for key in {*due, *found} if due.get(key) != found.get(key)):
            findings.add(
                f"{partition.partition}: {assignment.reader} ends with {found.get(key)!r} for {key!r}, the "
                f"log has {due.get(key)!r}"
            )


def _table(values: Iterable[bytes], keys: Mapping[bytes, SentKey]) -> dict[bytes, bytes]:
    """The last value of each key that is not deleted."""
    latest = {keys[value].key: value for value in values if value in keys}
    return {key: value for key, value in latest.items() if not keys[value].is_tombstone}
