"""One simulated run of a whole cluster under faults, from a seed to a verdict."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.checks import check_history, check_replicas_agree, records_of, replicas_of
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.history import History
from quorate.chaos.cluster.nemesis import Nemesis
from quorate.chaos.cluster.workload import Workload
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.v1 import admin_pb2

__all__ = ["RunReport", "run_seed"]

_TOPIC: Final = TopicName("t")
_REPLICAS: Final = 3
_PARTITIONS: Final = 2
_PRODUCERS: Final = 2
_FAULTS_S: Final = 12.0
_HEALED_WITHIN_S: Final = 60.0
_TIME_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class RunReport:
    seed: int
    story: tuple[str, ...]
    sent: int
    acknowledged: int
    unknown: int
    read: int
    virtual_s: float
    #: of everything that was committed, to compare two runs of one seed
    digest: int


def run_seed(seed: int) -> RunReport:
    """``Violation`` (or another AssertionError) if a promise was broken."""
    return run_simulation(_Run(seed).main, seed=seed, time_limit_s=_TIME_LIMIT_S)


class _Run:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._history = History()
        self._partitions = [TopicPartition(_TOPIC, PartitionId(number)) for number in range(_PARTITIONS)]

    async def main(self, simulation: Simulation) -> RunReport:
        rng = simulation.rng
        is_combined = rng.random() < 0.25
        cluster = self._cluster = SimCluster(simulation, is_combined=is_combined)
        await cluster.start()
        durability = rng.choice(["replicated", "replicated", "fsync"])
        await self._create_topic(durability)
        await cluster.until(self._is_whole)
        workload = Workload(cluster, self._history, self._partitions)
        producers = [
            asyncio.create_task(workload.produce(f"p{number}"), name=f"producer-{number}")
            for number in range(_PRODUCERS)
        ]
        reader = asyncio.create_task(workload.read("reader"), name="reader")
        nemesis = Nemesis(cluster, cluster.client_rng(), self._is_whole)
        watch = asyncio.create_task(self._restart_what_ended(), name="supervisor")
        await nemesis.run(until_s=cluster.clock.monotonic() + _FAULTS_S)
        await cluster.until(self._is_whole, within_s=_HEALED_WITHIN_S)
        workload.end()
        await asyncio.gather(*producers)
        await cluster.until(self._is_quiet, within_s=_HEALED_WITHIN_S)
        watch.cancel()
        reader.cancel()
        self._check()
        layout = "combined" if is_combined else "apart"
        return self._report((f"controllers {layout}, durability {durability}", *nemesis.story))

    async def _create_topic(self, durability: str) -> None:
        async with self._cluster.connect() as connection:
            await connection.create_topic(
                admin_pb2.CreateTopicRequest(
                    name=_TOPIC, partition_count=_PARTITIONS, configs={"durability": durability}
                )
            )

    async def _restart_what_ended(self) -> None:
        """As whoever runs nodes does: one that has ended by itself is started again."""
        while True:
            await self._cluster.clock.sleep(0.2)
            for machine in self._cluster.machines.values():
                if machine.failure is not None and not machine.is_running:
                    machine.start()

    # -- what is the case

    def _replicas(self) -> dict[TopicPartition, list[Partition]]:
        found = replicas_of(self._cluster)
        return {partition: found.get(partition, []) for partition in self._partitions}

    def _is_whole(self) -> bool:
        """Every partition has a leader, and every replica is in its ISR."""
        return all(
            any(
                replica.leadership is not None and len(replica.leadership.isr) == _REPLICAS
                for replica in replicas
            )
            for replicas in self._replicas().values()
        )

    def _is_quiet(self) -> bool:
        """Everything is committed, all replicas know it, and the reader has seen it."""
        ends = set()
        for partition, replicas in self._replicas().items():
            offsets = {offset for each in replicas for offset in (each.log.log_end_offset, each.high_watermark)}
            if len(replicas) != _REPLICAS or len(offsets) != 1:
                return False
            ends.add((partition, *offsets))
        read = {partition: 0 for partition in self._partitions}
        for _, partition, _, _ in self._history.read:
            read[partition] += 1
        return self._is_whole() and ends == {(partition, count) for partition, count in read.items()}

    # -- the verdict

    def _check(self) -> None:
        committed = {}
        for partition, replicas in self._replicas().items():
            check_replicas_agree(replicas)
            committed[partition] = records_of(replicas[0], replicas[0].high_watermark)
            assert replicas[0].state is not None
            assert replicas[0].state.image.unclean_leader_epochs == ()
        check_history(self._history, committed)
        self._committed = committed

    def _report(self, story: tuple[str, ...]) -> RunReport:
        history = self._history
        content = sorted(
            (partition, offset, value)
            for partition, records in self._committed.items()
            for offset, value in records.items()
        )
        return RunReport(
            seed=self._seed,
            story=story,
            sent=len(history.sent),
            acknowledged=sum(1 for _ in history.acknowledged),
            unknown=sum(each.error is not None and each.error.outcome_unknown for each in history.sent),
            read=len(history.read),
            virtual_s=self._cluster.clock.monotonic(),
            digest=zlib.crc32(repr(content).encode()),
        )
