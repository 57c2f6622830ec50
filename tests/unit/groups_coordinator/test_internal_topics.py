"""The topic of offsets: made on first use with the copies there can be, grown to those there should be."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.models.controller.offsets_topic_story import offsets_wait_for_their_last_copy
from quorate.chaos.models.controller.small_cluster import SmallCluster, topic_id
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.cluster_description import describe_cluster
from quorate.controller.internal_topics import create_offsets_topic, grow_offsets_topic
from quorate.controller.partition_counts import create_partitions
from quorate.controller.reassignment import complete_reassignments
from quorate.controller.topics import delete_topic
from quorate.core.config import GroupConfig
from quorate.core.ids import BrokerId
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import InvalidConfig, InvalidTopic, NotEnoughReplicas, StaleBrokerEpoch
from quorate.metadata.image import TopicImage
from quorate.v1 import admin_pb2, broker_pb2
from quorate.v1.controller_pb2 import CreateOffsetsTopicRequest
from tests.unit.broker.broker_harness import batch
from tests.unit.groups_coordinator.group_cluster import GroupClient, TestMember, create_topic, partition
from tests.unit.groups_coordinator.group_world import GroupWorld, simulate


def make(cluster: SmallCluster, *, broker_id: int = 1, number: int = 7, **config: int) -> str:
    """As broker ``broker_id`` asks for it. The topic's id."""
    request = CreateOffsetsTopicRequest(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[BrokerId(broker_id)].broker_epoch,
        topic_id=topic_id(number),
    )
    decision = create_offsets_topic(
        cluster.image,
        request,
        config=GroupConfig(**config),
        next_offset=cluster.next_offset,
        rng=cluster.rng,
    )
    return cluster.commit(decision).topic_id


def grow(cluster: SmallCluster, *, replication_factor: int = 3) -> None:
    """A round of the duty, and all that it begins comes to its end."""
    cluster.commit(grow_offsets_topic(cluster.image, replication_factor=replication_factor))
    for each in offsets_topic(cluster).partitions:
        if each.adding_replicas:
            isr = sorted(each.replicas)
            cluster.set_partition(each.partition, OFFSETS_TOPIC, isr=isr)
    cluster.commit(complete_reassignments(cluster.image))


def offsets_topic(cluster: SmallCluster) -> TopicImage:
    return cluster.topic(OFFSETS_TOPIC)


# -- making it


def test_it_is_made_as_the_controller_is_configured() -> None:
    cluster = SmallCluster(5)
    made = make(cluster, offsets_topic_num_partitions=7, offsets_topic_segment_bytes=1 << 20)
    topic = offsets_topic(cluster)
    assert made == topic.topic_id == topic_id(7)
    assert len(topic.partitions) == 7
    assert all(len(each.replicas) == 3 for each in topic.partitions)
    assert topic.configs["cleanup.policy"] == "compact"
    assert topic.configs["segment.bytes"] == str(1 << 20)


def test_it_is_made_once_whoever_asks() -> None:
    cluster = SmallCluster(3)
    first = make(cluster, broker_id=1, number=7)
    assert make(cluster, broker_id=2, number=8) == first
    assert len(cluster.image.topics) == 1


def test_an_earlier_run_of_a_broker_is_not_heard() -> None:
    cluster = SmallCluster(3)
    request = CreateOffsetsTopicRequest(broker_id=1, broker_epoch=1, topic_id=topic_id(7))
    with pytest.raises(StaleBrokerEpoch):
        create_offsets_topic(
            cluster.image, request, config=GroupConfig(), next_offset=cluster.next_offset, rng=cluster.rng
        )


