"""All replicas hold the same bytes below the high watermark (rule 1: log matching).

Retention runs on each replica by itself, so that one may begin later than another: they are compared from
where all of them begin. Compaction does, too: what is left of a compacted topic is the same wherever two of
them have something, and says the same of every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.final_state import CopyOfLog
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset
from quorate.core.records import decode_batch

__all__ = ["NAME", "check"]

NAME: Final = "replicas-differ"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        copies = sorted(partition.final.copies.items())
        examined += len(copies)
        for broker, copy in copies:
            for fault in copy.faults:
                findings.add(f"{partition.partition} on {broker}: {fault}")
        for broker, copy in copies[1:]:
            first_broker, first = copies[0]
            is_compacted = partition.final.keys is not None
            offset = (_compacted_difference if is_compacted else _first_difference)(first, copy)
            if offset is not None:
                findings.add(
                    f"{partition.partition}: {first_broker} and {broker} differ from {offset} on, below the "
                    f"high watermark {partition.final.high_watermark}"
                )
    return findings.verdict(NAME, examined=examined)


def _compacted_difference(one: CopyOfLog, other: CopyOfLog) -> Offset | None:
    """Where they have different records, or the first that is the last word on its key for one of them."""
    if one.batches == other.batches:
        return None
    start = _common_start(one, other)
    mine, others = _records(one, start), _records(other, start)
    differing = {offset for offset in mine.keys() & others.keys() if mine[offset] != others[offset]}
    tables = _table(mine), _table(others)
    for key in tables[0].keys() | tables[1].keys():
        offsets = {offset for table in tables if (offset := table.get(key)) is not None}
        if len(offsets) != 1 or any(key not in table for table in tables):
            differing |= offsets
    return min(differing, default=None)


def _records(copy: CopyOfLog, start: Offset) -> dict[Offset, tuple[bytes | None, bytes | None]]:
    """Keys and values."""
    return {
        Offset(record.offset): (record.key, record.value)
        for batch in copy.batches.values()
        for record in decode_batch(batch)
        if record.offset >= start
    }


def _table(records: Mapping[Offset, tuple[bytes | None, bytes | None]]) -> dict[bytes | None, Offset]:
    """Where the last value of each key is that is not deleted."""
    latest = {key: offset for offset, (key, _) in records.items()}
    return {key: offset for key, offset in latest.items() if records[offset][1] is not None}


def _first_difference(one: CopyOfLog, other: CopyOfLog) -> Offset | None:
    if one.batches == other.batches:
        return None
    start = _common_start(one, other)
    offsets = {offset for copy in (one, other) for offset in copy.batches if offset >= start}
    return min(
        (offset for offset in offsets if one.batches.get(offset) != other.batches.get(offset)), default=None
    )


def _common_start(one: CopyOfLog, other: CopyOfLog) -> Offset:
    return max(min(copy.batches, default=Offset(0)) for copy in (one, other))
