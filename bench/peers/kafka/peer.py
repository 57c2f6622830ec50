"""Kafka under the loads that ours is put under."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bench.cluster.failing_over import seconds_until_acknowledged
from bench.cluster.peer import Latencies, Load, Peer, latencies_of
from bench.cluster.processes import ClientFailed, running, tell
from bench.peers.kafka.cluster import NODES, KafkaCluster
from bench.peers.kafka.installation import Installation
from bench.peers.kafka.java_tools import active_controller, consumer_performance, producer_performance

__all__ = ["KafkaPeer"]

#: What Kafka's guide to throughput asks for; the rest is the producer's default: idempotent, lingering 5 ms.
_LARGE_BATCHES: Final = {"acks": "all", "batch.size": "131072"}
_ONE_PER_BATCH: Final = {"acks": "all", "batch.size": "1", "linger.ms": "0"}
#: at once, and as confluent-kafka does when nothing is said
_LINGERS_MS: Final = (0, 5)
_WRITE_BYTES: Final = 100
_IN_SYNC_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2


class KafkaPeer(Peer):
    system = "kafka"
    fail_overs = 2

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._cluster = KafkaCluster(installation)
        self._partitions: dict[str, int] = {}

    async def __aenter__(self) -> KafkaPeer:
        await self._cluster.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cluster.__aexit__(None, None, None)

    async def start(self) -> float:
        return await self._cluster.start()

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._ask("create-topic", topic, partitions)
        self._partitions[topic] = partitions

    async def create_synced_topic(self, topic: str, partitions: int) -> None:
        await self._ask("create-topic", topic, partitions, "flush.messages=1")
        self._partitions[topic] = partitions

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def process_ids(self) -> list[int]:
        return self._cluster.process_ids()

    def resident_bytes(self) -> list[int]:
        return self._cluster.resident_bytes()

    async def produce(self, load: Load) -> Mapping[str, float]:
        return {"java": await self._producer_performance(load, _LARGE_BATCHES)}

    async def produce_bulk(self, load: Load) -> float:
        return await self._producer_performance(load, _LARGE_BATCHES)

    async def many_producers(
        self, topic: str, producers: int, value_bytes: int, *, warm_up_s: float, seconds: float
    ) -> float:
        told = await self._ask("many-producers", topic, producers, value_bytes, warm_up_s, seconds)
        rate: float = told["records_per_s"]
        return rate

    async def produce_one_per_batch(self, load: Load) -> float:
        return await self._producer_performance(load, _ONE_PER_BATCH)

    async def _producer_performance(self, load: Load, properties: dict[str, str]) -> float:
        return await producer_performance(
            self._installation,
            self._cluster.bootstrap,
            topic=load.topic,
            records=load.records,
            values=self._cluster.file_of_values(load.value_bytes),
            warm_up_records=load.warm_up_records,
            properties=properties,
        )

    async def send_alone(self, load: Load) -> Latencies:
        told = await self._ask("send-alone", load.topic, load.records, load.value_bytes, load.warm_up_records)
        return latencies_of(told["latencies_ms"])

    async def end_to_end(self, load: Load, *, rate: float) -> Latencies:
        """Lingering costs time and saves requests; the better of both counts."""
        found = [await self._end_to_end(load, rate, linger_ms) for linger_ms in _LINGERS_MS]
        return min(found, key=lambda latencies: latencies.p99_ms)

    async def _end_to_end(self, load: Load, rate: float, linger_ms: int) -> Latencies:
        records = load.records + load.warm_up_records
        partitions = self._partitions[load.topic]
        receiver = self._command("receive", load.topic, records, partitions)
        sender = self._command(
            "send-paced", load.topic, records, load.value_bytes, rate, partitions, linger_ms
        )
        return latencies_of((await _received(receiver, sender))[load.warm_up_records :])

    async def consume(self, load: Load) -> Mapping[str, float]:
        python = await self._ask("consume", load.topic, load.records, self._partitions[load.topic])
        java = await consumer_performance(
            self._installation, self._cluster.bootstrap, topic=load.topic, records=load.records
        )
        return {"confluent-kafka": python["records_per_s"], "java": java}

    async def fail_over(self, topic: str, *, times: int, with_controller: bool) -> list[float]:
        seconds = []
        for _ in range(times):
            controller = await active_controller(self._installation, self._cluster.bootstrap)
            leaders = (await self._ask("describe", topic))["leaders"]
            partition, victim = next(
                (number, leader)
                for number, leader in enumerate(leaders)
                if (leader == controller) == with_controller
            )
            writer = self._command("write", topic, partition, _WRITE_BYTES)
            seconds.append(await seconds_until_acknowledged(writer, partial(self._cluster.kill, victim)))
            await self._cluster.start_again(victim)
            await self._until_in_sync(topic)
        return seconds

    async def _until_in_sync(self, topic: str) -> None:
        async with asyncio.timeout(_IN_SYNC_TIMEOUT_S):
            while True:
                if min((await self._ask("describe", topic))["in_sync"]) == NODES:
                    return
                await asyncio.sleep(_POLL_S)

    async def _ask(self, command: str, *arguments: object) -> dict[str, Any]:
        return await tell(*self._command(command, *arguments))

    def _command(self, command: str, *arguments: object) -> tuple[str, ...]:
        python = (str(self._installation.python), "-m", "bench.peers.kafka.confluent_client")
        return (*python, command, self._cluster.bootstrap, *map(str, arguments))


async def _received(receiver: tuple[str, ...], sender: tuple[str, ...]) -> list[float]:
    """Milliseconds of each record, in the order in which they arrived."""
    async with running(*receiver) as receiving:
        assert receiving.stdout is not None
        if (await receiving.stdout.readline()).strip() != b"ready":
            raise ClientFailed(f"the receiver did not start: {' '.join(receiver)}")
        await tell(*sender)
        latencies_ms: list[float] = json.loads(await receiving.stdout.readline())["latencies_ms"]
        return latencies_ms
