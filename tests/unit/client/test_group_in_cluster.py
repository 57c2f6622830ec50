"""Group consumers and a whole cluster, simulated: real members, real coordinators, and all that goes wrong.

Whatever happens: an offset that is committed has only processed records before it, every record is processed
in the end, and at rest every partition has one reader.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.config import GroupConfig
from quorate.errors import QuorateError, UnreleasedInstance
from quorate.v1 import admin_pb2

PARTITIONS = 4
RECORDS = 400
#: so short that sessions end in the time of a test
TIMES = GroupConfig(session_timeout_ms=3_000, heartbeat_interval_ms=500, reconnect_grace_ms=200)


class Work:
    """What was processed, by whomever."""

    def __init__(self) -> None:
        self.done: dict[int, set[int]] = {number: set() for number in range(PARTITIONS)}
        self.count = 0

    def is_complete(self) -> bool:
        return all(len(offsets) == RECORDS for offsets in self.done.values())


class Worker:
    """One process after the other on a machine of its own."""

    def __init__(self, cluster: SimCluster, work: Work, rng: random.Random, **options: Any) -> None:
        self._cluster = cluster
        self._work = work
        self._rng = rng
        self._options: dict[str, Any] = {
            "enable_auto_commit": True,
            "auto_commit_interval_ms": 300,
            "max_poll_interval_ms": 2_000,
            **options,
        }
        self.errors: list[Exception] = []
        self.start()

    def start(self) -> None:
        transport = self._cluster.client_transport()
        self.machine = self._cluster.clients[-1]
        self.consumer = AsyncConsumer(
            self._cluster.bootstrap,
            group="g",
            topics=["t"],
            transport=transport,
            clock=self._cluster.clock,
            rng=self._cluster.client_rng(),
            **self._options,
        )
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                records = await self.consumer.poll(self._rng.randrange(1, 20), timeout=0.5)
            except QuorateError as error:
                self.errors.append(error)
                continue
            if self._rng.random() < 0.02:
                await self._cluster.clock.sleep(3)  # longer than max_poll_interval_ms
            await self._cluster.clock.sleep(0.05 * bool(records))
            for record in records:
                self._work.done[record.partition].add(record.offset)
                self._work.count += 1

    @property
    def held(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def crash(self) -> None:
        self._task.cancel()
        running = self.consumer._engine._running
        if running is not None:
            running.cancel()
        self._cluster.network.break_all_connections(self.machine)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.consumer.close()


async def start_topic(cluster: SimCluster) -> None:
    async with cluster.connect() as connection:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t", partition_count=PARTITIONS))
    async with cluster.producer() as producer:
        for partition in range(PARTITIONS):
            delivery = await producer.send_many("t", [b"v"] * RECORDS, partition=partition)
            await delivery


async def do_harm(cluster: SimCluster, rng: random.Random, workers: list[Worker]) -> None:
    worker, broker = rng.choice(workers), rng.choice(cluster.brokers)
    match rng.randrange(6):
        case 0:
            broker.kill()
            await cluster.clock.sleep(rng.uniform(0.1, 4))
            broker.start()
        case 1:
            broker.pause()
            await cluster.clock.sleep(rng.uniform(0.1, 4))
            broker.resume()
        case 2:
            worker.crash()
            await cluster.clock.sleep(rng.uniform(0, 1))
            worker.start()
        case 3:
            await worker.close()
            worker.start()
        case 4:
            cluster.network.partition([worker.machine], [each.name for each in cluster.brokers])
            await cluster.clock.sleep(rng.uniform(0.1, 5))
            cluster.network.heal()
        case 5:
            cluster.network.break_all_connections(worker.machine)
    await cluster.clock.sleep(rng.uniform(0.1, 2))


async def check_committed(cluster: SimCluster, work: Work) -> dict[int, int]:
    """By the coordinator's word, looked at after what was done: commits run after work, never before."""
    async with cluster.admin() as admin:
        offsets = await admin.list_group_offsets("g", timeout=60)
    found: dict[int, int] = {name.partition: each.offset for name, each in offsets.items()}
    for number, offset in found.items():
        missing = set(range(offset)) - work.done[number]
        assert not missing, (
            f"t-{number} is committed up to {offset}, and {sorted(missing)[:5]} were not processed"
        )
    return found


