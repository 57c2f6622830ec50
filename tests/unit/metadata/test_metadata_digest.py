"""The digest stands for everything in the image, however the image came about."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    ProducerId,
    TopicId,
    TopicName,
)
from quorate.metadata.digest import digest_from_bytes, digest_to_bytes, full_digest
from quorate.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    Recovery,
    RemovedTopicImage,
    TopicImage,
)
from tests.unit.metadata.metadata_walk import Walk


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_digest_kept_along_the_way_is_the_digest_from_scratch(rng: random.Random, steps: int) -> None:
    walk = Walk(rng)
    for _ in range(steps):
        walk.step()
    for image in walk.images:
        assert image.digest == full_digest(image)


def test_empty_image_has_digest_zero() -> None:
    assert EMPTY_IMAGE.digest == full_digest(EMPTY_IMAGE) == 0


def test_digest_is_the_same_in_every_version() -> None:
    # A number that changes here means that nodes of two versions disagree about equal images.
    image = _image_with(partition=PARTITION, broker=BROKER, removed=REMOVED, config="größer")
    assert digest_to_bytes(full_digest(image)).hex() == "3f1e2731711441f241c9b9aa25176357"


def test_digest_survives_its_bytes() -> None:
    for digest in (0, 1, 2**128 - 1):
        assert digest_from_bytes(digest_to_bytes(digest)) == digest


TOPIC = TopicId("t" * 22)
BROKER = BrokerImage(
    broker_id=BrokerId(1),
    broker_epoch=BrokerEpoch(2),
    incarnation_id="i",
    directory_id="d",
    address="a:1",
    rack="r",
    feature_level_min=1,
    feature_level_max=2,
    is_fenced=False,
    is_shutting_down=False,
    is_draining=False,
)
PARTITION = PartitionImage(
    topic_id=TOPIC,
    partition=PartitionId(0),
    replicas=(BrokerId(1), BrokerId(2)),
    isr=(BrokerId(1),),
    elr=(),
    last_known_elr=(),
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=0,
)
REMOVED = RemovedTopicImage(TopicId("r" * 22), TopicName("removed"), 5, (BrokerId(1),))


def _image_with(
    *,
    partition: PartitionImage = PARTITION,
    broker: BrokerImage = BROKER,
    removed: RemovedTopicImage = REMOVED,
    config: str = "1",
) -> MetadataImage:
    topic = TopicImage(TOPIC, TopicName("orders"), Map({"key": config}), (partition,))
    return MetadataImage(
        offset=9,
        feature_level=1,
        cluster_id="c",
        default_replication_factor=3,
        brokers=Map({broker.broker_id: broker}),
        topics=Map({TOPIC: topic}),
        topic_ids=Map({topic.name: TOPIC}),
        removed_topics=Map({removed.topic_id: removed}),
        cluster_configs=Map({"key": config}),
        next_producer_id=ProducerId(1000),
    )


def _another(value: Any) -> Any:
    if isinstance(value, Recovery):
        return Recovery.RECOVERING
    if value is None:
        # A number that may be absent.
        return 0
    if isinstance(value, tuple):
        return (*value, 9)
    if isinstance(value, bool):
        return not value
    return value + ("x" if isinstance(value, str) else 1)


@pytest.mark.parametrize("thing", [BROKER, PARTITION, REMOVED], ids=["broker", "partition", "removed topic"])
def test_every_field_changes_the_digest(thing: Any) -> None:
    argument = {BrokerImage: "broker", PartitionImage: "partition", RemovedTopicImage: "removed"}[type(thing)]
    digests = {full_digest(_image_with())}
    fields = dataclasses.fields(thing)
    for field in fields:
        changed = dataclasses.replace(thing, **{field.name: _another(getattr(thing, field.name))})
        arguments: dict[str, Any] = {argument: changed}
        digests.add(full_digest(_image_with(**arguments)))
    assert len(digests) == 1 + len(fields)


def test_every_scalar_of_the_image_changes_the_digest() -> None:
    image = _image_with()
    names = [
        "feature_level",
        "cluster_id",
        "default_replication_factor",
        "next_producer_id",
        "cluster_config_epoch",
        "forgotten_topics",
    ]
    changed = [dataclasses.replace(image, **{name: _another(getattr(image, name))}) for name in names]
    changed.append(dataclasses.replace(image, cluster_configs=image.cluster_configs.set("key", "2")))
    topic = dataclasses.replace(image.topics[TOPIC], configs=Map({"key": "2"}))
    changed.append(dataclasses.replace(image, topics=image.topics.set(TOPIC, topic)))
    renamed = dataclasses.replace(image.topics[TOPIC], name=TopicName("other"))
    changed.append(dataclasses.replace(image, topics=image.topics.set(TOPIC, renamed)))
    reconfigured = dataclasses.replace(image.topics[TOPIC], config_epoch=1)
    changed.append(dataclasses.replace(image, topics=image.topics.set(TOPIC, reconfigured)))
    assert len({full_digest(image), *map(full_digest, changed)}) == 1 + len(changed)


def test_setting_of_the_cluster_is_not_the_same_as_a_topics() -> None:
    image = _image_with()
    without = dataclasses.replace(
        image,
        topics=image.topics.set(TOPIC, dataclasses.replace(image.topics[TOPIC], configs=Map())),
    )
    swapped = dataclasses.replace(image, cluster_configs=Map())
    assert full_digest(without) != full_digest(swapped)


def test_offset_is_no_part_of_the_digest() -> None:
    image = _image_with()
    assert full_digest(dataclasses.replace(image, offset=99)) == full_digest(image)
