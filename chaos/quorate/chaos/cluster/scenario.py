"""What all runs of a simulated cluster share: a cluster, one topic, faults, and being whole again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.checks import Violation, check_replicas_agree, records_of, replicas_of
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.nemesis import Fault, Nemesis
from quorate.chaos.sim.clock import Simulation
from quorate.core.config import Durability
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import ReplicaDiverged
from quorate.v1 import admin_pb2

__all__ = ["Scenario"]

_TOPIC: Final = TopicName("t")
_REPLICAS: Final = 3
_DURABILITIES: Final = (Durability.REPLICATED, Durability.REPLICATED, Durability.FSYNC)
_HEALED_WITHIN_S: Final = 60.0


class Scenario:
    """Made by ``start``."""

    def __init__(self, simulation: Simulation, partitions: int) -> None:
        self._is_combined = simulation.rng.random() < 0.25
        self._durability = Durability.REPLICATED
        self.cluster = SimCluster(simulation, is_combined=self._is_combined)
        self.partitions = [TopicPartition(_TOPIC, PartitionId(number)) for number in range(partitions)]
        #: what was done to it, for reports
        self.story: list[str] = []

    @staticmethod
    async def start(
        simulation: Simulation, *, partitions: int, durability: Durability | None = None
    ) -> Scenario:
        """A cluster with a topic, all of it in sync. ``durability`` None: drawn."""
        scenario = Scenario(simulation, partitions)
        await scenario.cluster.start()
        scenario._durability = durability or simulation.rng.choice(_DURABILITIES)
        await scenario._create_topic()
        await scenario.cluster.until(scenario.is_whole)
        return scenario

    async def _create_topic(self) -> None:
        async with self.cluster.connect() as connection:
            await connection.create_topic(
                admin_pb2.CreateTopicRequest(
                    name=_TOPIC,
                    partition_count=len(self.partitions),
                    configs={"durability": self._durability},
                )
            )

    # -- what happens to it

    async def suffer(self, seconds: float, faults: Sequence[Fault] = ()) -> None:
        """Fault after fault, for so long; whole again when it returns. ``faults``: see the nemesis."""
        cluster = self.cluster
        nemesis = Nemesis(
            cluster,
            cluster.client_rng(),
            self.is_whole,
            is_synced=self._durability == Durability.FSYNC,
            faults=faults,
        )
        #: to the end of the simulation: also what is healed may end by itself
        self._supervisor = asyncio.create_task(self._restart_what_ended(), name="supervisor")
        await nemesis.run(until_s=cluster.clock.monotonic() + seconds)
        await self._until(self.is_whole)
        layout = "combined" if self._is_combined else "apart"
        self.story = [f"controllers {layout}, durability {self._durability}", *nemesis.story]

    async def _restart_what_ended(self) -> None:
        """As whoever runs nodes does: one that has ended by itself is started again."""
        while True:
            await self.cluster.clock.sleep(0.2)
            for machine in self.cluster.machines.values():
                if machine.failure is not None and not machine.is_running:
                    machine.start()

    # -- what is the case

    def replicas(self) -> dict[TopicPartition, list[Partition]]:
        found = replicas_of(self.cluster)
        return {partition: found.get(partition, []) for partition in self.partitions}

    def is_whole(self) -> bool:
        """Every partition has a leader, and every replica is in its ISR."""
        return all(
            any(
                replica.leadership is not None and len(replica.leadership.isr) == _REPLICAS
                for replica in replicas
            )
            for replicas in self.replicas().values()
        )

    def ends(self) -> dict[TopicPartition, Offset] | None:
        """Where the logs end, if everything is committed and all replicas know it; None: not yet."""
        ends = {}
        for partition, replicas in self.replicas().items():
            offsets = {
                offset for each in replicas for offset in (each.log.log_end_offset, each.high_watermark)
            }
            if len(replicas) != _REPLICAS or len(offsets) != 1:
                return None
            (ends[partition],) = offsets
        return ends if self.is_whole() else None

    async def _until(self, condition: Callable[[], bool]) -> None:
        def is_so() -> bool:
            self._check_nobody_has_diverged()
            return condition()

        await self.cluster.until(is_so, within_s=_HEALED_WITHIN_S)

    def _check_nobody_has_diverged(self) -> None:
        """A replica that was to drop committed records has refused to, and waits for help (rule 11)."""
        for replicas in self.replicas().values():
            for replica in replicas:
                if isinstance(replica.failure, ReplicaDiverged):
                    raise Violation(replica.failure.message)

    async def until_quiet(self) -> dict[TopicPartition, Offset]:
        """Everything is committed and known to be; returns the ends."""
        await self._until(lambda: self.ends() is not None)
        ends = self.ends()
        assert ends is not None
        return ends

    def committed(self) -> dict[TopicPartition, dict[Offset, bytes]]:
        """Value by offset of every partition; ``Violation`` if the replicas do not agree about it."""
        committed = {}
        for partition, replicas in self.replicas().items():
            check_replicas_agree(replicas)
            committed[partition] = records_of(replicas[0], replicas[0].high_watermark)
            state = replicas[0].state
            if state is None or state.image.unclean_leader_epochs:
                raise Violation(f"{partition}: an unclean election, and nobody has asked for one")
        return committed
