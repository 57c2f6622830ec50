"""Records make images: what each kind does, and what is refused because it cannot be right."""

from __future__ import annotations

import dataclasses
import random

import pytest
from immutables import Map

from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.errors import InconsistentMetadata, UnsupportedFeatureLevel
from quorate.metadata import delta
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.digest import full_digest
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage, Recovery
from quorate.metadata.records import (
    cluster_record,
    config_record,
    feature_level_record,
    partition_record,
    topic_record,
)
from quorate.v1 import metadata_pb2 as pb
from quorate.v1.metadata_pb2 import MetadataRecord
from tests.unit.metadata.metadata_walk import Walk, a_walk, founding_records, registration

TOPIC = TopicId("t" * 22)


def brokers(*broker_ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, broker_ids))


def a_partition(number: int = 0, replicas: tuple[BrokerId, ...] = brokers(3, 1, 2)) -> PartitionImage:
    return PartitionImage(
        topic_id=TOPIC,
        partition=PartitionId(number),
        replicas=replicas,
        isr=tuple(sorted(replicas)),
        elr=(),
        last_known_elr=(),
        leader=replicas[0],
        leader_epoch=LeaderEpoch(5),
        partition_epoch=7,
    )


@pytest.fixture
def image() -> MetadataImage:
    """Five brokers, one topic of two partitions."""
    founded = apply_batch(EMPTY_IMAGE, founding_records(), 1)
    topic = [topic_record(TOPIC, TopicName("orders")), *(partition_record(a_partition(n)) for n in (0, 1))]
    return apply_batch(founded, topic, 2)


def applied(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    after = apply_batch(image, records, image.offset + 1)
    assert after.digest == full_digest(after)
    return after


def partition_change(**fields: object) -> MetadataRecord:
    named: dict[str, object] = {"topic_id": TOPIC, "partition": 0, "partition_epoch": 8, **fields}
    return MetadataRecord(partition_change=pb.PartitionChangeRecord(**named))  # type: ignore[arg-type]


def broker_list(*broker_ids: int) -> pb.BrokerList:
    return pb.BrokerList(broker_ids=broker_ids)


def test_an_image_never_changes() -> None:
    walk = Walk(random.Random(1))
    before = walk.image
    copies = [dataclasses.replace(image) for image in walk.images]
    for _ in range(50):
        walk.step()
    assert walk.images[: len(copies)] == copies
    assert before.digest == full_digest(before)


def test_image_can_be_searched_by_what_it_is_keyed_by() -> None:
    for seed in range(10):
        for image in a_walk(seed).images:
            for topic_id, topic in image.topics.items():
                assert (topic.topic_id, image.topic_named(topic.name)) == (topic_id, topic)
                for number, partition in enumerate(topic.partitions):
                    assert (partition.topic_id, partition.partition) == (topic_id, number)
                    assert image.partition(topic_id, partition.partition) is partition
            assert len(image.topic_ids) == len(image.topics)
            assert all(broker.broker_id == broker_id for broker_id, broker in image.brokers.items())
            assert not {*image.topics} & {*image.removed_topics}


def test_broker_epoch_is_the_offset_of_the_registration_and_it_starts_fenced(image: MetadataImage) -> None:
    after = applied(image, registration(9, is_draining=True))
    broker = after.brokers[BrokerId(9)]
    assert broker.broker_epoch == after.offset == 3
    assert broker.is_fenced
    assert broker.is_draining
    assert not broker.is_active


def test_registering_again_replaces_the_run_before(image: MetadataImage) -> None:
    unfence = pb.BrokerChangeRecord(broker_id=1, broker_epoch=1, is_fenced=False, is_shutting_down=True)
    after = applied(image, MetadataRecord(broker_change=unfence))
    assert not after.brokers[BrokerId(1)].is_fenced
    again = applied(after, registration(1, incarnation="new"))
    broker = again.brokers[BrokerId(1)]
    assert (broker.incarnation_id, broker.broker_epoch, broker.is_fenced) == ("new", 4, True)
    assert not broker.is_shutting_down


def test_absent_fields_of_a_broker_change_stay_as_they_are(image: MetadataImage) -> None:
    change = pb.BrokerChangeRecord(broker_id=1, broker_epoch=1, is_draining=True)
    broker = applied(image, MetadataRecord(broker_change=change)).brokers[BrokerId(1)]
    assert dataclasses.replace(broker, is_draining=False) == image.brokers[BrokerId(1)]


def test_absent_fields_of_a_partition_change_stay_as_they_are(image: MetadataImage) -> None:
    after = applied(image, partition_change())
    assert after.topics[TOPIC].partitions[0] == dataclasses.replace(a_partition(), partition_epoch=8)
    assert after.topics[TOPIC].partitions[1] is image.topics[TOPIC].partitions[1]


def test_each_field_of_a_partition_can_change(image: MetadataImage) -> None:
    change = partition_change(
        replicas=broker_list(1, 2, 3, 4),
        isr=broker_list(1),
        elr=broker_list(2),
        last_known_elr=broker_list(3),
        leader=1,
        leader_epoch=6,
        adding_replicas=broker_list(4),
        removing_replicas=broker_list(2),
        recovery_state=pb.RECOVERY_STATE_RECOVERING,
        is_unclean=True,
    )
    partition = applied(image, change).topics[TOPIC].partitions[0]
    assert partition == PartitionImage(
        topic_id=TOPIC,
        partition=PartitionId(0),
        replicas=brokers(1, 2, 3, 4),
        isr=brokers(1),
        elr=brokers(2),
        last_known_elr=brokers(3),
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(6),
        partition_epoch=8,
        adding_replicas=brokers(4),
        removing_replicas=brokers(2),
        recovery=Recovery.RECOVERING,
        unclean_leader_epochs=(LeaderEpoch(6),),
    )


def test_lists_of_a_partition_can_become_empty_and_its_leader_none(image: MetadataImage) -> None:
    change = partition_change(isr=broker_list(), leader=NO_LEADER, leader_epoch=6)
    partition = applied(image, change).topics[TOPIC].partitions[0]
    assert partition.isr == ()
    assert partition.leader == NO_LEADER


def test_records_of_one_batch_build_on_each_other(image: MetadataImage) -> None:
    other = TopicId("o" * 22)
    after = applied(
        image,
        partition_change(),
        config_record(TOPIC, "retention.ms", "5"),
        partition_change(partition_epoch=9),
        topic_record(other, TopicName("other")),
        config_record(other, "retention.ms", "6"),
        MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=other)),
    )
    assert after.topics[TOPIC].partitions[0].partition_epoch == 9
    assert after.topics[TOPIC].configs == Map({"retention.ms": "5"})
    assert list(after.topics) == [TOPIC]
    assert not after.removed_topics