@pytest.mark.parametrize(("brokers", "copies"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_it_has_as_many_copies_as_there_are_brokers_up_to_the_setting(brokers: int, copies: int) -> None:
    cluster = SmallCluster(brokers)
    make(cluster)
    assert {len(each.replicas) for each in offsets_topic(cluster).partitions} == {copies}


def test_it_does_not_wait_for_a_broker_that_is_away() -> None:
    cluster = SmallCluster(3)
    cluster.change_broker(3, is_fenced=True)
    make(cluster)
    assert {tuple(sorted(each.replicas)) for each in offsets_topic(cluster).partitions} == {(1, 2)}


def test_it_does_not_begin_with_less_than_min_isr_where_the_others_are_only_away() -> None:
    cluster = SmallCluster(3)
    cluster.change_broker(2, is_fenced=True)
    cluster.change_broker(3, is_fenced=True)
    with pytest.raises(NotEnoughReplicas) as raised:
        make(cluster)
    assert raised.value.retriable
    assert not cluster.image.topics
    cluster.configure("", {"min.insync.replicas": "1"})
    make(cluster)
    assert {each.replicas for each in offsets_topic(cluster).partitions} == {(1,)}


# -- growing it


def test_copies_are_added_when_brokers_come() -> None:
    cluster = SmallCluster(1)
    make(cluster)
    grow(cluster)
    assert {each.replicas for each in offsets_topic(cluster).partitions} == {(1,)}
    cluster.add_broker(2)
    grow(cluster)
    assert {tuple(sorted(each.replicas)) for each in offsets_topic(cluster).partitions} == {(1, 2)}
    cluster.add_broker(3)
    cluster.add_broker(4)
    grow(cluster)
    partitions = offsets_topic(cluster).partitions
    assert {len(each.replicas) for each in partitions} == {3}
    held = Counter(replica for each in partitions for replica in each.replicas)
    assert set(held) == {1, 2, 3, 4}
    preferred = Counter(each.replicas[0] for each in partitions)
    assert max(preferred.values()) - min(preferred.values()) <= 2, preferred
    before = cluster.image
    grow(cluster)
    assert cluster.image is before, "nothing more to do"


def test_copies_go_to_other_racks_first() -> None:
    cluster = SmallCluster(0)
    cluster.add_broker(1, rack="a")
    make(cluster)
    for broker_id, rack in ((2, "a"), (3, "b"), (4, "c")):
        cluster.add_broker(broker_id, rack=rack)
    grow(cluster)
    assert {tuple(sorted(each.replicas)) for each in offsets_topic(cluster).partitions} == {(1, 3, 4)}


def test_brokers_that_cannot_take_a_copy_get_none() -> None:
    cluster = SmallCluster(1)
    make(cluster)
    cluster.add_broker(2, is_fenced=True)
    cluster.add_broker(3)
    cluster.change_broker(3, is_draining=True)
    before = cluster.image
    grow(cluster)
    assert cluster.image is before


def test_a_partition_that_is_being_moved_or_has_no_leader_is_left_alone() -> None:
    cluster = SmallCluster(2)
    make(cluster, offsets_topic_num_partitions=2)
    cluster.set_partition(0, OFFSETS_TOPIC, isr=[], leader=-1)
    cluster.add_broker(3)
    cluster.move(1, 3, partition=1, name=OFFSETS_TOPIC)
    before = cluster.image
    cluster.commit(grow_offsets_topic(cluster.image, replication_factor=3))
    assert cluster.image is before


def test_other_topics_are_not_grown() -> None:
    cluster = SmallCluster(1)
    make(cluster)
    cluster.create("t", replication_factor=1)
    cluster.add_broker(2)
    grow(cluster)
    assert cluster.partition(0, "t").replicas == (1,)


def test_a_cluster_whose_brokers_come_one_by_one_ends_with_all_copies() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        for machine in (*cluster.controllers, cluster.brokers[0]):
            machine.start()
        await cluster.until(lambda: cluster.brokers[0].is_ready, within_s=60)
        await create_topic(cluster, "t", partitions=1)
        client = GroupClient(cluster)
        assert await client.commit({partition(cluster, 0): 3}) == [""]
        for machine in cluster.brokers[1:]:
            machine.start()

        def is_grown() -> bool:
            topic = newest_image(cluster).topic_named(OFFSETS_TOPIC)
            return topic is not None and all(
                len(each.isr) == 3 and not each.adding_replicas for each in topic.partitions
            )

        await cluster.until(is_grown, within_s=120)
        # What was committed when there was one copy is on all of them.
        cluster.brokers[0].kill()
        assert await client.fetch() == {partition(cluster, 0): 3}

    run_simulation(main, seed=1, time_limit_s=600)


def test_a_cluster_of_one_node_works_by_itself() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, brokers=1, is_combined=True)
        await cluster.start()
        await create_topic(cluster, "t", partitions=2)
        member = TestMember(GroupClient(cluster), "a")
        await member.settle()
        assert len(member.owned) == 2
        committed = await member.client.commit(
            {partition(cluster, 0): 3}, member_id="a", member_epoch=member.epoch
        )
        assert committed == [""]

    run_simulation(main, seed=1, time_limit_s=600)


def test_a_topic_that_cannot_be_made_yet_is_asked_for_again() -> None:
    """Two of three brokers have registered and are away: the group waits, and then works."""

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await create_topic(cluster, "t", partitions=1)
        for machine in cluster.brokers[1:]:
            machine.kill()
        await asyncio.sleep(5)
        client = GroupClient(cluster)
        finding = asyncio.create_task(client.find())
        await asyncio.sleep(10)
        assert not finding.done()
        cluster.brokers[1].start()
        await finding
        topic = newest_image(cluster).topic_named(OFFSETS_TOPIC)
        assert topic is not None
        assert {len(each.replicas) for each in topic.partitions} == {2}

    run_simulation(main, seed=1, time_limit_s=600)


# -- keeping it from people


def test_names_of_the_system_are_not_for_people() -> None:
    cluster = SmallCluster(3)
    for name in (OFFSETS_TOPIC, "__anything"):
        with pytest.raises(InvalidTopic, match="reserved"):
            cluster.create(name)
    cluster.create("_one_is_fine")
    assert len(cluster.image.topics) == 1


def test_it_cannot_be_deleted() -> None:
    cluster = SmallCluster(3)
    made = make(cluster)
    for request in (
        admin_pb2.DeleteTopicRequest(name=OFFSETS_TOPIC, topic_id=made),
        admin_pb2.DeleteTopicRequest(topic_id=made),
    ):
        with pytest.raises(InvalidTopic, match="cannot be deleted"):
            delete_topic(cluster.image, request, now_ms=1)


def test_its_partitions_stay_as_many_as_they_are() -> None:
    cluster = SmallCluster(3)
    make(cluster)
    request = admin_pb2.CreatePartitionsRequest(name=OFFSETS_TOPIC, partition_count=20)
    with pytest.raises(InvalidTopic, match="more partitions"):
        create_partitions(cluster.image, request, next_offset=cluster.next_offset, rng=cluster.rng)


@pytest.mark.parametrize("policy", ["delete", "compact,delete", None])
def test_it_stays_compacted(policy: str | None) -> None:
    cluster = SmallCluster(3)
    make(cluster)
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        cluster.configure(OFFSETS_TOPIC, {"cleanup.policy": policy})
    cluster.configure(OFFSETS_TOPIC, {"segment.bytes": "1MiB", "cleanup.policy": "compact"})
    assert offsets_topic(cluster).configs["segment.bytes"] == str(1 << 20)


def test_offsets_are_not_given_up_by_a_setting() -> None:
    """Who has to, in an incident, says so partition by partition: RecoverPartition."""
    cluster = SmallCluster(3)
    make(cluster)
    key = "unclean.leader.election.enable"
    with pytest.raises(InvalidConfig, match="groups would forget"):
        cluster.configure(OFFSETS_TOPIC, {key: "true"})
    cluster.configure(OFFSETS_TOPIC, {key: "false"})
    cluster.configure(OFFSETS_TOPIC, {key: None})
    assert key not in offsets_topic(cluster).configs


def test_the_clusters_setting_gives_no_offsets_up() -> None:
    offsets_wait_for_their_last_copy()


def test_the_clusters_setting_is_not_said_to_hold_for_it() -> None:
    cluster = SmallCluster(3)
    make(cluster)
    cluster.create("t")
    cluster.configure("", {"unclean.leader.election.enable": "true"})
    described = describe_cluster(cluster.image, controller=None, controllers=[])
    assert list(described.unclean_election_topics) == ["t"]


def test_clients_cannot_write_to_it() -> None:
    simulate(clients_cannot_write_to_it)


async def clients_cannot_write_to_it(world: GroupWorld) -> None:
    await world.start()
    end = world.log_end()
    entry = broker_pb2.ProducePartition(
        topic=OFFSETS_TOPIC, partition=world.number_of(), batch=batch("forged")
    )
    for acks in (broker_pb2.ACKS_ALL, broker_pb2.ACKS_LEADER):
        [result] = await world.produce_all(entry, acks=acks)
        assert result.error.code == InvalidTopic.code
        assert not result.error.retriable
    assert world.log_end() == end
