"""Random metadata: sequences of records that a controller could have written.

Each action looks at the image and writes a record that fits it, so that every sequence applies. They are not
sensible (leaders change for no reason, brokers come and go), only possible.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.image import (
    EMPTY_IMAGE,
    NO_LEADER,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from quorate.metadata.records import (
    cluster_record,
    config_record,
    feature_level_record,
    partition_record,
    topic_record,
)
from quorate.v1 import metadata_pb2 as pb
from quorate.v1.metadata_pb2 import MetadataBatch, MetadataRecord

__all__ = ["Walk", "a_large_image", "a_walk", "founding_records", "registration"]

_KEYS = ["retention.ms", "min.insync.replicas", "größe"]


def registration(broker_id: int, *, incarnation: str = "i", is_draining: bool = False) -> MetadataRecord:
    return MetadataRecord(
        register_broker=pb.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=incarnation,
            directory_id=f"d{broker_id}",
            address=f"host{broker_id}:9092",
            rack=f"r{broker_id % 3}",
            feature_level_min=1,
            feature_level_max=1,
            is_draining=is_draining,
        )
    )


def founding_records() -> list[MetadataRecord]:
    return [feature_level_record(1), cluster_record("cluster", 0), *map(registration, range(1, 6))]


class Walk:
    """A log of random batches, and the image after each of its offsets."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        #: an offset without records has none
        self.batches: dict[int, MetadataBatch] = {}
        self.images: list[MetadataImage] = [EMPTY_IMAGE]
        self._add(founding_records())

    @property
    def image(self) -> MetadataImage:
        return self.images[-1]

    def step(self) -> None:
        """One more entry; some have no records, as the first one of a term."""
        offset = self.image.offset + 1
        if self._rng.random() < 0.1:
            self.images.append(advance(self.image, offset))
        else:
            self._add(random_records(self._rng, self.image, offset))

    def _add(self, records: list[MetadataRecord]) -> None:
        offset = self.image.offset + 1
        self.batches[offset] = MetadataBatch(records=records)
        self.images.append(apply_batch(self.image, records, offset))


def a_walk(seed: int, steps: int = 60) -> Walk:
    walk = Walk(random.Random(seed))
    for _ in range(steps):
        walk.step()
    return walk


def a_large_image() -> MetadataImage:
    """One topic with many settings, and many partitions: its snapshot has several chunks."""
    topic_id = TopicId("t" * 22)
    replicas = (BrokerId(1), BrokerId(2))
    partitions = (
        PartitionImage(
            topic_id, PartitionId(number), replicas, replicas, (), (), BrokerId(1), LeaderEpoch(0), 0
        )
        for number in range(2_000)
    )
    settings = [config_record(of, f"key-{number}", "1") for of in (topic_id, None) for number in range(9)]
    records = [topic_record(topic_id, TopicName("large")), *settings, *map(partition_record, partitions)]
    return apply_batch(EMPTY_IMAGE, records, 7)


def random_records(rng: random.Random, image: MetadataImage, offset: int) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for _ in range(rng.randint(1, 5)):
        now = apply_batch(image, records, offset)
        record = rng.choice(_ACTIONS)(rng, now)
        if record is not None:
            records.append(record)
    return records


def _some_broker(rng: random.Random, image: MetadataImage) -> BrokerImage | None:
    return image.brokers[rng.choice(sorted(image.brokers))] if image.brokers else None


def _some_topic(rng: random.Random, image: MetadataImage) -> TopicImage | None:
    return image.topics[rng.choice(sorted(image.topics))] if image.topics else None


def _register(rng: random.Random, image: MetadataImage) -> MetadataRecord:
    return registration(
        rng.randint(1, 7), incarnation=str(rng.getrandbits(32)), is_draining=rng.random() < 0.2
    )


