"""What a broker makes of its replicas while they come and go."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from quorate.broker import replicas
from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk_faults import fail_path
from quorate.core.ids import BrokerId, Offset, TopicName
from quorate.metadata.image import NO_LEADER, PartitionImage
from quorate.v1 import admin_pb2


def _partitions(cluster: SimCluster) -> Sequence[PartitionImage]:
    topic = newest_image(cluster).topic_named(TopicName("t"))
    return () if topic is None else topic.partitions


def test_a_partition_whose_log_cannot_be_made_is_led_by_another_broker() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        failing = cluster.broker(1)

        def io_error() -> OSError:
            return OSError(errno.EIO, "a test")

        failing.disk.fault_hook = fail_path("/data/t-", io_error, names=("make_directory",))
        async with cluster.connect() as connection:
            request = admin_pb2.CreateTopicRequest(name="t", partition_count=6, replication_factor=3)
            await connection.create_topic(request)
        await cluster.until(
            lambda: all(each.leader not in (1, NO_LEADER) for each in _partitions(cluster)), within_s=5.0
        )

    run_simulation(main, seed=1, time_limit_s=600)


def test_a_replica_that_comes_back_does_not_get_the_high_watermark_of_the_process_s_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That one was of the log as it was then, and the log may have been cut since."""
    taken_up: list[tuple[BrokerId, Offset]] = []

    class NotedPartition(Partition):
        __slots__ = ()

        def __init__(self, *args: Any, **options: Any) -> None:
            taken_up.append((options["broker_id"], options["high_watermark"]))
            super().__init__(*args, **options)

    monkeypatch.setattr(replicas, "Partition", NotedPartition)

    async def move(cluster: SimCluster, targets: list[int]) -> None:
        async with cluster.admin() as admin:
            await admin.reassign_partitions({("t", 0): targets})
        await cluster.until(lambda: sorted(_partitions(cluster)[0].replicas) == targets)

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        async with cluster.connect() as connection:
            request = admin_pb2.CreateTopicRequest(name="t", partition_count=1, replication_factor=2)
            await connection.create_topic(request)
        await cluster.until(lambda: len(_partitions(cluster)) == 1)
        first, second = sorted(_partitions(cluster)[0].replicas)
        (third,) = {1, 2, 3} - {first, second}
        async with cluster.producer() as producer:
            for _ in range(5):
                await (await producer.send("t", b"", partition=0))
        await asyncio.sleep(1.0)
        await cluster.broker(first).stop()
        cluster.broker(first).start()
        await cluster.until(lambda: set(_partitions(cluster)[0].isr) == {first, second})
        assert taken_up[-1] == (first, 5)
        await move(cluster, sorted((second, third)))
        await move(cluster, [first, second])
        assert taken_up[-1] == (first, 0)

    run_simulation(main, seed=1, time_limit_s=600)
