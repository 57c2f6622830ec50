"""What GetMetadata and InitProducerId tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorate.core.ids import LeaderEpoch
from quorate.errors import InvalidRequest
from quorate.metadata.image import NO_LEADER
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD, World, simulate

TopicReference = broker_pb2.TopicReference


async def metadata(world: World, *topics: Any, **fields: Any) -> broker_pb2.GetMetadataResponse:
    request = broker_pb2.GetMetadataRequest(topics=topics, **fields)
    response: broker_pb2.GetMetadataResponse = await world.call("GetMetadata", request)
    return response


def test_topics_are_found_by_name_by_id_and_all_together() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("b", partitions=2, replicas=(SELF, SECOND, THIRD))
        await world.create_topic("a")
        by_name = await metadata(world, TopicReference(name="b"))
        by_id = await metadata(world, TopicReference(topic_id=world.topic_id("b")))
        assert by_name.topics == by_id.topics
        [topic] = by_name.topics
        assert (topic.name, topic.topic_id, len(topic.partitions)) == ("b", world.topic_id("b"), 2)
        first = topic.partitions[0]
        assert (first.leader, first.leader_epoch) == (SELF, 0)
        assert list(first.replicas) == list(first.isr) == [SELF, SECOND, THIRD]
        everything = await metadata(world, all_topics=True)
        assert [topic.name for topic in everything.topics] == ["a", "b"]
        assert (await metadata(world)).topics == []
        assert everything.cluster_id == "test-cluster"
        assert everything.metadata_offset == world.image.offset

    simulate(scenario)


def test_partition_without_a_leader_has_none() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=(SELF, SECOND))
        world.change(leader=NO_LEADER, leader_epoch=LeaderEpoch(7))
        [partition] = (await metadata(world, TopicReference(name="t"))).topics[0].partitions
        assert not partition.HasField("leader")
        assert partition.leader_epoch == 7

    simulate(scenario)


def test_fenced_brokers_are_not_named() -> None:
    async def scenario(world: World) -> None:
        fenced = replace(world.image.brokers[SECOND], is_fenced=True)
        world.hosted.image_changed(replace(world.image, brokers=world.image.brokers.set(SECOND, fenced)))
        brokers = (await metadata(world)).brokers
        assert [(each.broker_id, each.address, each.rack) for each in brokers] == [
            (SELF, "broker1:9092", "rack1"),
            (THIRD, "broker3:9092", "rack3"),
        ]

    simulate(scenario)


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        (TopicReference(name="absent"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicReference(topic_id="x" * 22), "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicReference(name="t", topic_id="x" * 22), "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicReference(), "INVALID_REQUEST"),
    ],
)
def test_topic_that_is_not_known_is_an_error_of_its_own(
    reference: broker_pb2.TopicReference, code: str
) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        unknown, known = (await metadata(world, reference, TopicReference(name="t"))).topics
        assert unknown.error.code == code
        assert (unknown.name, unknown.topic_id) == (reference.name, reference.topic_id)
        assert not known.HasField("error")

    simulate(scenario)


def test_all_topics_and_some_topics_exclude_each_other() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidRequest):
            await metadata(world, TopicReference(name="t"), all_topics=True)

    simulate(scenario)


def test_metadata_is_told_without_a_lease() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        world.lease.revoke()
        assert (await metadata(world, TopicReference(name="t"))).topics[0].partitions[0].leader == SELF

    simulate(scenario)


def test_every_producer_gets_an_id_of_its_own() -> None:
    async def scenario(world: World) -> None:
        request = broker_pb2.InitProducerIdRequest()
        responses = [await world.call("InitProducerId", request) for _ in range(3)]
        assert len({response.producer_id for response in responses}) == 3
        assert {response.producer_epoch for response in responses} == {0}

    simulate(scenario)
