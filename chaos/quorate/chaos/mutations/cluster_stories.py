"""Whole-cluster stories, for what no plan of faults comes to.

Losses beyond the fault model, with an operator who accepts them, are one kind. A client that is nothing but
stubs is another: ours would never ask like that. And some rules keep time, not records: a plan waits until
all is well again, however long that takes within its bound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, partitions_of, replicas_of
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.admin import AsyncAdmin
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import method_of
from quorate.errors import (
    ControllerMoved,
    LogTruncated,
    QuorateError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from quorate.v1 import broker_pb2, records_pb2

__all__ = [
    "a_controller_that_is_cut_off_is_left",
    "a_log_that_no_metadata_speaks_of_is_left_alone",
    "a_new_controller_decides_on_all_that_is_committed",
    "a_reader_is_told_what_has_vanished",
    "a_reader_of_a_deleted_topic_is_told",
    "a_stop_is_granted",
    "a_topic_made_anew_is_another_one",
    "cluster_story",
    "recover_partition",
]

_TOPIC: Final = "t"
_RECORDS: Final = 10
_TIME_LIMIT_S: Final = 300.0
#: the next controller; two election time-outs and more
_ELECTED_WITHIN_S: Final = 3.0
#: what was decided
_TOLD_WITHIN_S: Final = 3.0
#: of a device: between the election of a controller and the first commit of its term several pass
_SLOW_SYNC_S: Final = 0.2
_PRODUCE: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "Produce",
    broker_pb2.ProduceRequest,
    broker_pb2.ProduceResponse,
)


def cluster_story(
    tell: Callable[[SimCluster], Awaitable[None]],
    *,
    brokers: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> StoryHunt:
    def play() -> None:
        async def main(simulation: Simulation) -> None:
            cluster = SimCluster(simulation, brokers=brokers, settings=settings)
            await cluster.start()
            await tell(cluster)

        run_simulation(main, seed=1, time_limit_s=_TIME_LIMIT_S)

    return StoryHunt("whole cluster, a story", play)


async def a_reader_is_told_what_has_vanished(cluster: SimCluster) -> None:
    """Rule 66: the only copy is lost with its disk, and an operator has the empty one lead."""
    async with cluster.admin() as admin, cluster.consumer() as consumer:
        await admin.create_topic(_TOPIC, partitions=1, replication_factor=1)
        await _write(cluster, _RECORDS)
        await _read_what_was_written(consumer)
        (leader,) = [each for each in cluster.brokers if _holds_a_replica(each)]
        leader.kill()
        leader.wipe()
        leader.start()
        await recover_partition(cluster, admin, (_TOPIC, 0))
        # Longer than before, so that the old offset is there again, with another record.
        await _write(cluster, 3 * _RECORDS)
        await _reader_is_told(cluster, consumer)


async def _read_what_was_written(consumer: AsyncConsumer) -> None:
    consumer.assign([(_TOPIC, 0)])
    consumer.seek_to_beginning()
    read = 0
    while read < _RECORDS:
        read += len(await consumer.poll(timeout=1.0))


async def _reader_is_told(cluster: SimCluster, consumer: AsyncConsumer) -> None:
    try:
        await _poll_for_a_while(cluster, consumer)
    except LogTruncated:
        return
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


async def a_reader_of_a_deleted_topic_is_told(cluster: SimCluster) -> None:
    """Rule 43: its offset means nothing in the next topic of that name, although there is a record."""
    async with cluster.admin() as admin, cluster.consumer() as consumer:
        reader = cluster.clients[-1]
        await admin.create_topic(_TOPIC, partitions=1)
        await _write(cluster, _RECORDS)
        await _read_what_was_written(consumer)
        # It does not see the time without a topic.
        cluster.network.partition([reader], list(cluster.machines))
        await admin.delete_topic(_TOPIC)
        await admin.create_topic(_TOPIC, partitions=1)
        await _write(cluster, 3 * _RECORDS)
        cluster.network.heal()
        try:
            await _poll_for_a_while(cluster, consumer)
        except UnknownTopicOrPartition:
            return
        except LogTruncated as error:
            raise AssertionError(f"the reader takes the new topic for the old one: {error}") from None
        raise AssertionError("the reader was told nothing")


async def a_stop_is_granted(cluster: SimCluster) -> None:
    """Rule 36: a broker that is asked to stop is let go, long before it would go without leave."""
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC, partitions=3)
    await _write(cluster, 1)
    machine = cluster.brokers[0]
    began_s = cluster.clock.monotonic()
    await machine.stop()
    took_s = cluster.clock.monotonic() - began_s
    bound_s = machine.config.controlled_shutdown_timeout_ms / 2000
    assert took_s < bound_s, f"nobody has let it go for {took_s:g} s"
    image = newest_image(cluster)
    led = [str(name) for name, each in partitions_of(image) if each.leader == machine.config.node_id]
    assert not led, f"it has gone, and leads {led}"


async def a_controller_that_is_cut_off_is_left(cluster: SimCluster) -> None:
    """Rule 40: brokers that hear a controller which hears nobody learn the news from another one."""
    for controller in cluster.controllers:
        others = [each.name for each in cluster.controllers if each is not controller]
        cluster.network.partition([controller.name], others)
        await cluster.clock.sleep(_ELECTED_WITHIN_S)
        async with cluster.admin() as admin:
            await admin.create_topic(f"{_TOPIC}-{controller.name}", partitions=1, replication_factor=3)
        partition = TopicPartition(TopicName(f"{_TOPIC}-{controller.name}"), PartitionId(0))
        deadline_s = cluster.clock.monotonic() + _TOLD_WITHIN_S
        while len(replicas_of(cluster).get(partition, ())) < len(cluster.brokers):
            assert cluster.clock.monotonic() < deadline_s, f"somebody still listens to {controller.name}"
            await cluster.clock.sleep(0.1)
        cluster.network.heal()


async def a_new_controller_decides_on_all_that_is_committed(cluster: SimCluster) -> None:
    """Rule 39: right after its election it has applied next to nothing of what the last one decided."""
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC, partitions=1)
        for controller in cluster.controllers:
            controller.kill()
        for controller in cluster.controllers:
            controller.disk.sync_delay_s = _SLOW_SYNC_S
            controller.start()
        try:
            await admin.create_topic(_TOPIC, partitions=1)
        except (TopicAlreadyExists, ControllerMoved):
            pass  # It is there; as far as the last attempt can tell, perhaps by an earlier one.
        else:
            raise AssertionError("a topic was made that there is")
    await cluster.clock.sleep(_TOLD_WITHIN_S)
    for controller in cluster.controllers:
        # Of what it has decided on too little the log makes something else, and it ends itself.
        assert controller.failure is None, f"{controller.name}: {controller.failure}"


async def a_log_that_no_metadata_speaks_of_is_left_alone(cluster: SimCluster) -> None:
    """Rule 42: nobody knows why it is there, so it stays (NATS took such for orphans, and deleted them)."""
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC, partitions=1)
    await _write(cluster, _RECORDS)
    machine = next(each for each in cluster.brokers if _holds_a_replica(each))
    machine.kill()
    disk, data_dir = machine.disk, machine.config.data_dir
    [own] = [name for name in disk.list(data_dir) if name.startswith(f"{_TOPIC}-0.")]
    stranger = f"{data_dir}/{_TOPIC}-0.{'A' * 22}"
    disk.make_directory(stranger)
    for name in disk.list(f"{data_dir}/{own}"):
        await disk.write_file(f"{stranger}/{name}", disk.read_file(f"{data_dir}/{own}/{name}"))
    segment = f"{stranger}/{0:020}.log"
    before = disk.read_file(segment)
    machine.start()
    await machine.ready()
    await cluster.clock.sleep(2 * machine.config.file_delete_delay_ms / 1000)
    assert disk.exists(segment), "a log that no metadata speaks of was deleted"
    assert disk.read_file(segment) == before


# -- what the stories share


async def _poll_for_a_while(cluster: SimCluster, consumer: AsyncConsumer) -> None:
    deadline_s = cluster.clock.monotonic() + 30
    while cluster.clock.monotonic() < deadline_s:
        records = await consumer.poll(timeout=1.0)
        assert not records, f"the reader goes on with {records[0].value!r}, and what it read has vanished"


async def _write(cluster: SimCluster, count: int) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await (await producer.send(_TOPIC, b"%d of %d" % (number, count), partition=0))


async def recover_partition(cluster: SimCluster, admin: AsyncAdmin, partition: tuple[str, int]) -> None:
    """Once a broker is back, and has told what it has, or that it has nothing."""
    while True:
        try:
            await admin.recover_partition(partition, accept_missing_replicas=True)
        except QuorateError:
            await cluster.clock.sleep(0.5)
        else:
            return


def _holds_a_replica(machine: SimMachine) -> bool:
    return machine.broker is not None and any(machine.broker.replicas)
