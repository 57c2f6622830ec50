"""The batch that a client wants appended: its bytes, or its structured records encoded, if it may be.

What is looked at here is what a topic may decide: which kinds of batches, which times, and whether records
need keys. Checksum, size, counts and compression are checked by the log, which has to know of them anyway.
"""

from __future__ import annotations

from typing import Final

from quorate.broker.handlers.structured_records import encode_records
from quorate.core.config import TopicConfig
from quorate.core.ids import TimestampMs
from quorate.core.records import BatchHeader, has_null_key, parse_header
from quorate.errors import InvalidRecord, InvalidRequest, InvalidTimestamp, UnsupportedBatch
from quorate.v1 import broker_pb2

__all__ = ["batch_of"]

#: a batch whose records have no time of their own
_NO_TIMESTAMP: Final = -1


def batch_of(entry: broker_pb2.ProducePartition, topic: TopicConfig, *, now_ms: TimestampMs) -> bytes:
    batch = entry.batch
    if bool(batch) == bool(entry.records):
        raise InvalidRequest("a partition gets either records or a batch; this one has both or neither")
    if not batch:
        batch = encode_records(entry.records, received_ms=now_ms)
    header = parse_header(batch)
    if header.is_transactional or header.is_control:
        kind = "control" if header.is_control else "transactional"
        raise UnsupportedBatch(f"{kind} batches are not accepted from clients")
    _check_times(header, topic, now_ms)
    if topic.is_compacted:
        _check_keys(batch)
    return batch


def _check_keys(batch: bytes) -> None:
    """All of it is decoded here, once, and not only counted: compaction has to take it apart later on."""
    if has_null_key(batch):
        raise InvalidRecord("the topic is compacted (cleanup.policy), and a record of the batch has no key")


def _check_times(header: BatchHeader, topic: TopicConfig, now_ms: TimestampMs) -> None:
    """By the header alone: the first record stands for the oldest, because a broker unpacks no batch."""
    if header.max_timestamp == _NO_TIMESTAMP:
        return
    ahead_max_ms = topic.message_timestamp_after_max_ms
    if 0 <= ahead_max_ms < header.max_timestamp - now_ms:
        raise InvalidTimestamp(
            f"the batch has a timestamp {header.max_timestamp - now_ms} ms ahead of the broker's clock, "
            f"message.timestamp.after.max.ms is {ahead_max_ms}",
            timestamp_ms=header.max_timestamp,
            message_timestamp_after_max_ms=ahead_max_ms,
        )
    behind_max_ms = topic.message_timestamp_before_max_ms
    if 0 <= behind_max_ms < now_ms - header.base_timestamp:
        raise InvalidTimestamp(
            f"the batch has a timestamp {now_ms - header.base_timestamp} ms behind the broker's clock, "
            f"message.timestamp.before.max.ms is {behind_max_ms}",
            timestamp_ms=header.base_timestamp,
            message_timestamp_before_max_ms=behind_max_ms,
        )
