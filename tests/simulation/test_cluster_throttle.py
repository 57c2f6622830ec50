"""A throttled move takes as long as its bytes take at the rate, and holds up nobody but itself."""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import check_replicas_agree, records_of
from quorate.chaos.cluster.view import is_whole, newest_image, partitions_of, replicas_of
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

MOVED: Final = TopicPartition(TopicName("moved"), PartitionId(0))
REGULAR: Final = TopicPartition(TopicName("regular"), PartitionId(0))
VALUE_BYTES: Final = 10_000
RECORDS: Final = 100
RATE_BYTES_PER_S: Final = 100_000
#: what a follower gets at a time: small beside what is moved, as a throttle is paid afterwards
ANSWER_BYTES_MAX: Final = 30_000
#: a leader without its follower goes on
ALONE: Final = {"min.insync.replicas": "1"}
OLD, NEW, OTHER = 1, 2, 3


async def write(cluster: SimCluster, to: TopicPartition, records: int) -> float:
    """Until every one is acknowledged by the whole ISR: how long that took, in virtual seconds."""
    began = cluster.clock.monotonic()
    async with cluster.producer(batch_bytes=VALUE_BYTES) as producer:
        value = bytes(VALUE_BYTES)
        sent = [await producer.send(to.topic, value, partition=to.partition) for _ in range(records)]
        for each in sent:
            await each
    return cluster.clock.monotonic() - began


def is_moving(cluster: SimCluster) -> bool:
    partition = dict(partitions_of(newest_image(cluster)))[MOVED]
    return bool(partition.adding_replicas or partition.removing_replicas)


def log_end_offset(cluster: SimCluster, of: TopicPartition, broker_id: int) -> int:
    broker = cluster.broker(broker_id).broker
    assert broker is not None
    ends = (each.log.log_end_offset for each in broker.replicas if each.topic_partition == of)
    return next(ends, 0)


def test_a_move_keeps_to_its_rate_and_ends_while_replication_to_the_same_broker_runs_free() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, settings={"replica_fetch_max_bytes": ANSWER_BYTES_MAX})
        await cluster.start()
        async with cluster.admin() as admin:
            await admin.create_topic("moved", assignments={0: [OLD, OTHER]})
            await admin.create_topic("regular", assignments={0: [OLD, NEW]}, configs=ALONE)
            await cluster.until(lambda: is_whole(cluster))
            at_the_rate_s = RECORDS * VALUE_BYTES / RATE_BYTES_PER_S
            assert await write(cluster, MOVED, RECORDS) < at_the_rate_s / 10

            await admin.alter_config(None, {"follower.replication.throttled.rate": str(RATE_BYTES_PER_S)})
            began = cluster.clock.monotonic()
            await admin.reassign_partitions({MOVED: [NEW, OTHER]})
            await cluster.until(lambda: log_end_offset(cluster, MOVED, NEW) > 0)

            # As many bytes, from the same leader to the same follower, which counts for the ISR.
            assert await write(cluster, REGULAR, RECORDS) < at_the_rate_s / 10
            assert log_end_offset(cluster, REGULAR, NEW) == RECORDS
            # So does whoever only lags.
            cluster.broker(NEW).kill()
            await cluster.until(lambda: len(isr_of(cluster, REGULAR)) == 1)
            await write(cluster, REGULAR, RECORDS)
            cluster.broker(NEW).start()
            assert await cluster.until(lambda: len(isr_of(cluster, REGULAR)) == 2) < at_the_rate_s / 2
            assert is_moving(cluster)

            await cluster.until(lambda: not is_moving(cluster), within_s=3 * at_the_rate_s)
            took_s = cluster.clock.monotonic() - began
            # Two answers are not waited for: the last one, and that of the process that was killed.
            at_least_s = at_the_rate_s - 2 * ANSWER_BYTES_MAX / RATE_BYTES_PER_S
            assert at_least_s < took_s < 1.5 * at_the_rate_s
        await cluster.until(lambda: is_whole(cluster))
        replicas = replicas_of(cluster)[MOVED]
        check_replicas_agree(replicas)
        assert len(records_of(next(iter(replicas)), Offset(RECORDS))) == RECORDS

    run_simulation(main, seed=1, time_limit_s=600)


def isr_of(cluster: SimCluster, of: TopicPartition) -> tuple[int, ...]:
    return dict(partitions_of(newest_image(cluster)))[of].isr