def test_deleted_topic_frees_its_name_and_is_kept_until_every_holder_has_let_go(image: MetadataImage) -> None:
    deleted = applied(
        image, MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=TOPIC, removed_at_ms=9))
    )
    assert deleted.topic_named(TopicName("orders")) is None
    assert deleted.removed_topics[TOPIC].broker_ids == brokers(1, 2, 3)
    # The name may be used again; the id may not (rule 43).
    again = applied(deleted, topic_record(TopicId("n" * 22), TopicName("orders")))
    assert again.topic_ids == Map({"orders": "n" * 22})
    for broker_id in (2, 1, 3):
        assert TOPIC in again.removed_topics
        removed = pb.ReplicasRemovedRecord(topic_id=TOPIC, broker_id=broker_id)
        again = applied(again, MetadataRecord(replicas_removed=removed))
    assert not again.removed_topics
    assert again.forgotten_topics == (TOPIC,)
    with pytest.raises(InconsistentMetadata, match="was in use"):
        applied(again, topic_record(TOPIC, TopicName("other")))


def test_ids_of_deleted_topics_are_forgotten_in_order_once_there_are_too_many(
    image: MetadataImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "FORGOTTEN_TOPICS_MAX", 3)
    ids = [TopicId(f"{number}" * 22) for number in range(5)]
    for topic_id in ids:
        image = applied(
            image,
            topic_record(topic_id, TopicName("short-lived")),
            MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=topic_id)),
        )
    assert image.forgotten_topics == tuple(ids[-3:])
    assert image.digest == full_digest(image)


def test_every_setting_that_is_written_counts_also_where_it_stays_as_it_was(image: MetadataImage) -> None:
    for topic_id in (TOPIC, None):
        after = applied(image, config_record(topic_id, "a", "1"), config_record(topic_id, "a", "1"))
        after = applied(after, config_record(topic_id, "absent", None))
        epochs = (after.cluster_config_epoch, after.topics[TOPIC].config_epoch)
        assert epochs == ((3, 0) if topic_id is None else (0, 3))
        # What happens to partitions is none of it.
        after = applied(after, partition_change())
        assert (after.cluster_config_epoch, after.topics[TOPIC].config_epoch) == epochs


def test_holders_of_a_deleted_topic_are_listed_in_order(image: MetadataImage) -> None:
    # Python keeps a set of these in another order.
    after = applied(image, partition_change(replicas=broker_list(32, 16, 8, 1)))
    after = applied(after, MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=TOPIC)))
    assert after.removed_topics[TOPIC].broker_ids == brokers(1, 2, 3, 8, 16, 32)


