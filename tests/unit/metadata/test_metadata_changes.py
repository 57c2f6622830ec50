"""What is different between two images, found by comparing all of them or only what the records name."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.ids import BrokerId, TopicId
from quorate.metadata.changes import MetadataDelta, changes_between, changes_of
from quorate.metadata.image import MetadataImage, PartitionImage
from tests.unit.metadata.metadata_walk import Walk


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


def test_equal_images_differ_in_nothing() -> None:
    image = Walk(random.Random(1)).image
    delta = changes_between(image, image)
    assert not any([delta.brokers, delta.created_topics, delta.removed_topics, delta.partitions])
    assert not delta.is_cluster_reconfigured
