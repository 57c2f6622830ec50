"""The last resort in a whole cluster: complete replicas are out of reach, and an operator gives them up."""

from __future__ import annotations

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import TopicName
from quorate.errors import RecoveryRefused
from quorate.metadata.image import NO_LEADER, PartitionImage

ATTEMPTS = 5


def partition_of(cluster: SimCluster) -> PartitionImage:
    topic = newest_image(cluster).topic_named(TopicName("t"))
    assert topic is not None
    return topic.partitions[0]


async def have_the_stale_one_lead(cluster: SimCluster, *, are_others_paused: bool) -> None:
    """``are_others_paused``: so that who asks them waits, instead of being told that nobody listens."""
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1, replication_factor=3)
    await cluster.until(lambda: len(partition_of(cluster).isr) == 3)
    stale, *others = [cluster.broker(each) for each in reversed(partition_of(cluster).replicas)]
    stale.kill()
    await cluster.until(lambda: len(partition_of(cluster).isr) == 2)
    async with cluster.producer() as producer:
        await (await producer.send("t", b"lost", partition=0))
    for machine in others:
        machine.pause() if are_others_paused else machine.kill()
    stale.start()
    await stale.ready()
    await cluster.until(lambda: partition_of(cluster).leader == NO_LEADER)
    async with cluster.admin(bootstrap=[stale.address]) as admin:
        for _ in range(ATTEMPTS):
            try:
                await admin.recover_partition(("t", 0), accept_missing_replicas=True)
            except RecoveryRefused:
                continue
            break
    assert partition_of(cluster).leader == stale.config.node_id


def simulate(*, are_others_paused: bool) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await have_the_stale_one_lead(cluster, are_others_paused=are_others_paused)

    run_simulation(main, seed=1, time_limit_s=300)


def test_a_partition_is_recovered_while_the_others_are_dead() -> None:
    simulate(are_others_paused=False)


def test_a_partition_is_recovered_while_the_others_do_not_answer() -> None:
    simulate(are_others_paused=True)
