"""NATS JetStream and Redis Streams beside ours, for the time that a lone write takes and nothing else."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import Any

from bench.cluster.peer import Latencies, Load, LonePeer, latencies_of
from bench.cluster.processes import tell
from bench.peers.nats.cluster import NatsCluster
from bench.peers.nats.installation import Installation as NatsInstallation
from bench.peers.redis.cluster import RedisCluster
from bench.peers.redis.installation import Installation as RedisInstallation

__all__ = ["NatsPeer", "RedisPeer"]


class NatsPeer(LonePeer):
    """Three servers, streams of three replicas on files."""

    def __init__(self, installation: NatsInstallation) -> None:
        self._cluster = NatsCluster(installation)
        self._python = str(installation.python)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> NatsPeer:
        await self._stack.enter_async_context(self._cluster.laid_out())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self) -> float:
        began = time.monotonic()
        await self._cluster.start()
        return time.monotonic() - began

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._ask("create-topic", topic, partitions)

    async def send_alone(self, load: Load) -> Latencies:
        told = await self._ask("send-alone", load.topic, load.records, load.value_bytes, load.warm_up_records)
        return latencies_of(told["latencies_ms"])

    async def _ask(self, command: str, *arguments: object) -> dict[str, Any]:
        program = (self._python, "-m", "bench.peers.nats.client", command, self._cluster.bootstrap)
        return await tell(*program, *map(str, arguments))


class RedisPeer(LonePeer):
    """A primary and two replicas; a write counts when both have it."""

    def __init__(self, installation: RedisInstallation) -> None:
        self._cluster = RedisCluster(installation)
        self._python = str(installation.python)

    async def __aenter__(self) -> RedisPeer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cluster.end()

    async def start(self) -> float:
        return await self._cluster.start()

    async def create_topic(self, topic: str, partitions: int) -> None:
        """A stream is there once something is in it."""

    async def send_alone(self, load: Load) -> Latencies:
        program = (self._python, "-m", "bench.peers.redis.client", self._cluster.bootstrap, load.topic)
        numbers = (load.records, load.value_bytes, load.warm_up_records)
        return latencies_of((await tell(*program, *map(str, numbers)))["latencies_ms"])
