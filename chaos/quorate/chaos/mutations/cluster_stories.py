"""Whole-cluster stories, for what no plan of faults comes to.

Losses beyond the fault model, with an operator who accepts them, are one kind. A client that is nothing but
stubs is the other: ours would never ask like that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.admin import AsyncAdmin
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.transport import method_of
from quorate.errors import LogTruncated, QuorateError
from quorate.v1 import broker_pb2, records_pb2

__all__ = ["a_reader_is_told_what_has_vanished", "a_topic_made_anew_is_another_one", "cluster_story"]

_TOPIC: Final = "t"
_RECORDS: Final = 10
_TIME_LIMIT_S: Final = 300.0
_PRODUCE: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "Produce",
    broker_pb2.ProduceRequest,
    broker_pb2.ProduceResponse,
)


def cluster_story(tell: Callable[[SimCluster], Awaitable[None]]) -> StoryHunt:
    def play() -> None:
        async def main(simulation: Simulation) -> None:
            cluster = SimCluster(simulation)
            await cluster.start()
            await tell(cluster)

        run_simulation(main, seed=1, time_limit_s=_TIME_LIMIT_S)

    return StoryHunt("whole cluster, a story", play)


async def a_reader_is_told_what_has_vanished(cluster: SimCluster) -> None:
    """Rule 66: the only copy is lost with its disk, and an operator has the empty one lead."""
    async with cluster.admin() as admin, cluster.consumer() as consumer:
        await admin.create_topic(_TOPIC, partitions=1, replication_factor=1)
        await _write(cluster, _RECORDS)
        consumer.assign([(_TOPIC, 0)])
        consumer.seek_to_beginning()
        read = 0
        while read < _RECORDS:
            read += len(await consumer.poll(timeout=1.0))
        (leader,) = [each for each in cluster.brokers if _holds_a_replica(each)]
        leader.kill()
        leader.wipe()
        leader.start()
        await _recover(cluster, admin)
        # Longer than before, so that the old offset is there again, with another record.
        await _write(cluster, 3 * _RECORDS)
        await _reader_is_told(cluster, consumer)


async def _reader_is_told(cluster: SimCluster, consumer: AsyncConsumer) -> None:
    deadline_s = cluster.clock.monotonic() + 30
    while cluster.clock.monotonic() < deadline_s:
        try:
            records = await consumer.poll(timeout=1.0)
        except LogTruncated:
            return
        assert not records, f"the reader goes on with {records[0].value!r}, and what it read has vanished"
    raise AssertionError("the reader was told nothing")


async def a_topic_made_anew_is_another_one(cluster: SimCluster) -> None:
    """Rule 43: a client that still means the old one writes nothing to the new one."""
    async with cluster.admin() as admin:
        old = await admin.create_topic(_TOPIC, partitions=1)
        await _write(cluster, 1)
        await admin.delete_topic(_TOPIC)
        await admin.create_topic(_TOPIC, partitions=1)
        await _write(cluster, 1)
    entry = broker_pb2.ProducePartition(
        topic=_TOPIC, topic_id=old.topic_id, records=[records_pb2.Record(value=b"for the old one")]
    )
    request = broker_pb2.ProduceRequest(partitions=[entry])
    transport = cluster.client_transport()
    for machine in cluster.brokers:
        response = await transport.connect(machine.address).call(_PRODUCE, request, timeout_s=30)
        code = response.partitions[0].error.code
        assert code, f"{machine.name} wrote to the new topic what was meant for the old one"


# -- what the stories share


async def _write(cluster: SimCluster, count: int) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await (await producer.send(_TOPIC, b"%d of %d" % (number, count), partition=0))


async def _recover(cluster: SimCluster, admin: AsyncAdmin) -> None:
    """Once the broker is back, and has told that it has nothing."""
    while True:
        try:
            await admin.recover_partition((_TOPIC, 0), accept_missing_replicas=True)
        except QuorateError:
            await cluster.clock.sleep(0.5)
        else:
            return


def _holds_a_replica(machine: SimMachine) -> bool:
    node = machine.node
    return node is not None and node.broker is not None and any(node.broker.replicas)
