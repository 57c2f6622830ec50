"""What an acknowledged batch costs the brokers: the calls of three of them, counted in a simulated cluster.

A regression here is a decision: where a batch is worth more work, say why and raise its bound. Where it needs
less, lower it.
"""

from __future__ import annotations

from collections import Counter

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import is_whole
from quorate.chaos.sim.clock import Simulation, run_simulation
from tests.counted_work import counted_calls

BATCHES = 200
VALUE = bytes(1_000)
#: calls of the leader and two followers together for a batch that is alone, heartbeats and all
BOUNDS = {"broker": 228, "storage": 117, "client": 84}


async def send_alone(cluster: SimCluster) -> None:
    """One record after the other, each acknowledged by all replicas before the next."""
    async with cluster.producer() as producer:
        for _ in range(BATCHES):
            await (await producer.send("t", VALUE, partition=0))


def test_acknowledged_batch_costs_no_more_calls_than_it_did() -> None:
    counted: Counter[str] = Counter()

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        async with cluster.admin() as admin:
            await admin.create_topic("t", assignments={0: [1, 2, 3]})
        await cluster.until(lambda: is_whole(cluster))
        await send_alone(cluster)
        with counted_calls() as calls:
            await send_alone(cluster)
        counted.update(calls)

    run_simulation(main, seed=1)
    per_batch = {package: round(counted[package] / BATCHES) for package in BOUNDS}
    assert all(per_batch[package] <= bound for package, bound in BOUNDS.items()), per_batch
