"""Logs that are here and shall not be: they are found although the disk cannot always be asked (rule 42)."""

from __future__ import annotations

import asyncio
import errno

import pytest
from immutables import Map

from quorate.broker.directory.deletions import LogDeletions
from quorate.broker.replicas import Replicas
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.chaos.models.log.log_harness import SMALL_CONFIG, make_context, os_error
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId, PartitionId, TopicId, TopicName
from quorate.metadata.image import MetadataImage, RemovedTopicImage
from quorate.storage import LogDirectory, PartitionKey, StartKind

GONE = PartitionKey(TopicName("gone"), PartitionId(0), TopicId("g" * 22))
REMOVED = RemovedTopicImage(GONE.topic_id, GONE.topic, 0, (BrokerId(1),))
IMAGE = MetadataImage(removed_topics=Map({GONE.topic_id: REMOVED}))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
async def test_logs_of_deleted_topics_are_looked_for_again_when_they_could_not_be_listed(number: int) -> None:
    disk, clock = SimDisk(), SteppedClock()
    logs = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
    await logs.create(GONE, SMALL_CONFIG)
    deletions = LogDeletions(logs, clock=clock, delay_s=0, on_deleted=lambda _: None)
    replicas = Replicas(
        NodeConfig(node_id=BrokerId(1), data_dir="/data"),
        clock=clock,
        logs=logs,
        fetchers=_nobody_fetches(),
        deletions=deletions,
        on_isr_wish=lambda _: None,
        on_failure=lambda *_: None,
    )
    running = [asyncio.create_task(replicas.run()), asyncio.create_task(deletions.run())]
    disk.fault_hook = fail_nth(1, os_error(number), names={"list"})
    replicas.apply(IMAGE, None)
    await _turns()
    assert logs.partitions_on_disk() == [GONE]
    clock.advance(10.0)
    await _turns()
    clock.advance(0.1)
    await _turns()
    assert logs.partitions_on_disk() == []
    for task in running:
        task.cancel()
    await asyncio.wait(running)


def _nobody_fetches() -> ReplicaFetchers:
    return None  # type: ignore[return-value]  # there is no replica


async def _turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
