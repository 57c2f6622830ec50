"""Records as bytes; nothing that this software does not know gets past the decoder."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from quorate.errors import InconsistentMetadata, UnsupportedFeatureLevel
from quorate.metadata.records import decode_batch, encode_batch
from quorate.v1 import metadata_pb2 as pb
from quorate.v1.metadata_pb2 import MetadataBatch, MetadataRecord
from tests.unit.metadata.metadata_walk import Walk

#: field 1023, a number, as a newer version might have
UNKNOWN_FIELD = b"\xf8\x3f\x01"

# What a node of feature level 1 understands. A change here is a change of the metadata's format: it needs a
# new feature level, before which nobody writes it (docs/adr/0010-metadata-image.md).
LEVEL_1 = {
    "MetadataBatch": ["records=1"],
    "MetadataRecord": [
        "feature_level=1 cluster=2 register_broker=3 broker_change=4 unregister_broker=5",
        "topic=6 remove_topic=7 replicas_removed=8 partition=9 partition_change=10",
        "config=11 producer_ids=12",
    ],
    "FeatureLevelRecord": ["level=1"],
    "ClusterRecord": ["cluster_id=1 default_replication_factor=2"],
    "RegisterBrokerRecord": [
        "broker_id=1 incarnation_id=2 directory_id=3 address=4 rack=5 feature_level_min=6",
        "feature_level_max=7 is_draining=9 cache_witness=10 device_witness=11",
    ],
    "BrokerChangeRecord": [
        "broker_id=1 broker_epoch=2 is_fenced=3 is_shutting_down=4 is_draining=5",
        "cache_witness=6 device_witness=7",
    ],
    "UnregisterBrokerRecord": ["broker_id=1 broker_epoch=2"],
    "TopicRecord": ["topic_id=1 name=2"],
    "RemoveTopicRecord": ["topic_id=1 removed_at_ms=2"],
    "ReplicasRemovedRecord": ["topic_id=1 broker_id=2"],
    "PartitionRecord": [
        "topic_id=1 partition=2 replicas=3 isr=4 elr=5 last_known_elr=6 leader=7",
        "leader_epoch=8 partition_epoch=9 adding_replicas=10 removing_replicas=11",
        "recovery_state=12 unclean_leader_epochs=13 is_synced=14",
    ],
    "BrokerList": ["broker_ids=1"],
    "PartitionChangeRecord": [
        "topic_id=1 partition=2 partition_epoch=3 replicas=4 isr=5 elr=6 last_known_elr=7",
        "leader=8 leader_epoch=9 adding_replicas=10 removing_replicas=11",
        "recovery_state=12 is_unclean=13 is_synced=14",
    ],
    "ConfigRecord": ["resource=1 topic_id=2 key=3 value=4"],
    "ProducerIdsRecord": ["broker_id=1 broker_epoch=2 next_producer_id=3"],
    "SnapshotHeader": ["offset=1 digest=2 record_count=3"],
    "BrokerSnapshotRecord": [
        "registration=1 broker_epoch=2 is_fenced=3 is_shutting_down=4 is_draining=5",
        "cache_witness=6 device_witness=7",
    ],
    "RemovedTopicSnapshotRecord": ["topic_id=1 name=2 removed_at_ms=3 broker_ids=4"],
    "ConfigEpochSnapshotRecord": ["topic_id=1 config_epoch=2"],
    "ForgottenTopicsSnapshotRecord": ["topic_ids=1"],
    "SnapshotRecord": ["metadata=1 broker=2 removed_topic=3 config_epoch=4 forgotten_topics=5"],
    "RecoveryState": ["RECOVERY_STATE_UNSPECIFIED=0 RECOVERY_STATE_NORMAL=1 RECOVERY_STATE_RECOVERING=2"],
    "ConfigResource": ["CONFIG_RESOURCE_UNSPECIFIED=0 CONFIG_RESOURCE_TOPIC=1 CONFIG_RESOURCE_CLUSTER=2"],
}


def test_format_of_feature_level_1_is_settled() -> None:
    messages = {
        name: " ".join(f"{field.name}={field.number}" for field in sorted(message.fields, key=_number))
        for name, message in pb.DESCRIPTOR.message_types_by_name.items()
    }
    enums = {
        name: " ".join(f"{value.name}={value.number}" for value in enum.values)
        for name, enum in pb.DESCRIPTOR.enum_types_by_name.items()
    }
    assert messages | enums == {name: " ".join(lines) for name, lines in LEVEL_1.items()}


def _number(field: object) -> int:
    number: int = field.number  # type: ignore[attr-defined]  # a descriptor's
    return number


def test_batch_survives_its_bytes() -> None:
    walk = Walk(random.Random(3))
    for _ in range(50):
        walk.step()
    for batch in walk.batches.values():
        assert decode_batch(encode_batch(batch.records)) == batch


def _with_unknown_field_somewhere() -> Iterator[tuple[str, MetadataBatch]]:
    batch = MetadataBatch(records=[MetadataRecord(topic=pb.TopicRecord(topic_id="t"))])
    batch.MergeFromString(UNKNOWN_FIELD)
    yield "the batch", batch
    for field in MetadataRecord.DESCRIPTOR.oneofs_by_name["record"].fields:
        record = MetadataRecord()
        getattr(record, field.name).SetInParent()
        getattr(record, field.name).MergeFromString(UNKNOWN_FIELD)
        yield field.name, MetadataBatch(records=[MetadataRecord(), record])
    change = pb.PartitionChangeRecord()
    change.isr.MergeFromString(UNKNOWN_FIELD)
    yield "a list", MetadataBatch(records=[MetadataRecord(partition_change=change)])
    record = MetadataRecord()
    record.MergeFromString(UNKNOWN_FIELD)
    yield "the kind of record", MetadataBatch(records=[record])


@pytest.mark.parametrize(
    "batch", [pytest.param(batch, id=where) for where, batch in _with_unknown_field_somewhere()]
)
def test_field_of_a_newer_version_is_refused_wherever_it_is(batch: MetadataBatch) -> None:
    encoded = batch.SerializeToString()
    assert UNKNOWN_FIELD in encoded
    with pytest.raises(UnsupportedFeatureLevel, match="install the version"):
        decode_batch(encoded)


def test_a_known_field_with_another_type_is_refused_too() -> None:
    # Field 2 of TopicRecord is a string; a number in its place is unknown to protobuf, and would be dropped.
    record = MetadataRecord(topic=pb.TopicRecord(topic_id="t"))
    record.topic.MergeFromString(b"\x10\x05")
    with pytest.raises(UnsupportedFeatureLevel):
        decode_batch(encode_batch([record]))


@pytest.mark.parametrize("encoded", [b"\xff", b"\x0a\x05\x0a", b"\x0a\x7f"])
def test_bytes_that_are_no_batch_are_refused(encoded: bytes) -> None:
    with pytest.raises(InconsistentMetadata):
        decode_batch(encoded)
