"""A volume goes and comes back under a node that is broker and active controller: both are gone (rule 30)."""

from __future__ import annotations

import asyncio

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import active_controller, newest_image, replicas_of
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.metadata.image import NO_LEADER
from quorate.storage.data_directory_files import CACHE_WITNESS_NAME
from quorate.v1 import admin_pb2

_TOPIC = TopicName("t")


async def _produce(cluster: SimCluster, count: int) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await (await producer.send(_TOPIC, str(number).encode(), partition=0))


@pytest.mark.parametrize("is_written_back", [False, True])
def test_the_loss_is_found_out_though_the_controller_is_gone_too(*, is_written_back: bool) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, is_combined=True)
        await cluster.start()
        async with cluster.connect() as connection:
            request = admin_pb2.CreateTopicRequest(name=_TOPIC, partition_count=1, replication_factor=3)
            await connection.create_topic(request)
        await _produce(cluster, 5)
        lossy = active_controller(cluster)
        assert lossy is not None
        crashed, behind = [each for each in cluster.brokers if each is not lossy]
        behind.kill()
        await cluster.until(lambda: newest_image(cluster).brokers[behind.config.node_id].is_fenced)
        if is_written_back:
            lossy.disk.write_back(f"{lossy.config.data_dir}/{CACHE_WITNESS_NAME}")
        await asyncio.sleep(2 * WITNESS_INTERVAL_S)
        await _produce(cluster, 20)

        crashed.kill()
        lossy.kill()
        lossy.lose_page_cache()
        lossy.start()
        behind.start()
        await cluster.until(lambda: lossy.is_ready and behind.is_ready)
        topic = newest_image(cluster).topic_named(_TOPIC)
        assert topic is not None
        assert topic.partitions[0].leader == NO_LEADER, "only the one that is still down has all records"
        crashed.start()
        await cluster.until(lambda: _is_everywhere(cluster, 25))

    run_simulation(main, seed=1, time_limit_s=600)


def _is_everywhere(cluster: SimCluster, records: int) -> bool:
    replicas = replicas_of(cluster).get(TopicPartition(_TOPIC, PartitionId(0)), [])
    return len(replicas) == 3 and all(each.high_watermark == records for each in replicas)
