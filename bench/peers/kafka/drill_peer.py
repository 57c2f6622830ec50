"""Kafka as a drill sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from bench.peers.kafka.cluster import KafkaCluster
from bench.peers.kafka.installation import CONFLUENT_KAFKA, Installation
from bench.peers.process_peer import ProcessPeer

__all__ = ["KafkaDrillPeer"]


class KafkaDrillPeer(ProcessPeer):
    name: Final = "Apache Kafka"
    settings: Final[Mapping[str, str]] = {
        "nodes": "3, each a broker and a controller, defaults (log.flush.interval.messages is not set: no "
        "sync before an acknowledgement)",
        "topic": "replication factor 3, min.insync.replicas=2, otherwise defaults",
        "producer": f"confluent-kafka {CONFLUENT_KAFKA}: acks=all, enable.idempotence=true, "
        "message.timeout.ms=120000",
    }

    def __init__(self, installation: Installation) -> None:
        self._cluster = KafkaCluster(installation)
        python = str(installation.python)
        super().__init__(python, "-m", "bench.peers.kafka.drill_client", bootstrap=self._cluster.bootstrap)
        self.version = installation.version

    @asynccontextmanager
    async def laid_out(self) -> AsyncIterator[None]:
        async with self._cluster:
            yield

    async def start(self) -> None:
        await self._cluster.start()

    async def kill_all(self) -> None:
        # Each of them sends its signal before it waits, so all signals come before the first wait.
        await asyncio.gather(*(self._cluster.kill(node_id) for node_id in self._cluster.node_ids))
