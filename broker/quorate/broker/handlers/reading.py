"""What a fetch reads from one partition, before it becomes a message.

Kept apart from the message, because a fetch that finds too little drops what it has read, and the memory of a
protobuf message goes only with the whole message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.broker.controller_link.lease import Lease, fenced
from quorate.broker.handlers.client_errors import for_client
from quorate.broker.handlers.structured_records import decode_records
from quorate.broker.handlers.targets import known_epoch
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.reader import Reader
from quorate.core.ids import Offset
from quorate.errors import OffsetNotAvailable, OffsetOutOfRange, QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2, errors_pb2, records_pb2

__all__ = ["Budget", "PartitionReading", "fill_fetch_response", "read_partition"]

#: where the request does not say, as Kafka's consumer
_PARTITION_BYTES_MAX: Final = 1 << 20


class Budget:
    """How many bytes an answer may still take, as its partitions are read one after another."""

    __slots__ = ("bytes_left", "bytes_read")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_left = bytes_max
        self.bytes_read = 0

    def allows(self, size: int) -> bool:
        """The first partition that has something sends at least one batch, however large.

        Otherwise its reader would get stuck. In any other partition, what is larger than the bytes left
        waits for a fetch in which it comes first.
        """
        return size <= self.bytes_left or self.bytes_read == 0

    def spend(self, size: int) -> None:
        self.bytes_left -= size
        self.bytes_read += size


class PartitionReading:
    __slots__ = (
        "batches",
        "error",
        "high_watermark",
        "leader_epoch",
        "log_start_offset",
        "next_fetch_offset",
        "partition",
        "records",
        "topic",
        "topic_id",
    )

    def __init__(self, entry: broker_pb2.FetchPartition) -> None:
        self.topic: str = entry.topic
        self.topic_id: str = entry.topic_id
        self.partition = entry.partition
        #: as a message: an exception's traceback would hold what was read
        self.error: errors_pb2.ErrorDetail | None = None
        #: None: there is no such partition here
        self.high_watermark: Offset | None = None
        self.log_start_offset = Offset(0)
        self.leader_epoch = 0
        # Until something is read, the reader stays where it is.
        self.next_fetch_offset = Offset(entry.fetch_offset)
        self.batches = b""
        self.records: Sequence[records_pb2.Record] = ()

    def describe(self, partition: Partition) -> None:
        self.topic, self.topic_id = partition.topic_partition.topic, partition.topic_id
        self.high_watermark = partition.high_watermark
        self.log_start_offset = partition.log.log_start_offset
        self.leader_epoch = partition.leader_epoch

    def fill(self, result: broker_pb2.FetchPartitionResult, *, fenced: errors_pb2.ErrorDetail | None) -> None:
        result.topic, result.topic_id, result.partition = self.topic, self.topic_id, self.partition
        error = fenced if fenced is not None else self.error
        if error is not None:
            result.error.CopyFrom(error)
        if self.high_watermark is None or fenced is not None:
            return
        result.high_watermark = self.high_watermark
        # There are no transactions yet that could be undecided.
        result.last_stable_offset = self.high_watermark
        result.log_start_offset = self.log_start_offset
        result.leader_epoch = self.leader_epoch
        result.next_fetch_offset = self.next_fetch_offset
        if self.batches:
            result.batches = self.batches
        elif self.records:
            result.records.extend(self.records)


def read_partition(
    request: broker_pb2.FetchRequest,
    entry: broker_pb2.FetchPartition,
    target: Partition | QuorateError,
    budget: Budget,
    hosted: Hosted,
) -> PartitionReading:
    reading = PartitionReading(entry)
    if isinstance(target, QuorateError):
        reading.error = detail_from_error(target)
        return reading
    reading.describe(target)
    try:
        reader = target.require_reader(known_epoch(entry), allow_follower=request.allow_follower)
        if budget.bytes_left > 0:
            asked = (
                entry.partition_max_bytes if entry.HasField("partition_max_bytes") else _PARTITION_BYTES_MAX
            )
            bytes_max = min(asked, budget.bytes_left)
            structured = request.format == broker_pb2.RECORD_FORMAT_RECORDS
            _read(reading, reader, budget, structured=structured, bytes_max=bytes_max)
    except OffsetOutOfRange as error:
        reading.error = detail_from_error(_not_yet(error) if _is_behind(target, reading) else error)
    except QuorateError as error:
        reading.error = detail_from_error(for_client(error, hosted))
    return reading


def _read(
    reading: PartitionReading, reader: Reader, budget: Budget, *, structured: bool, bytes_max: int
) -> None:
    fetch_offset = reading.next_fetch_offset
    read = reader.read(fetch_offset, bytes_max=bytes_max)
    if not structured:
        if budget.allows(len(read.batches)):
            reading.batches, reading.next_fetch_offset = read.batches, read.next_offset
            budget.spend(len(read.batches))
        return
    decoded = decode_records(read.batches, from_offset=fetch_offset, bytes_max=bytes_max)
    if budget.allows(decoded.size):
        reading.records, reading.next_fetch_offset = decoded.records, decoded.next_offset
        budget.spend(decoded.size)


def _is_behind(partition: Partition, reading: PartitionReading) -> bool:
    """A follower that lacks the offset says nothing about the log: only the leader knows where it ends."""
    return partition.leadership is None and reading.next_fetch_offset > partition.log.log_end_offset


def _not_yet(error: OffsetOutOfRange) -> OffsetNotAvailable:
    return OffsetNotAvailable(f"this follower is behind: {error.message}", **error.facts)


def fill_fetch_response(
    response: broker_pb2.FetchResponse, readings: Sequence[PartitionReading], lease: Lease
) -> None:
    """The answer as it leaves, now: without the lease another leader may have gone on already (rule 37)."""
    error = None if lease.is_valid else detail_from_error(fenced())
    for reading in readings:
        reading.fill(response.partitions.add(), fenced=error)
