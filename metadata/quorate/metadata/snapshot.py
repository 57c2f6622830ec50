"""An image as records, from which an equal image can be made anywhere.

A snapshot is a header and then records in one canonical order, cut into chunks. The chunks are what a
controller streams to a follower that is far behind; framed by their lengths they are also the bytes that the
quorum keeps on disk and sends to its own voters. One format, one writer, one reader.

100,000 partitions take seconds to write or read, and the quorum's heartbeats must go on meanwhile. So both
directions work on one chunk at a time and let the event loop turn in between. The image is immutable: nothing
that is committed meanwhile shows.

The reader trusts nothing: the number of records and the digest of the image that comes out must be those of
the header, so that a snapshot that lost a record, or that this software understands differently from the
writer, is refused and never served (rule 42).
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from quorate.core.ids import BrokerEpoch, BrokerId, TopicId, TopicName
from quorate.errors import InconsistentMetadata
from quorate.metadata.delta import ImageDraft
from quorate.metadata.digest import digest_from_bytes, digest_to_bytes
from quorate.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, RemovedTopicImage
from quorate.metadata.records import (
    cluster_record,
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    refuse_unknown_fields,
    topic_record,
    unsupported,
)
from quorate.v1.controller_pb2 import MetadataSnapshotChunk
from quorate.v1.metadata_pb2 import (
    BrokerSnapshotRecord,
    ConfigEpochSnapshotRecord,
    ForgottenTopicsSnapshotRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RemovedTopicSnapshotRecord,
    SnapshotHeader,
    SnapshotRecord,
)

__all__ = ["SnapshotLoader", "decode_snapshot", "encode_snapshot", "iter_snapshot_records", "snapshot_chunks"]

#: a few milliseconds of work
_CHUNK_RECORDS: Final = 250
_FRAME: Final = struct.Struct(">I")


async def encode_snapshot(image: MetadataImage) -> bytes:
    frames: list[bytes] = []
    for chunk in snapshot_chunks(image):
        encoded = chunk.SerializeToString()
        frames += (_FRAME.pack(len(encoded)), encoded)
        await asyncio.sleep(0)
    return b"".join(frames)


async def decode_snapshot(encoded: bytes) -> MetadataImage:
    loader = SnapshotLoader()
    image: MetadataImage | None = None
    for frame in _frames(encoded):
        if image is not None:
            raise InconsistentMetadata("a metadata snapshot goes on after its last chunk")
        try:
            chunk = MetadataSnapshotChunk.FromString(frame)
        except DecodeError as error:
            raise InconsistentMetadata(f"a metadata snapshot has a chunk that is none: {error}") from None
        image = loader.add(chunk)
        await asyncio.sleep(0)
    if image is None:
        raise InconsistentMetadata("a metadata snapshot ends before its last chunk")
    return image


def _frames(encoded: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(encoded):
        start = end = position + _FRAME.size
        if start <= len(encoded):
            end += _FRAME.unpack_from(encoded, position)[0]
        if end > len(encoded):
            raise InconsistentMetadata(f"a metadata snapshot of {len(encoded)} bytes is cut short")
        yield encoded[start:end]
        position = end


# --- writing -------------------------------------------------------------------------------------------


def snapshot_chunks(image: MetadataImage) -> Iterator[MetadataSnapshotChunk]:
    """Made one at a time, each when it is asked for."""
    header = SnapshotHeader(
        offset=image.offset, digest=digest_to_bytes(image.digest), record_count=_record_count(image)
    )
    records = iter_snapshot_records(image)
    left = header.record_count
    chunk = MetadataSnapshotChunk(header=header)
    while True:
        chunk.records.extend(itertools.islice(records, _CHUNK_RECORDS))
        left -= len(chunk.records)
        chunk.is_last = left == 0
        yield chunk
        if chunk.is_last:
            return
        chunk = MetadataSnapshotChunk()


def iter_snapshot_records(image: MetadataImage) -> Iterator[SnapshotRecord]:
    """Everything that is in the image, in an order that depends on nothing but the image."""
    for record in _cluster_records(image):
        yield SnapshotRecord(metadata=record)
    if image.cluster_config_epoch:
        yield _config_epoch_record("", image.cluster_config_epoch)
    for broker_id in sorted(image.brokers):
        yield SnapshotRecord(broker=_broker_record(image.brokers[broker_id]))
    for topic_id in sorted(image.topics):
        for record in _topic_records(image, topic_id):
            yield SnapshotRecord(metadata=record)
        if image.topics[topic_id].config_epoch:
            yield _config_epoch_record(topic_id, image.topics[topic_id].config_epoch)
    for topic_id in sorted(image.removed_topics):
        yield SnapshotRecord(removed_topic=_removed_topic_record(image.removed_topics[topic_id]))
    if image.forgotten_topics:
        forgotten = ForgottenTopicsSnapshotRecord(topic_ids=image.forgotten_topics)
        yield SnapshotRecord(forgotten_topics=forgotten)


def _record_count(image: MetadataImage) -> int:
    topics = image.topics.values()
    return (
        sum(1 for _ in _cluster_records(image))
        + bool(image.cluster_config_epoch)
        + len(image.brokers)
        + sum(1 + len(topic.configs) + len(topic.partitions) + bool(topic.config_epoch) for topic in topics)
        + len(image.removed_topics)
        + bool(image.forgotten_topics)
    )


def _cluster_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    # The level first: a reader that is too old stops before it misreads anything.
    if image.feature_level:
        yield feature_level_record(image.feature_level)
    if image.cluster_id or image.default_replication_factor:
        yield cluster_record(image.cluster_id, image.default_replication_factor)
    if image.next_producer_id:
        yield producer_ids_record(image.next_producer_id)
    for key in sorted(image.cluster_configs):
        yield config_record(None, key, image.cluster_configs[key])


def _topic_records(image: MetadataImage, topic_id: TopicId) -> Iterator[MetadataRecord]:
    topic = image.topics[topic_id]
    yield topic_record(topic_id, topic.name)
    for key in sorted(topic.configs):
        yield config_record(topic_id, key, topic.configs[key])
    yield from map(partition_record, topic.partitions)


def _config_epoch_record(topic_id: str, config_epoch: int) -> SnapshotRecord:
    return SnapshotRecord(
        config_epoch=ConfigEpochSnapshotRecord(topic_id=topic_id, config_epoch=config_epoch)
    )


def _broker_record(broker: BrokerImage) -> BrokerSnapshotRecord:
    return BrokerSnapshotRecord(
        registration=RegisterBrokerRecord(
            broker_id=broker.broker_id,
            incarnation_id=broker.incarnation_id,
            directory_id=broker.directory_id,
            address=broker.address,
            rack=broker.rack,
            feature_level_min=broker.feature_level_min,
            feature_level_max=broker.feature_level_max,
        ),
        broker_epoch=broker.broker_epoch,
        is_fenced=broker.is_fenced,
        is_shutting_down=broker.is_shutting_down,
        is_draining=broker.is_draining,
        cache_witness=broker.cache_witness,
        device_witness=broker.device_witness,
    )


def _removed_topic_record(topic: RemovedTopicImage) -> RemovedTopicSnapshotRecord:
    return RemovedTopicSnapshotRecord(
        topic_id=topic.topic_id,
        name=topic.name,
        removed_at_ms=topic.removed_at_ms,
        broker_ids=topic.broker_ids,
    )


# --- reading -------------------------------------------------------------------------------------------


class SnapshotLoader:
    """Takes the chunks of one snapshot in order; the last one yields the image."""

    def __init__(self) -> None:
        self._draft = ImageDraft(EMPTY_IMAGE, is_of_snapshot=True)
        self._header: SnapshotHeader | None = None
        self._record_count = 0

    def add(self, chunk: MetadataSnapshotChunk) -> MetadataImage | None:
        refuse_unknown_fields(chunk)
        if chunk.HasField("header") != (self._header is None):
            raise InconsistentMetadata("a metadata snapshot has no header, or two")
        if self._header is None:
            self._header = chunk.header
        offset = self._header.offset
        for record in chunk.records:
            self._add_record(record, offset)
        self._record_count += len(chunk.records)
        # Closing costs more the more topics are open: a little with each chunk, not all at the end.
        self._draft.close_topics()
        return self._finish(self._header) if chunk.is_last else None

    def _add_record(self, record: SnapshotRecord, offset: int) -> None:
        kind = record.WhichOneof("record")
        if kind == "metadata":
            self._draft.apply(record.metadata, offset)
        elif kind == "broker":
            self._draft.put_broker(_broker_image(record.broker))
        elif kind == "removed_topic":
            self._draft.put_removed_topic(_removed_topic_image(record.removed_topic))
        elif kind == "config_epoch":
            of = record.config_epoch
            self._draft.put_config_epoch(TopicId(of.topic_id) if of.topic_id else None, of.config_epoch)
        elif kind == "forgotten_topics":
            for topic_id in record.forgotten_topics.topic_ids:
                self._draft.put_forgotten_topic(TopicId(topic_id))
        else:
            raise unsupported("a metadata snapshot has a record of a kind that this software does not know")

    def _finish(self, header: SnapshotHeader) -> MetadataImage:
        if self._record_count != header.record_count:
            raise InconsistentMetadata(
                f"a metadata snapshot of {header.record_count} records has {self._record_count}"
            )
        image = self._draft.finish(header.offset)
        if image.digest != digest_from_bytes(header.digest):
            raise InconsistentMetadata(
                f"the metadata snapshot at offset {header.offset} has the digest {header.digest.hex()}, "
                f"and the image made from it {digest_to_bytes(image.digest).hex()}",
                offset=header.offset,
            )
        return image


def _broker_image(record: BrokerSnapshotRecord) -> BrokerImage:
    registration = record.registration
    return BrokerImage(
        broker_id=BrokerId(registration.broker_id),
        broker_epoch=BrokerEpoch(record.broker_epoch),
        incarnation_id=registration.incarnation_id,
        directory_id=registration.directory_id,
        address=registration.address,
        rack=registration.rack,
        feature_level_min=registration.feature_level_min,
        feature_level_max=registration.feature_level_max,
        is_fenced=record.is_fenced,
        is_shutting_down=record.is_shutting_down,
        is_draining=record.is_draining,
        cache_witness=record.cache_witness if record.HasField("cache_witness") else None,
        device_witness=record.device_witness,
    )


def _removed_topic_image(record: RemovedTopicSnapshotRecord) -> RemovedTopicImage:
    return RemovedTopicImage(
        topic_id=TopicId(record.topic_id),
        name=TopicName(record.name),
        removed_at_ms=record.removed_at_ms,
        broker_ids=tuple(map(BrokerId, record.broker_ids)),
    )
