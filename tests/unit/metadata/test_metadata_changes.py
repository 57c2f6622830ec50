"""What is different between two images, found by comparing all of them or only what the records name."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.ids import BrokerId, TopicId, TopicName
from quorate.metadata.changes import MetadataDelta, changes_between, changes_of
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.metadata.records import topic_record
from quorate.metadata.snapshot import decode_snapshot, encode_snapshot
from quorate.v1.metadata_pb2 import MetadataRecord, RemoveTopicRecord
from tests.unit.metadata.metadata_walk import Walk, a_walk


def changes_by_hand(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """As the words of ``MetadataDelta`` say, with no thought for speed."""
    topic_ids = sorted({*before.topics, *after.topics})
    partitions: list[PartitionImage] = []
    for topic_id in topic_ids:
        old = before.topics[topic_id].partitions if topic_id in before.topics else ()
        new = after.topics[topic_id].partitions if topic_id in after.topics else ()
        partitions += [partition for partition in new if partition not in old]

    def configs(image: MetadataImage, topic_id: TopicId) -> dict[str, str]:
        return dict(image.topics[topic_id].configs) if topic_id in image.topics else {}

    def broker_differs(broker_id: BrokerId) -> bool:
        return before.brokers.get(broker_id) != after.brokers.get(broker_id)

    return MetadataDelta(
        before=before,
        after=after,
        brokers=tuple(sorted(filter(broker_differs, {*before.brokers, *after.brokers}))),
        created_topics=tuple(t for t in topic_ids if t not in before.topics),
        removed_topics=tuple(t for t in topic_ids if t not in after.topics),
        reconfigured_topics=tuple(
            t for t in topic_ids if t in after.topics and configs(before, t) != configs(after, t)
        ),
        partitions=tuple(partitions),
    )


@given(st.randoms(use_true_random=False), st.integers(0, 15), st.integers(0, 15))
def test_changes_are_the_same_whichever_way_they_are_found(
    rng: random.Random, steps_before: int, steps_between: int
) -> None:
    walk = Walk(rng)
    for _ in range(steps_before):
        walk.step()
    before = walk.image
    for _ in range(steps_between):
        walk.step()
    records = [
        record for offset, batch in walk.batches.items() if offset > before.offset for record in batch.records
    ]
    expected = changes_by_hand(before, walk.image)
    assert changes_between(before, walk.image) == expected
    assert changes_of(before, walk.image, records) == expected
    assert expected.is_cluster_reconfigured == (before.cluster_configs != walk.image.cluster_configs)


async def test_equal_images_differ_in_nothing() -> None:
    image = a_walk(1).image
    assert any(topic.partitions for topic in image.topics.values())
    # One that came over the wire shares nothing with it.
    for other in (image, await decode_snapshot(await encode_snapshot(image))):
        delta = changes_between(image, other)
        assert not any([delta.brokers, delta.created_topics, delta.removed_topics])
        assert not any([delta.reconfigured_topics, delta.partitions, delta.is_cluster_reconfigured])


def test_topic_that_came_and_went_in_between_is_no_change() -> None:
    before = a_walk(1).image
    topic_id = TopicId("n" * 22)
    records = [
        topic_record(topic_id, TopicName("new")),
        MetadataRecord(remove_topic=RemoveTopicRecord(topic_id=topic_id)),
    ]
    delta = changes_of(before, apply_batch(before, records, before.offset + 1), records)
    assert not any([delta.created_topics, delta.removed_topics, delta.partitions])
