"""What the segment files of a replica hold, read without the broker that wrote them.

The broker may be running or not. What lies below the high watermark is written and does not change; what lies
above it is not looked at. Everything that is wrong is told, not only the first thing: a replica whose files
cannot be read is itself what a proof is to find.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from quorate.chaos.checks.final_state import CopyOfLog
from quorate.core.disk import Disk
from quorate.core.ids import Offset, PartitionId, TopicId
from quorate.core.records import check_batch, decode_batch, parse_header, split_batches
from quorate.errors import CorruptBatch
from quorate.storage.log_files import list_segments
from quorate.storage.partition_key import PartitionKey
from quorate.storage.segment import LOG_SUFFIX, segment_path

__all__ = ["ReplicaFiles", "read_replica", "replica_directory", "replicas_in"]


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    copy: CopyOfLog
    #: values by offset, below the high watermark
    records: dict[Offset, bytes]


def replicas_in(disk: Disk, data_dir: str) -> dict[PartitionKey, str]:
    """The directory of each replica that lies in a broker's data directory."""
    keys = (PartitionKey.parse(name) for name in disk.list(data_dir))
    return {key: f"{data_dir}/{key.directory_name}" for key in keys if key is not None}


def replica_directory(disk: Disk, data_dir: str, topic_id: TopicId, partition: PartitionId) -> str | None:
    """None: it holds no replica of that."""
    for key, directory in replicas_in(disk, data_dir).items():
        if (key.topic_id, key.partition) == (topic_id, partition):
            return directory
    return None


def read_replica(
    disk: Disk, directory: str, *, log_start_offset: Offset, high_watermark: Offset
) -> ReplicaFiles:
    """Each batch below the high watermark by a digest of its bytes, and the records in them."""
    batches: dict[Offset, bytes] = {}
    records: dict[Offset, bytes] = {}
    faults: list[str] = []
    due = log_start_offset
    try:
        for batch in _batches(disk, directory, high_watermark):
            header = parse_header(batch)
            base_offset = Offset(header.base_offset)
            # The first one may begin before the log does: retention deletes whole files.
            if base_offset > due or (batches and base_offset < due):
                faults.append(f"a batch begins at {base_offset}, {due} was due")
            check_batch(batch)
            batches[base_offset] = hashlib.sha256(batch).digest()
            for record in decode_batch(batch):
                records[Offset(record.offset)] = record.value or b""
            due = Offset(header.last_offset + 1)
        if due != high_watermark:
            faults.append(f"its files end at {due}, {high_watermark} was committed")
    except CorruptBatch as error:
        faults.append(f"damaged after {due}: {error.message}")
    return ReplicaFiles(CopyOfLog(batches, tuple(faults)), records)


def _batches(disk: Disk, directory: str, end_offset: Offset) -> Iterator[bytes]:
    for base_offset in list_segments(disk, directory):
        content = disk.read_file(segment_path(directory, base_offset, LOG_SUFFIX))
        for batch in split_batches(content):
            if parse_header(batch).base_offset >= end_offset:
                return
            yield bytes(batch)
