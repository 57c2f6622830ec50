"""Requests of operators that arrive once more, when things are different (rules 1, 2, 27, 29, 33, 43).

The network may deliver a request a second time, at any later time. What an operator meant in one incident
must not happen in the next one, and what he has taken back must stay so. Each story lets a request be
carried out, changes the world, has every copy delivered that the network has seen of it, and looks whether
anything that was acknowledged has gone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, replicas_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.chaos.mutations.held_copies import HeldCopies
from quorate.controller.alter_configs import alter_configs
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.controller.topics import delete_topic
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError
from quorate.metadata.image import NO_LEADER, PartitionImage
from quorate.v1 import admin_pb2

__all__ = [
    "a_late_change_of_settings_is_refused",
    "a_late_change_of_settings_stays_with_its_topic",
    "a_late_creation_makes_no_topic",
    "a_late_deletion_by_name_is_refused",
    "a_late_recovery_is_refused",
    "a_late_recovery_stays_with_its_topic",
    "a_recovery_without_an_answer_is_not_made_again",
    "settings_that_were_made_sure_of_hold",
]

_TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
_UNCLEAN: Final = "unclean.leader.election.enable"
_SAFE: Final[dict[str, str]] = {"durability": "fsync", "min.insync.replicas": "2"}
_RECORDS: Final = 10
_QUIET_S: Final = 1.0


async def a_late_recovery_is_refused(cluster: SimCluster) -> None:
    """Nothing is lost by the first one. In the next incident others hold what was acknowledged since."""
    copies = HeldCopies(cluster)
    await _begin(cluster)
    await _leave_the_third_alone(cluster)
    with copies.of("RecoverPartition"):
        async with cluster.admin() as admin:
            await admin.recover_partition(_TOPIC, accept_missing_replicas=True)
    await _bring_the_others_back(cluster)
    await _leave_the_third_alone(cluster, writing=_RECORDS)
    await copies.deliver()
    await _bring_the_others_back(cluster)
    await _everything_is_there(cluster, 2 * _RECORDS)


async def a_recovery_without_an_answer_is_not_made_again(cluster: SimCluster) -> None:
    """No copy at all: our own client asks once more, when its answer was lost and the world has moved on."""
    await _begin(cluster)
    await _leave_the_third_alone(cluster)
    async with cluster.admin(bootstrap=[each.address for each in cluster.brokers]) as admin:
        operator = cluster.clients[-1]
        recovery = asyncio.create_task(admin.recover_partition(_TOPIC, accept_missing_replicas=True))
        await _until_it_is_led(cluster)
        cluster.network.partition([operator], [each for each in cluster.machines if each != operator])
        await _bring_the_others_back(cluster)
        await _leave_the_third_alone(cluster, writing=_RECORDS)
        for machine in cluster.machines:
            # Lost, and not late.
            cluster.network.link(operator, machine).held.clear()
            cluster.network.link(machine, operator).held.clear()
        cluster.network.heal()
        told = (await asyncio.gather(recovery, return_exceptions=True))[0]
        is_denied = isinstance(told, QuorateError) and not told.outcome_unknown
        assert not is_denied, f"of a recovery that was carried out its operator is told: {told}"
    await _bring_the_others_back(cluster)
    await _everything_is_there(cluster, 2 * _RECORDS)


async def a_late_change_of_settings_is_refused(cluster: SimCluster) -> None:
    """Unclean elections were allowed for a moment. The last that was acknowledged is: they are not."""
    copies = HeldCopies(cluster)
    await _begin(cluster)
    async with cluster.admin() as admin:
        with copies.of("AlterConfigs"):
            await admin.alter_config("t", {_UNCLEAN: True})
        # Back to what it was: values do not tell that it has ever been different.
        await admin.alter_config("t", {_UNCLEAN: None})
    one, two, three = cluster.brokers
    three.kill()
    await cluster.until(lambda: set(_partition(cluster).isr) == {_id(one), _id(two)})
    await _write(cluster, _RECORDS)
    await copies.deliver()
    one.kill()
    two.kill()
    await cluster.until(lambda: _partition(cluster).leader == NO_LEADER)
    three.start()
    await cluster.until(lambda: three.is_ready)
    await _bring_the_others_back(cluster)
    await _everything_is_there(cluster, 2 * _RECORDS)


async def a_late_creation_makes_no_topic(cluster: SimCluster) -> None:
    """Every broker has let go of the topic: to be played where that does not take long."""
    copies = HeldCopies(cluster)
    async with cluster.admin() as admin:
        with copies.of("CreateTopic"):
            await admin.create_topic("t", partitions=1, replication_factor=3)
        await admin.delete_topic("t")
        await cluster.until(lambda: not newest_image(cluster).removed_topics)
    await copies.deliver()
    found = newest_image(cluster).topic_named(_TOPIC.topic)
    assert found is None, f"topic {found and found.topic_id} is back, and begins its epochs anew"


# -- in the controller alone


def settings_that_were_made_sure_of_hold() -> None:
    """They are what they were, and acknowledged: whatever was sent before, and comes later, is refused."""
    cluster = SmallCluster()
    cluster.create("t", configs={_UNCLEAN: "false"})
    late = cluster.alteration("t", {_UNCLEAN: "true"})
    cluster.configure("t", {_UNCLEAN: "false"})
    _change_late(cluster, late)
    assert cluster.topic().configs[_UNCLEAN] == "false", "a request has undone what was asked after it"


def a_late_change_of_settings_stays_with_its_topic() -> None:
    cluster = SmallCluster()
    cluster.create("t")
    late = cluster.alteration("t", {_UNCLEAN: "true"})
    cluster.delete("t")
    cluster.create("t")
    _change_late(cluster, late)
    assert _UNCLEAN not in cluster.topic().configs, "the settings of the next topic of that name were changed"


def a_late_recovery_stays_with_its_topic() -> None:
    cluster = SmallCluster()
    late = _offline(cluster)
    cluster.delete("t")
    assert _offline(cluster).leader_epoch == late.leader_epoch
    ends = {BrokerId(3): ReplicaEnd(LeaderEpoch(0), Offset(1))}
    with suppress(QuorateError):
        cluster.commit(recover_partition(cluster.image, late, log_ends=ends))
    assert cluster.partition().leader == NO_LEADER, "the next topic of that name was recovered"


def a_late_deletion_by_name_is_refused() -> None:
    """Of a caller that is nothing but stubs: ours name the id."""
    cluster = SmallCluster()
    cluster.create("t")
    cluster.delete("t")
    cluster.create("t")
    with suppress(QuorateError):
        cluster.commit(delete_topic(cluster.image, admin_pb2.DeleteTopicRequest(name="t"), now_ms=1))
    assert "t" in cluster.image.topic_ids, "the next topic of that name was deleted"


def _change_late(cluster: SmallCluster, request: admin_pb2.AlterConfigsRequest) -> None:
    try:
        decision = alter_configs(
            cluster.image, request, next_offset=cluster.next_offset, is_heard=lambda _broker_id: True
        )
    except QuorateError:
        return
    cluster.commit(decision)


def _offline(cluster: SmallCluster) -> admin_pb2.RecoverPartitionRequest:
    """A new topic without a leader, and the request of who has looked at it."""
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1], leader=NO_LEADER)
    partition = cluster.partition()
    name = admin_pb2.PartitionName(topic="t", topic_id=partition.topic_id, partition=0)
    return admin_pb2.RecoverPartitionRequest(
        partition=name, accept_missing_replicas=True, leader_epoch=partition.leader_epoch
    )


# -- what the stories share


async def _begin(cluster: SimCluster) -> None:
    one, two, three = map(_id, cluster.brokers)
    async with cluster.admin() as admin:
        await admin.create_topic("t", assignments={0: [one, two, three]}, configs=_SAFE)
    await _write(cluster, _RECORDS)
    await cluster.until(lambda: len(_partition(cluster).isr) == 3)


async def _leave_the_third_alone(cluster: SimCluster, *, writing: int = 0) -> None:
    """It dies first, and is the only one that runs: what is written meanwhile is with the others."""
    one, two, three = cluster.brokers
    three.kill()
    await cluster.until(lambda: set(_partition(cluster).isr) == {_id(one), _id(two)})
    await _write(cluster, writing)
    two.kill()
    one.kill()
    await cluster.until(lambda: _partition(cluster).leader == NO_LEADER)
    three.start()
    await cluster.until(lambda: three.is_ready)


async def _until_it_is_led(cluster: SimCluster) -> None:
    """Looked at so often that no answer has arrived yet anywhere."""
    clock = cluster.clock
    while _partition(cluster).leader == NO_LEADER:
        await clock.sleep(0.00002)


async def _bring_the_others_back(cluster: SimCluster) -> None:
    one, two, _ = cluster.brokers
    one.start()
    two.start()
    await cluster.until(lambda: len(_partition(cluster).isr) == 3)


async def _write(cluster: SimCluster, count: int) -> None:
    """Acknowledged by all that are in sync."""
    async with cluster.producer(acks="all") as producer:
        for number in range(count):
            await (await producer.send("t", b"record %d" % number, partition=0))


async def _everything_is_there(cluster: SimCluster, count: int) -> None:
    await cluster.clock.sleep(_QUIET_S)
    ends = {each.log.log_end_offset for each in replicas_of(cluster)[_TOPIC]}
    assert ends == {count}, f"{count} records were acknowledged, and logs end at {sorted(ends)}"


def _partition(cluster: SimCluster) -> PartitionImage:
    topic = newest_image(cluster).topic_named(_TOPIC.topic)
    assert topic is not None
    return topic.partitions[_TOPIC.partition]


def _id(machine: SimMachine) -> BrokerId:
    return BrokerId(machine.config.node_id)
