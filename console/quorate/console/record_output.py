"""Records as lines on standard output, up to a number of them."""

from __future__ import annotations

import sys
from typing import Final

from quorate.client import ConsumerRecord, TopicPartition
from quorate.console.output import print_json_line
from quorate.console.record_document import record_document
from quorate.console.session import Session
from quorate.core.ids import PartitionId, TopicName

__all__ = ["RecordOutput", "partition_of"]

_POLL_RECORDS: Final = 1_000


class RecordOutput:
    def __init__(self, session: Session, *, records_max: int | None) -> None:
        """``records_max``: None means all."""
        self._is_json = session.json
        self._records_max = records_max
        self._count = 0

    @property
    def is_enough(self) -> bool:
        return self._records_max is not None and self._count >= self._records_max

    @property
    def wanted(self) -> int:
        """How many records to poll for: what is polled is printed."""
        if self._records_max is None:
            return _POLL_RECORDS
        return min(_POLL_RECORDS, self._records_max - self._count)

    def print(self, record: ConsumerRecord) -> None:
        if self._is_json:
            where = {"topic": record.topic, "partition": record.partition}
            print_json_line({**where, **record_document(record), "leader_epoch": record.leader_epoch})
        else:
            sys.stdout.buffer.write((record.value or b"") + b"\n")
        self._count += 1

    def flush(self) -> None:
        """Whoever reads it has it now."""
        sys.stdout.flush()


def partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(TopicName(record.topic), PartitionId(record.partition))
