"""A broker on a simulated disk in virtual time, called without a transport."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from quorate.broker.broker import Broker
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.records import Record, encode_batch
from quorate.v1 import admin_pb2, broker_pb2, records_pb2

DATA_DIRECTORY = "/data"
DEFAULT_CONFIG = NodeConfig(node_id=BrokerId(1), data_dir=DATA_DIRECTORY)


class NoCall:
    """What a handler may know about a call that never travelled."""

    peer = "test"

    def remaining_s(self) -> float:
        return math.inf


class Fatal(Exception):
    """The process would have ended here."""


def _fatal(reason: str) -> NoReturn:
    raise Fatal(reason)


@dataclass
class World:
    """One machine, on which a broker lives and dies."""

    simulation: Simulation
    disk: SimDisk
    config: NodeConfig = DEFAULT_CONFIG
    _broker: Broker | None = None
    _handlers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return self.simulation.clock.monotonic()

    async def start(self, **changes: Any) -> None:
        """Start a broker on what the disk holds; ``changes`` are fields of its configuration."""
        self.config = replace(self.config, **changes)
        self._broker = await Broker.open(
            self.config,
            clock=self.simulation.clock,
            disk=self.disk,
            random_bytes=self.simulation.rng.randbytes,
            on_fatal=_fatal,
        )
        services = self._broker.services()
        self._handlers = {
            method.name: handler for service in services for method, handler in service.handlers.items()
        }

    @property
    def broker(self) -> Broker:
        assert self._broker is not None
        return self._broker

    async def restart(self) -> None:
        assert await self.broker.close()
        await self.start()

    async def crash(self) -> None:
        """kill -9, and start again."""
        self.disk.crash()
        await self.start()

    async def lose_power(self) -> None:
        """The machine goes, and comes back without what was not synced."""
        self.disk.power_loss()
        await self.start()

    async def call(self, name: str, request: Any) -> Any:
        try:
            return await self._handlers[name](request, NoCall())
        finally:
            for partition in self.broker._topics.partitions():
                partition.validate()

    async def create_topic(self, name: str = "t", *, partitions: int = 1, **configs: str) -> None:
        await self.call(
            "CreateTopic",
            admin_pb2.CreateTopicRequest(
                name=name,
                partition_count=partitions,
                configs={key.replace("_", "."): value for key, value in configs.items()},
            ),
        )

    async def describe(self, name: str = "t") -> admin_pb2.TopicDescription:
        response = await self.call("DescribeTopic", admin_pb2.DescribeTopicRequest(name=name))
        topic: admin_pb2.TopicDescription = response.topic
        return topic

    async def produce(
        self, *values: str, partition: int = 0, acks: broker_pb2.Acks = broker_pb2.ACKS_ALL, **more: Any
    ) -> broker_pb2.ProducePartitionResult:
        """One structured record for each value, into topic ``t``."""
        entry = broker_pb2.ProducePartition(topic="t", partition=partition, records=records(*values))
        return (await self.produce_all(entry, acks=acks, **more))[0]

    async def produce_all(
        self, *entries: broker_pb2.ProducePartition, **more: Any
    ) -> Sequence[broker_pb2.ProducePartitionResult]:
        response = await self.call("Produce", broker_pb2.ProduceRequest(partitions=entries, **more))
        results: Sequence[broker_pb2.ProducePartitionResult] = response.partitions
        return results

    async def fetch(
        self, offset: int = 0, *, partition: int = 0, **more: Any
    ) -> broker_pb2.FetchPartitionResult:
        """Structured records of topic ``t`` from ``offset`` on."""
        entry = broker_pb2.FetchPartition(topic="t", partition=partition, fetch_offset=offset)
        more.setdefault("format", broker_pb2.RECORD_FORMAT_RECORDS)
        return (await self.fetch_all(entry, **more))[0]

    async def fetch_all(
        self, *entries: broker_pb2.FetchPartition, **more: Any
    ) -> Sequence[broker_pb2.FetchPartitionResult]:
        response = await self.call("Fetch", broker_pb2.FetchRequest(partitions=entries, **more))
        results: Sequence[broker_pb2.FetchPartitionResult] = response.partitions
        return results

    async def values(self, partition: int = 0) -> list[str]:
        """All that a consumer can read of a partition."""
        found: list[str] = []
        offset = 0
        while True:
            result = await self.fetch(offset, partition=partition)
            assert not result.HasField("error"), result.error
            if not result.records:
                return found
            found += [record.value.decode() for record in result.records]
            offset = result.next_fetch_offset


def simulate(
    scenario: Callable[[World], Awaitable[None]],
    *,
    sync_delay_s: float = 0.0,
    start: bool = True,
    **config: Any,
) -> None:
    """Run ``scenario`` on a machine with an empty disk, and a broker with ``config`` if it shall start."""

    async def main(simulation: Simulation) -> None:
        world = World(simulation, SimDisk(sync_delay_s=sync_delay_s))
        await world.start(**config)
        await scenario(world)

    run_simulation(main, seed=1)


def records(*values: str) -> list[records_pb2.Record]:
    return [records_pb2.Record(value=value.encode()) for value in values]


def batch(*values: str, **fields: Any) -> bytes:
    """A batch as a client that encodes would send it."""
    return encode_batch([Record(0, 1_000, None, value.encode()) for value in values], **fields)


async def settle() -> None:
    """Let every task run that can, without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)