def _change_broker(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    broker = _some_broker(rng, image)
    if broker is None:
        return None
    change = pb.BrokerChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    for name in ("is_fenced", "is_shutting_down", "is_draining"):
        if rng.random() < 0.5:
            setattr(change, name, rng.random() < 0.5)
    if rng.random() < 0.3:
        change.cache_witness = rng.randrange(100)
        change.device_witness = change.cache_witness % 10
    return MetadataRecord(broker_change=change)


def _unregister(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    broker = _some_broker(rng, image)
    if broker is None:
        return None
    return MetadataRecord(
        unregister_broker=pb.UnregisterBrokerRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch
        )
    )


def _create_topic(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    name = TopicName(f"topic-{rng.randint(0, 5)}")
    topic_id = TopicId(f"{rng.getrandbits(64):022x}")
    # Real ids never repeat; a generator that looks for the simplest example draws zero again and again.
    used = {*image.topics, *image.removed_topics, *image.forgotten_topics}
    return None if name in image.topic_ids or topic_id in used else topic_record(topic_id, name)


def _remove_topic(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    topic = _some_topic(rng, image)
    if topic is None or rng.random() < 0.5:
        return None
    removal = pb.RemoveTopicRecord(topic_id=topic.topic_id, removed_at_ms=rng.getrandbits(40))
    return MetadataRecord(remove_topic=removal)


def _replicas_removed(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    if not image.removed_topics:
        return None
    topic = image.removed_topics[rng.choice(sorted(image.removed_topics))]
    removal = pb.ReplicasRemovedRecord(topic_id=topic.topic_id, broker_id=rng.choice(topic.broker_ids))
    return MetadataRecord(replicas_removed=removal)


def _some_brokers(rng: random.Random) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, rng.sample(range(1, 8), rng.randint(0, 3))))


def _create_partition(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    topic = _some_topic(rng, image)
    if topic is None:
        return None
    replicas = _some_brokers(rng)
    return partition_record(
        PartitionImage(
            topic_id=topic.topic_id,
            partition=PartitionId(len(topic.partitions)),
            replicas=replicas,
            isr=tuple(sorted(replicas)),
            elr=(),
            last_known_elr=(),
            leader=replicas[0] if replicas else NO_LEADER,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        )
    )


def _change_partition(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    topic = _some_topic(rng, image)
    if topic is None or not topic.partitions:
        return None
    partition = rng.choice(topic.partitions)
    change = pb.PartitionChangeRecord(
        topic_id=topic.topic_id,
        partition=partition.partition,
        partition_epoch=partition.partition_epoch + 1,
        recovery_state=rng.choice([0, 1, 2]),  # type: ignore[arg-type]  # enumerators are integers
    )
    for name in ("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas"):
        if rng.random() < 0.4:
            getattr(change, name).SetInParent()
            getattr(change, name).broker_ids.extend(_some_brokers(rng))
    if rng.random() < 0.5:
        change.leader = rng.randint(-1, 7)
        change.leader_epoch = partition.leader_epoch + 1
        change.is_unclean = rng.random() < 0.3
    return MetadataRecord(partition_change=change)


def _set_config(rng: random.Random, image: MetadataImage) -> MetadataRecord | None:
    topic = _some_topic(rng, image) if rng.random() < 0.7 else None
    value = rng.choice([None, "", "1", "größer"])
    return config_record(topic.topic_id if topic is not None else None, rng.choice(_KEYS), value)


def _allocate_producer_ids(rng: random.Random, image: MetadataImage) -> MetadataRecord:
    next_producer_id = image.next_producer_id + 1_000
    return MetadataRecord(
        producer_ids=pb.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=next_producer_id)
    )


def _set_cluster(rng: random.Random, image: MetadataImage) -> MetadataRecord:
    return cluster_record("cluster", rng.randint(0, 3))


_ACTIONS: list[Callable[[random.Random, MetadataImage], MetadataRecord | None]] = [
    _register,
    _change_broker,
    _unregister,
    *[_create_topic] * 3,
    _remove_topic,
    _replicas_removed,
    *[_create_partition] * 4,
    *[_change_partition] * 4,
    *[_set_config] * 2,
    _allocate_producer_ids,
    _set_cluster,
]