def test_nobody_waits_for_an_unregistered_broker_to_remove_a_topic(image: MetadataImage) -> None:
    after = applied(image, MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=TOPIC)))
    for broker_id in (1, 2, 3):
        gone = pb.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=1)
        after = applied(after, MetadataRecord(unregister_broker=gone))
    assert sorted(after.brokers) == [4, 5]
    assert not after.removed_topics


def test_a_setting_without_a_value_goes_back_to_the_default(image: MetadataImage) -> None:
    for topic_id in (TOPIC, None):
        after = applied(image, config_record(topic_id, "a", "1"), config_record(topic_id, "b", ""))
        after = applied(after, config_record(topic_id, "a", None), config_record(topic_id, "absent", None))
        configs = after.cluster_configs if topic_id is None else after.topics[topic_id].configs
        assert configs == Map({"b": ""})


def test_entry_without_records_moves_the_offset_alone(image: MetadataImage) -> None:
    after = advance(image, 10)
    assert after == dataclasses.replace(image, offset=10)


def test_equal_lists_of_brokers_are_kept_once(image: MetadataImage) -> None:
    first, second = image.topics[TOPIC].partitions
    assert first.replicas is second.replicas


CONTRADICTIONS = {
    "a change of an unknown topic": partition_change(topic_id="x"),
    "a change of an unknown partition": partition_change(partition=2),
    "a change of a negative partition": partition_change(partition=-1),
    "a partition epoch that was used": partition_change(partition_epoch=7),
    "a partition epoch that leaves one out": partition_change(partition_epoch=9),
    "a leader epoch that goes back": partition_change(leader=1, leader_epoch=4),
    "a partition that exists": partition_record(a_partition(1)),
    "a partition that leaves one out": partition_record(a_partition(3)),
    "a topic id that is in use": topic_record(TOPIC, TopicName("other")),
    "a topic name that is in use": topic_record(TopicId("o" * 22), TopicName("orders")),
    "the end of an unknown topic": MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id="x")),
    "an end that nobody waits for": MetadataRecord(
        replicas_removed=pb.ReplicasRemovedRecord(topic_id=TOPIC, broker_id=1)
    ),
    "a setting of an unknown topic": config_record(TopicId("x"), "a", "1"),
    "a change of an unknown broker": MetadataRecord(
        broker_change=pb.BrokerChangeRecord(broker_id=9, broker_epoch=1)
    ),
    "a change of an old run": MetadataRecord(
        broker_change=pb.BrokerChangeRecord(broker_id=1, broker_epoch=0)
    ),
    "the end of an old run": MetadataRecord(
        unregister_broker=pb.UnregisterBrokerRecord(broker_id=1, broker_epoch=0)
    ),
    "another cluster": cluster_record("another", 0),
    "a lower feature level": feature_level_record(0),
    "producer ids that were given away": MetadataRecord(producer_ids=pb.ProducerIdsRecord()),
}


@pytest.mark.parametrize("record", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_what_does_not_fit_the_image_stops_the_node(image: MetadataImage, record: MetadataRecord) -> None:
    with pytest.raises(InconsistentMetadata, match="offset 3") as caught:
        apply_batch(image, [record], 3)
    assert caught.value.facts["offset"] == 3


def test_id_of_a_deleted_topic_is_never_used_again(image: MetadataImage) -> None:
    deleted = applied(image, MetadataRecord(remove_topic=pb.RemoveTopicRecord(topic_id=TOPIC)))
    with pytest.raises(InconsistentMetadata, match="in use"):
        applied(deleted, topic_record(TOPIC, TopicName("orders")))


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_no_offset_is_applied_twice(image: MetadataImage, offset: int) -> None:
    with pytest.raises(InconsistentMetadata):
        apply_batch(image, [], offset)
    with pytest.raises(InconsistentMetadata):
        advance(image, offset)


NEWER = {
    "a kind of record": MetadataRecord(),
    "a feature level": feature_level_record(2),
    "a recovery state": partition_change(recovery_state=3),
    "a partition's recovery state": MetadataRecord(
        partition=pb.PartitionRecord(topic_id=TOPIC, partition=2, recovery_state=3)  # type: ignore[arg-type]
    ),
    "a resource": MetadataRecord(config=pb.ConfigRecord(resource=3, key="a")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("record", NEWER.values(), ids=NEWER.keys())
def test_what_newer_software_wrote_stops_the_node(image: MetadataImage, record: MetadataRecord) -> None:
    with pytest.raises(UnsupportedFeatureLevel, match="install the version"):
        apply_batch(image, [record], 3)
