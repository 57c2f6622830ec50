"""What the segment files of a replica hold, read without the broker that wrote them.

The broker may be running or not. What lies below the high watermark is written and does not change; what lies
above it is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.chaos.cluster.checks import Violation
from quorate.core.disk import Disk
from quorate.core.ids import Offset, PartitionId, TopicId
from quorate.core.records import check_batch, decode_batch, parse_header, split_batches
from quorate.storage.log_files import list_segments
from quorate.storage.partition_key import PartitionKey
from quorate.storage.segment import LOG_SUFFIX, segment_path

__all__ = ["batches_in_files", "records_in_batches", "replica_directory", "replicas_in"]


def replicas_in(disk: Disk, data_dir: str) -> dict[PartitionKey, str]:
    """The directory of each replica that lies in a broker's data directory."""
    keys = (PartitionKey.parse(name) for name in disk.list(data_dir))
    return {key: f"{data_dir}/{key.directory_name}" for key in keys if key is not None}


def replica_directory(disk: Disk, data_dir: str, topic_id: TopicId, partition: PartitionId) -> str:
    for key, directory in replicas_in(disk, data_dir).items():
        if (key.topic_id, key.partition) == (topic_id, partition):
            return directory
    raise Violation(f"{data_dir} holds no replica of partition {partition} of {topic_id}")


def batches_in_files(disk: Disk, directory: str, end_offset: Offset) -> bytes:
    """Every batch below ``end_offset`` as it is stored: each whole and sound, and no gap between them."""
    batches = list(_batches(disk, directory, end_offset))
    next_offset = Offset(0)
    for batch in batches:
        check_batch(batch)
        header = parse_header(batch)
        if header.base_offset != next_offset:
            raise Violation(f"{directory}: a batch begins at {header.base_offset}, {next_offset} was due")
        next_offset = Offset(header.last_offset + 1)
    if next_offset != end_offset:
        raise Violation(f"{directory}: its files end at {next_offset}, {end_offset} was committed")
    return b"".join(batches)


def _batches(disk: Disk, directory: str, end_offset: Offset) -> Iterator[bytes]:
    for base_offset in list_segments(disk, directory):
        content = disk.read_file(segment_path(directory, base_offset, LOG_SUFFIX))
        for batch in split_batches(content):
            if parse_header(batch).base_offset >= end_offset:
                return
            yield bytes(batch)


def records_in_batches(batches: bytes) -> dict[Offset, bytes]:
    """Value by offset."""
    return {
        Offset(record.offset): record.value or b""
        for batch in split_batches(batches)
        for record in decode_batch(batch)
    }
