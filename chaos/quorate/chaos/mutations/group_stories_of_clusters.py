"""Stories of groups in whole clusters, for what members that come and go do not come to."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from quorate.broker.groups.offset_calls import OffsetCalls
from quorate.broker.groups.records import partition_of_group
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, replicas_of
from quorate.chaos.mutations.cluster_stories import recover_partition
from quorate.chaos.sim.network import LinkFaults
from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.groups.coordinator import COMMIT_OFFSETS
from quorate.client.groups.membership import Membership
from quorate.core.config.groups import GroupConfig
from quorate.core.ids import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import (
    FencedMemberEpoch,
    LogTruncated,
    NotEnoughReplicas,
    OffsetOutOfRange,
    QuorateError,
    StorageFailed,
)
from quorate.v1.group_pb2 import CommitOffsetsRequest, OffsetToCommit

__all__ = [
    "RETENTION_SETTINGS",
    "SESSION_SETTINGS",
    "a_coordinator_in_doubt_loads_again",
    "a_coordinator_that_was_replaced_says_nothing",
    "a_group_is_told_what_has_vanished",
    "a_group_is_told_what_retention_has_taken",
    "a_member_that_was_cut_off_does_not_take_its_group_back",
    "a_partition_that_is_added_is_read_from_its_beginning",
    "an_application_that_was_at_work_does_not_take_its_group_back",
]

RETENTION_SETTINGS: Final[Mapping[str, Any]] = {"log_retention_check_interval_ms": 1_000}
SESSION_SETTINGS: Final[Mapping[str, Any]] = {
    "groups": GroupConfig(session_timeout_ms=1_200, heartbeat_interval_ms=200)
}
_TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
_GROUP: Final = "g"
_RECORDS: Final = 10
_WITHIN_S: Final = 60.0
#: longer than creating a partition and writing to it takes, and shorter than a session
_ADDED_UNHEARD: Final = LinkFaults(delay_s=(5.0, 5.0))


async def a_coordinator_that_was_replaced_says_nothing(cluster: SimCluster) -> None:
    """Rules 37 and 63: it cannot know how far the group has come since, by the word of another."""
    await _create(cluster)
    await _write(cluster, _RECORDS)
    async with cluster.admin() as early, cluster.admin() as late:
        # Whoever is cut off with it asks nobody else: any other broker names the one that replaced it.
        its_client, others_client = cluster.clients[-2:]
        await early.commit_offsets(_GROUP, {_TOPIC: 5})
        assert await _told(early) == 5
        replaced = _coordinator(cluster)
        assert replaced is not None
        others = [each.name for each in cluster.machines.values() if each is not replaced]
        cluster.network.partition([replaced.name, its_client], [*others, others_client])
        await cluster.until(lambda: _coordinator(cluster) is not replaced, within_s=_WITHIN_S)
        await late.commit_offsets(_GROUP, {_TOPIC: _RECORDS}, timeout=_WITHIN_S)
        told = await _told(early)
        assert told in (None, _RECORDS), f"who was replaced says {told}"


async def a_coordinator_in_doubt_loads_again(cluster: SimCluster) -> None:
    """Rule 54: an append fails that was made all the same, so memory is not what the log says."""
    await _create(cluster)
    await _write(cluster, _RECORDS)
    topic_id = newest_image(cluster).topic_ids[_TOPIC.topic]
    entry = OffsetToCommit(topic_id=topic_id, topic=_TOPIC.topic, partition=0, offset=_RECORDS)
    async with cluster.admin() as admin:
        await admin.commit_offsets(_GROUP, {_TOPIC: 5})
        revision = (await admin.describe_group(_GROUP)).revision
        request = CommitOffsetsRequest(group=_GROUP, offsets=[entry], revision=revision)
        machine = _coordinator(cluster)
        assert machine is not None
        channel = cluster.client_transport().connect(machine.address)
        with Patch() as patch, contextlib.suppress(QuorateError):
            _append_and_fail(patch)
            await channel.call(COMMIT_OFFSETS, request, timeout_s=5)
        told = await _told(admin)
        assert told == _RECORDS, f"the log says {_RECORDS}, the coordinator {told}"


def _append_and_fail(patch: Patch) -> None:
    """Of nothing but the topic of groups."""
    append = Leadership.append

    def fail(self: Leadership, *args: Any, **options: Any) -> Any:
        appended = append(self, *args, **options)
        if self._topic_partition.topic == OFFSETS_TOPIC:
            raise StorageFailed("the disk has failed, or only said so")
        return appended

    patch.setattr(Leadership, "append", fail)


async def _told(admin: Any) -> int | None:
    """None: nobody answers."""
    try:
        offset: int = (await admin.list_group_offsets(_GROUP, timeout=5.0))[_TOPIC].offset
    except QuorateError:
        return None
    return offset


async def a_partition_that_is_added_is_read_from_its_beginning(cluster: SimCluster) -> None:
    """Rule 66: "latest" is the end as of when the group began; what is added later has no end then."""
    await _create(cluster)
    transport = cluster.client_transport()
    member = cluster.clients[-1]
    async with cluster.consumer(group=_GROUP, auto_offset_reset="latest", transport=transport) as consumer:
        consumer.subscribe([_TOPIC.topic])
        await _read_until(cluster, consumer, lambda: bool(consumer.assignment()))
        # The member hears of the partition when something is in it, whatever else takes how long.
        _delay_answers(cluster, member, _ADDED_UNHEARD)
        async with cluster.admin() as admin:
            await admin.create_partitions(_TOPIC.topic, 2)
        added = TopicPartition(_TOPIC.topic, PartitionId(1))
        await _write(cluster, _RECORDS, added)
        _delay_answers(cluster, member, None)
        seen: list[int] = []
        deadline_s = cluster.clock.monotonic() + 2 * _WITHIN_S
        while len(seen) < _RECORDS:
            assert cluster.clock.monotonic() < deadline_s, f"of the partition that was added: {seen}"
            records = await consumer.poll(timeout=1.0)
            seen += [record.offset for record in records if record.partition == added.partition]
        assert seen == list(range(_RECORDS))


async def a_group_is_told_what_has_vanished(cluster: SimCluster) -> None:
    """Rule 66: what its members have read and committed is not there any more, and other records are."""
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC.topic, partitions=1, replication_factor=1)
        await _write(cluster, _RECORDS)
        await _read_and_commit(cluster, _RECORDS)
        (leader,) = [each for each in cluster.brokers if _holds(each)]
        leader.kill()
        leader.wipe()
        leader.start()
        await recover_partition(cluster, admin, _TOPIC)
    # Longer than before, so that the committed offset is there again.
    await _write(cluster, 3 * _RECORDS)
    await _is_told(cluster, LogTruncated)


async def a_group_is_told_what_retention_has_taken(cluster: SimCluster) -> None:
    """Rule 66: what lies behind its offset was deleted before anybody of it has read it."""
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC.topic, partitions=1, configs={"segment.bytes": 16_384})
        await _write(cluster, _RECORDS)
        await _read_and_commit(cluster, _RECORDS)
        await _write(cluster, 8 * _RECORDS, size=1_000)
        await admin.alter_config(_TOPIC.topic, {"retention.bytes": 16_384})

    def is_gone() -> bool:
        return all(each.log.log_start_offset > _RECORDS for each in replicas_of(cluster)[_TOPIC])

    await cluster.until(is_gone, within_s=_WITHIN_S)
    await _is_told(cluster, OffsetOutOfRange)


async def a_member_that_was_cut_off_does_not_take_its_group_back(cluster: SimCluster) -> None:
    """Rule 62: it commits what it has read, is removed meanwhile, and gets the partition back later on."""
    await _create(cluster)
    await _write(cluster, 2 * _RECORDS)
    async with cluster.consumer(group=_GROUP) as consumer:
        cut_off, others = cluster.clients[-1], list(cluster.machines)
        consumer.subscribe([_TOPIC.topic])
        await _read(consumer, _RECORDS)
        before = consumer.membership()
        with Patch() as patch:
            # It is tried again until it is out of date.
            _refuse_commits_of(patch, Offset(_RECORDS))
            consumer.commit_async()
            await cluster.clock.sleep(0.1)
            cluster.network.partition([cut_off], others)
            await _read_and_commit(cluster, 2 * _RECORDS)
            cluster.network.heal()
            await _read_until(cluster, consumer, lambda: _has_begun_anew(consumer, before))
        await cluster.clock.sleep(_WITHIN_S / 2)
        async with cluster.admin() as admin:
            assert await _told(admin) == 2 * _RECORDS, "the group was taken back"


async def an_application_that_was_at_work_does_not_take_its_group_back(cluster: SimCluster) -> None:
    """Rule 62: meanwhile its member was removed and has come back by itself, with the same partition."""
    await _create(cluster)
    await _write(cluster, 2 * _RECORDS)
    async with cluster.consumer(group=_GROUP) as consumer:
        cut_off, others = cluster.clients[-1], list(cluster.machines)
        consumer.subscribe([_TOPIC.topic])
        await _read(consumer, _RECORDS)
        before = consumer.membership()
        cluster.network.partition([cut_off], others)
        await _read_and_commit(cluster, 2 * _RECORDS)
        cluster.network.heal()
        await cluster.until(lambda: _has_begun_anew(consumer, before), within_s=_WITHIN_S)
        await cluster.clock.sleep(1)
        with contextlib.suppress(FencedMemberEpoch):
            await consumer.commit()
        async with cluster.admin() as admin:
            assert await _told(admin) == 2 * _RECORDS, "the group was taken back"


def _refuse_commits_of(patch: Patch, offset: Offset) -> None:
    commit = OffsetCalls.commit

    async def refuse(self: OffsetCalls, request: CommitOffsetsRequest) -> Any:
        if any(each.offset == offset for each in request.offsets):
            raise NotEnoughReplicas("too few, for the moment")
        return await commit(self, request)

    patch.setattr(OffsetCalls, "commit", refuse)


def _has_begun_anew(consumer: AsyncConsumer, before: Membership | None) -> bool:
    now = consumer.membership()
    is_another = now is not None and before is not None and now.member_id != before.member_id
    return is_another and bool(consumer.assignment())


# -- what they share


async def _read(consumer: AsyncConsumer, count: int) -> None:
    """So many, and no more."""
    read = 0
    while read < count:
        read += len(await consumer.poll(count - read, timeout=1.0))


async def _create(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC.topic, partitions=1, replication_factor=3)


def _delay_answers(cluster: SimCluster, client: str, faults: LinkFaults | None) -> None:
    for machine in cluster.brokers:
        cluster.network.set_faults(machine.name, client, faults)


async def _write(
    cluster: SimCluster, count: int, partition: TopicPartition = _TOPIC, *, size: int = 1
) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            value = b"%d" % number + b"." * size
            await (await producer.send(partition.topic, value, partition=partition.partition))


async def _read_and_commit(cluster: SimCluster, count: int) -> None:
    read = 0
    async with cluster.consumer(group=_GROUP) as consumer:
        consumer.subscribe([_TOPIC.topic])
        while read < count:
            read += len(await consumer.poll(timeout=1.0))
        await consumer.commit()


async def _read_until(cluster: SimCluster, consumer: AsyncConsumer, condition: Any) -> None:
    deadline_s = cluster.clock.monotonic() + _WITHIN_S
    while not condition():
        assert cluster.clock.monotonic() < deadline_s, "it was given nothing"
        await consumer.poll(timeout=0.1)


async def _is_told(cluster: SimCluster, error: type[QuorateError]) -> None:
    """The next member hears of it, before it is handed anything."""
    async with cluster.consumer(group=_GROUP) as consumer:
        consumer.subscribe([_TOPIC.topic])
        deadline_s = cluster.clock.monotonic() + _WITHIN_S
        while cluster.clock.monotonic() < deadline_s:
            try:
                records = await consumer.poll(timeout=1.0)
            except error:
                return
            assert not records, f"the group goes on at {records[0].offset}, and was told nothing"
    raise AssertionError("the group was told nothing")


def _coordinator(cluster: SimCluster) -> SimMachine | None:
    topic = newest_image(cluster).topic_named(OFFSETS_TOPIC)
    assert topic is not None
    leader: BrokerId = topic.partitions[partition_of_group(_GROUP, len(topic.partitions))].leader
    return next((each for each in cluster.brokers if each.config.node_id == leader), None)


def _holds(machine: SimMachine) -> bool:
    replicas = () if machine.broker is None else machine.broker.replicas
    return any(each.topic_partition == _TOPIC for each in replicas)