@pytest.mark.parametrize("seed", range(1, 7))
def test_whatever_happens_a_committed_offset_has_only_processed_records_before_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, settings={"groups": TIMES})
        await cluster.start()
        await start_topic(cluster)
        rng, work = random.Random(seed), Work()
        workers = [Worker(cluster, work, rng) for _ in range(3)]
        for _ in range(8):
            await do_harm(cluster, rng, workers)
            await check_committed(cluster, work)
        await cluster.until(work.is_complete, within_s=300)
        await cluster.until(
            lambda: sorted(each for one in workers for each in one.held) == [0, 1, 2, 3], within_s=60
        )
        for worker in workers:
            await worker.close()
            assert worker.errors == []
        assert await check_committed(cluster, work) == dict.fromkeys(range(PARTITIONS), RECORDS)

    run_simulation(main, seed=seed, time_limit_s=900)


def test_one_member_after_the_other_takes_its_share_and_leaves() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await start_topic(cluster)
        work = Work()
        workers = []
        for _ in range(4):
            workers.append(Worker(cluster, work, random.Random(1), max_poll_interval_ms=300_000))
            await cluster.until(
                lambda: (
                    sorted(each for one in workers for each in one.held) == [0, 1, 2, 3]
                    and all(one.held for one in workers)
                ),
                within_s=30,
            )
        async with cluster.admin() as admin:
            group = await admin.describe_group("g")
            assert (group.state, len(group.members)) == ("stable", 4)
        while len(workers) > 1:
            began = cluster.clock.monotonic()
            await workers.pop().close()
            await cluster.until(lambda: sorted(each for one in workers for each in one.held) == [0, 1, 2, 3])
            assert cluster.clock.monotonic() - began < 5, "by the time of polls, and of nothing else"
        await cluster.until(work.is_complete, within_s=300)
        assert work.count == PARTITIONS * RECORDS, "without trouble nothing is processed twice"
        await workers[0].close()
        assert await check_committed(cluster, work) == dict.fromkeys(range(PARTITIONS), RECORDS)

    run_simulation(main, seed=1, time_limit_s=900)


def test_a_new_partition_is_read_from_its_beginning_by_a_group_that_began_at_the_end() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await start_topic(cluster)
        work = Work()
        work.done[PARTITIONS] = set()
        worker = Worker(cluster, work, random.Random(1), auto_offset_reset="latest")
        await cluster.until(lambda: len(worker.held) == PARTITIONS)
        async with cluster.admin() as admin, cluster.producer() as producer:
            await admin.create_partitions("t", PARTITIONS + 1)
            await (await producer.send_many("t", [b"new"] * 50, partition=PARTITIONS))
        await cluster.until(lambda: len(work.done[PARTITIONS]) == 50, within_s=60)
        assert all(not work.done[number] for number in range(PARTITIONS))
        await worker.close()

    run_simulation(main, seed=1, time_limit_s=900)


def test_a_second_process_with_the_name_of_a_static_member_is_told_and_takes_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await start_topic(cluster)
        work = Work()
        options = {"group_instance_id": "one", "max_poll_interval_ms": 300_000}
        first = Worker(cluster, work, random.Random(1), **options)
        await cluster.until(lambda: len(first.held) == PARTITIONS)
        second = Worker(cluster, work, random.Random(2), **options)
        await cluster.until(lambda: bool(second.errors), within_s=30)
        assert isinstance(second.errors[0], UnreleasedInstance)
        assert "group_instance_id of its own" in second.errors[0].message
        assert (len(first.held), len(second.held), first.errors) == (PARTITIONS, 0, [])
        await first.close()
        await cluster.until(lambda: len(second.held) == PARTITIONS)
        await second.close()

    run_simulation(main, seed=1, time_limit_s=900)
