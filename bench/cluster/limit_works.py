"""Works that show what limits whom: brokers under a light client, many producers, a disk, the processor.

The light client (`bench.light`) sends batches that were made before, and reads batches as bytes, to either
system by its own protocol: what it gets is what the brokers can do, not what a client library makes of it.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from bench.cluster.comparison import Comparison
from bench.cluster.peer import Peer
from bench.cluster.processes import tell
from bench.cluster.work import KB, MB, Measured, Work
from bench.processor_time import seconds_of_clients, seconds_of_process

__all__ = ["BrokerLimited", "CpuPerGigabyte", "LightConsume", "ManyProducers", "Synced"]

_PARTITIONS: Final = 6
_SECONDS: Final = 8.0
_WARM_UP_S: Final = 2.0


class BrokerLimited(Work):
    def __init__(self, batch_kb: int, connections: int, *, bar: float, aim: float) -> None:
        self.name = f"broker-limited-{batch_kb}"
        self._batch_bytes = batch_kb * 1024
        self._connections = connections
        what = f"broker-limited, batches of {batch_kb} KB, {connections} connections"
        self.comparisons = (Comparison(what, "MB/s", self.name, self.name, "higher", bar, aim),)

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, _PARTITIONS)
        told = await _light(
            *("produce", peer, self.name, "--batch-bytes", self._batch_bytes),
            *("--connections", self._connections, *_times(self)),
        )
        return {self.name: [told["mb_per_s"]], f"{self.name}: p99": [told["p99_ms"]]}


class LightConsume(Work):
    """Bytes, as fast as one light client gets them."""

    name = "broker-limited-consume"
    comparisons = (
        Comparison("consume, broker-limited, one light client", "MB/s", name, name, "higher", 0.8, 1.2),
    )

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, _PARTITIONS)
        await _light("produce", peer, self.name, *_times(self))
        told = await _light("consume", peer, self.name, *_times(self))
        return {self.name: [told["mb_per_s"]]}


class ManyProducers(Work):
    """Each waits for its record before it sends the next."""

    name = "50-producers"
    comparisons = (Comparison("50 producers, window 1, 1 KB", "/s", name, name, "higher", 3.0, 6.0),)
    _producers = 50

    async def run(self, peer: Peer) -> Measured:
        await self._create_topic(peer)
        times = {"warm_up_s": self.seconds(_WARM_UP_S), "seconds": self.seconds(_SECONDS)}
        return {self.name: [await peer.many_producers(self.name, self._producers, 1 * KB, **times)]}

    async def _create_topic(self, peer: Peer) -> None:
        await peer.create_topic(self.name, _PARTITIONS)


class Synced(ManyProducers):
    """On the disk of every replica in sync before it is acknowledged."""

    name = "fsync"
    comparisons = (
        Comparison(
            "durability=fsync, 16 producers, 1 KB; Kafka: flush.messages=1",
            *("/s", name, name, "higher", 1.0, 3.0),
        ),
    )
    _producers = 16

    async def _create_topic(self, peer: Peer) -> None:
        await peer.create_synced_topic(self.name, _PARTITIONS)


class CpuPerGigabyte(Work):
    """Of all nodes and the client together, from its first instruction to its last."""

    name = "cpu"
    comparisons = (Comparison("processor time per GB acknowledged", "s", name, name, "lower", 0.4, 0.2),)

    async def run(self, peer: Peer) -> Measured:
        load = self.load(self.name, 300_000, 1 * KB)
        await peer.create_topic(load.topic, _PARTITIONS)
        before = _processor_time(peer)
        await peer.produce_bulk(load)
        spent = _processor_time(peer) - before
        return {self.name: [spent / (load.records * load.value_bytes / (1_000 * MB))]}


def _processor_time(peer: Peer) -> float:
    nodes = sum(seconds_of_process(process_id) for process_id in peer.process_ids())
    return nodes + seconds_of_clients()


def _times(work: Work) -> tuple[object, ...]:
    return ("--seconds", work.seconds(_SECONDS), "--warm-up", work.seconds(_WARM_UP_S))


async def _light(work: str, peer: Peer, topic: str, *options: object) -> dict[str, Any]:
    program = (sys.executable, "-m", "bench.light", work, peer.system, peer.bootstrap, topic)
    return await tell(*program, *map(str, options))
