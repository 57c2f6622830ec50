"""One log may take hours to compact. Meanwhile the others are looked after, and the broker can be stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import replicas_of
from quorate.chaos.sim.clock import run_simulation
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.storage.partition_log import PartitionLog

_ROUND_MS = 1_000
_COMPACTED = {"cleanup.policy": "compact"}
_SHORT = {"retention.ms": "1000", "segment.ms": "1000"}


def _replica(cluster: SimCluster, topic: str) -> Partition:
    [replica] = replicas_of(cluster)[TopicPartition(TopicName(topic), PartitionId(0))]
    return replica


def test_retention_goes_on_while_a_log_is_compacted_and_a_stop_ends_the_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[PartitionLog] = []
    ended: list[PartitionLog] = []

    async def compact(self: PartitionLog, *, below: int) -> None:
        if not self.config.compacts:
            return
        begun.append(self)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(self)

    monkeypatch.setattr(PartitionLog, "compact", compact)

    async def scenario(simulation: Any) -> None:
        cluster = SimCluster(simulation, brokers=1, settings={"log_retention_check_interval_ms": _ROUND_MS})
        await cluster.start()
        async with cluster.admin() as admin, cluster.producer() as producer:
            await admin.create_topic("compacted", partitions=1, replication_factor=1, configs=_COMPACTED)
            await admin.create_topic("short", partitions=1, replication_factor=1, configs=_SHORT)
            await (await producer.send("compacted", b"record", key=b"key", partition=0))
            await cluster.until(lambda: len(begun) == 1)
            await (await producer.send("short", b"record", partition=0))
        log = _replica(cluster, "short").log
        await cluster.until(lambda: log.log_start_offset == 1, within_s=5 * _ROUND_MS / 1000)
        # One pass at a time, however many rounds go by.
        assert begun == [_replica(cluster, "compacted").log]
        assert ended == []
        [machine] = cluster.brokers
        await machine.stop()
        assert machine.failure is None
        assert ended == begun

    run_simulation(scenario, seed=1, time_limit_s=300)
