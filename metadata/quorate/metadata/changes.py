"""What is different between two images, for those who act on differences: a broker that opens, closes and
leads partitions should look at ten of them when ten have changed, not at a hundred thousand.

Images share what did not change, so most of the comparison is whether two references are the same. Where the
records in between are known, only what they name is compared; after a snapshot everything is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from immutables import Map

from quorate.core.ids import BrokerId, TopicId
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage
from quorate.v1.metadata_pb2 import MetadataRecord

__all__ = ["MetadataDelta", "changes_between", "changes_of"]

_BROKER_KINDS: Final = frozenset({"register_broker", "broker_change", "unregister_broker"})
_TOPIC_KINDS: Final = frozenset({"topic", "remove_topic", "partition", "partition_change", "config"})


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """Everything is sorted by id. Partitions of removed topics are not listed: ``before`` has them."""

    before: MetadataImage
    after: MetadataImage
    #: registered, changed or gone
    brokers: tuple[BrokerId, ...]
    created_topics: tuple[TopicId, ...]
    removed_topics: tuple[TopicId, ...]
    #: settings of their own have changed; topics that are new and have some are among them
    reconfigured_topics: tuple[TopicId, ...]
    #: as they are now: new, or changed
    partitions: tuple[PartitionImage, ...]

    @property
    def is_cluster_reconfigured(self) -> bool:
        """Settings changed that every topic falls back on."""
        return self.before.cluster_configs != self.after.cluster_configs


def changes_between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """By comparing all brokers and topics."""
    topic_ids = (
        topic_id
        for topic_id in {*before.topics, *after.topics}
        if before.topics.get(topic_id) is not after.topics.get(topic_id)
    )
    return _changes(before, after, {*before.brokers, *after.brokers}, topic_ids)


def changes_of(
    before: MetadataImage, after: MetadataImage, records: Iterable[MetadataRecord]
) -> MetadataDelta:
    """By comparing what ``records`` name, which lead from ``before`` to ``after``."""
    broker_ids: set[BrokerId] = set()
    topic_ids: set[TopicId] = set()
    for record in records:
        kind = record.WhichOneof("record")
        if kind in _BROKER_KINDS:
            broker_ids.add(BrokerId(getattr(record, kind).broker_id))
        elif kind in _TOPIC_KINDS:
            topic_ids.add(TopicId(getattr(record, kind).topic_id))
    # A setting of the cluster names no topic.
    topic_ids.discard(TopicId(""))
    return _changes(before, after, broker_ids, topic_ids)


def _changes(
    before: MetadataImage, after: MetadataImage, broker_ids: Iterable[BrokerId], topic_ids: Iterable[TopicId]
) -> MetadataDelta:
    created: list[TopicId] = []
    removed: list[TopicId] = []
    reconfigured: list[TopicId] = []
    partitions: list[PartitionImage] = []
    for topic_id in sorted(topic_ids):
        old, new = before.topics.get(topic_id), after.topics.get(topic_id)
        if new is None:
            # Absent from both: made and deleted in between.
            if old is not None:
                removed.append(topic_id)
            continue
        if old is None:
            created.append(topic_id)
        if new.configs != (old.configs if old is not None else Map()):
            reconfigured.append(topic_id)
        partitions.extend(_changed_partitions(old, new))
    return MetadataDelta(
        before=before,
        after=after,
        brokers=tuple(
            sorted(
                broker_id
                for broker_id in broker_ids
                if before.brokers.get(broker_id) != after.brokers.get(broker_id)
            )
        ),
        created_topics=tuple(created),
        removed_topics=tuple(removed),
        reconfigured_topics=tuple(reconfigured),
        partitions=tuple(partitions),
    )


def _changed_partitions(old: TopicImage | None, new: TopicImage) -> Iterator[PartitionImage]:
    # A topic never loses a partition, so the new list is the longer one.
    for was, now in zip_longest(old.partitions if old is not None else (), new.partitions):
        if was is not now and was != now:
            yield now
