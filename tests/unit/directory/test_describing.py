"""Descriptions of replicas: what is here, how far it goes, and why it does not serve."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.broker.describing import ReplicaDescriber
from quorate.broker.replica.partition import Partition
from quorate.chaos.models.log.log_harness import LogHarness, ManualClock, batch
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, TopicId, TopicName, TopicPartition
from quorate.errors import DiskFull, StorageFailed, UnknownTopicOrPartition
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import DescribeLogEndsRequest, DescribeReplicasRequest, LogEnd

TOPIC_ID = TopicId("A" * 22)


class AnyCall:
    peer = "somebody"

    def remaining_s(self) -> float:
        return 1.0

    def when_over(self, callback: Callable[[], None]) -> None:
        pass


class Host:
    """Partition 0 is sound, 1 is damaged, 2 cannot be opened, and there are no others."""

    async def open(self) -> ReplicaDescriber:
        self.sound = LogHarness()
        await self.sound.lead(3)
        self.sound.append(batch(b"a"), batch(b"b"))
        self.damaged = LogHarness()
        await self.damaged.lead(3)
        self.damaged.append(batch(b"a"))
        self.damaged.disk.flip_bit(self.damaged.path(f"{0:020d}.log"), 8 * 65)
        await self.damaged.crash()
        return ReplicaDescriber(self.find)

    def find(self, topic_id: str, partition: int) -> Partition:
        if topic_id != TOPIC_ID or partition > 2:
            raise UnknownTopicOrPartition("no such partition")
        if partition == 2:
            raise StorageFailed("cannot open")
        harness = (self.sound, self.damaged)[partition]
        return Partition(
            TopicPartition(TopicName("orders"), PartitionId(partition)),
            TOPIC_ID,
            harness.log,
            broker_id=BrokerId(1),
            clock=ManualClock(),
            high_watermark=Offset(1),
            replica_lag_s=10.0,
            on_isr_wish=lambda _: None,
        )


def names(*partitions: int) -> list[ReplicaName]:
    return [ReplicaName(topic_id=TOPIC_ID, partition=partition) for partition in partitions]


async def test_log_ends_are_those_of_replicas_that_can_be_read() -> None:
    describer = await Host().open()
    request = DescribeLogEndsRequest(replicas=names(0, 1, 2, 3))
    answer = await describer.describe_log_ends(request, AnyCall())
    assert list(answer.log_ends) == [LogEnd(replica=names(0)[0], last_epoch=3, log_end_offset=2)]


async def test_epoch_in_which_nothing_was_written_is_not_the_last_one_of_a_log() -> None:
    """Else an operator's recovery would take the replica for the newest (rule 33)."""
    host = Host()
    describer = await host.open()
    host.sound.log.become_leader(LeaderEpoch(9))
    answer = await describer.describe_log_ends(DescribeLogEndsRequest(replicas=names(0)), AnyCall())
    assert [end.last_epoch for end in answer.log_ends] == [3]
    host.sound = LogHarness()
    await host.sound.lead(9)
    answer = await describer.describe_log_ends(DescribeLogEndsRequest(replicas=names(0)), AnyCall())
    assert [(end.last_epoch, end.log_end_offset) for end in answer.log_ends] == [(-1, 0)]


async def test_description_says_how_far_a_replica_goes_or_why_it_does_not_serve() -> None:
    host = Host()
    describer = await host.open()
    request = DescribeReplicasRequest(replicas=names(0, 1, 2, 3))
    sound, damaged, unopened = (await describer.describe_replicas(request, AnyCall())).replicas
    assert (sound.log_start_offset, sound.high_watermark, sound.log_end_offset) == (0, 1, 2)
    assert sound.size_bytes == host.sound.log.size_in_bytes > 0
    assert not sound.HasField("error")
    assert damaged.error.code == "LOG_DAMAGED"
    assert unopened.error.code == "STORAGE_FAILED"


async def test_replica_without_room_says_so_beside_its_offsets_until_it_has_room() -> None:
    """It leads on and is read, and all followers have what it has: nothing else would show it."""
    host = Host()
    describer = await host.open()
    disk = host.sound.disk
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull):
        host.sound.append(batch(b"c" * 500))
    request = DescribeReplicasRequest(replicas=names(0))
    [full] = (await describer.describe_replicas(request, AnyCall())).replicas
    assert (full.error.code, full.log_end_offset) == ("DISK_FULL", 2)
    disk.capacity_bytes = None
    host.sound.append(batch(b"c"))
    [roomy] = (await describer.describe_replicas(request, AnyCall())).replicas
    assert (roomy.HasField("error"), roomy.log_end_offset) == (False, 3)
