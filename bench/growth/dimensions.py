"""What grows, and the load that every size of it is put under."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NamedTuple

from bench.cluster.peer import Load
from bench.cluster.processes import ClientFailed, tell
from bench.cluster.quorate_peer import QuoratePeer
from bench.light.lines import ask_for_brokers
from bench.processor_time import seconds_of_process
from quorate.client.transport import client_transport

__all__ = ["DIMENSIONS", "FIGURES", "Dimension", "measure"]

#: what is measured at each size, with its unit
FIGURES: Final = {
    "throughput": "MB/s",
    "p99 at 1,000 records/s": "ms",
    "processor time of a node meanwhile": "% of a core",
    "memory of a node": "MB",
}
_TOPIC: Final = "load"
_PARTITIONS: Final = 6
_RATE: Final = 1_000.0
_RECORDS: Final = 10_000
_VALUE_BYTES: Final = 1_000
_SECONDS: Final = 5.0
#: the nodes are looked at for so long, and quiet if all together took less of a core than that
_QUIET_LOOK_S: Final = 2.0
_QUIET_SHARE: Final = 0.6
_QUIET_WAIT_S: Final = 300.0
#: in one topic; more are made as several
_PARTITIONS_MAX: Final = 1_000

Growing = Callable[[QuoratePeer, int], AbstractAsyncContextManager[None]]


class Dimension(NamedTuple):
    name: str
    sizes: Sequence[int]
    #: what is there while the load runs
    growing: Growing
    #: of the load's topic, and how many producers it has
    partitions: Callable[[int], int] = lambda _: _PARTITIONS
    connections: Callable[[int], int] = lambda _: 24


async def measure(dimension: Dimension, size: int, scale: float) -> dict[str, list[float]]:
    """One cluster's life at this size."""
    async with QuoratePeer() as peer:
        await peer.start()
        await peer.create_topic(_TOPIC, dimension.partitions(size))
        async with dimension.growing(peer, size):
            await _until_quiet(peer)
            told = await tell(
                *(sys.executable, "-m", "bench.light", "produce", "quorate", peer.bootstrap, _TOPIC),
                *("--batch-bytes", "16384", "--connections", str(dimension.connections(size))),
                *("--seconds", str(max(_SECONDS * scale, 0.5))),
            )
            before, began = _processor_time(peer), time.monotonic()
            records = max(round(_RECORDS * scale), 1)
            latencies = await peer.end_to_end(Load(_TOPIC, records, _VALUE_BYTES), rate=_RATE)
            spent = (_processor_time(peer) - before) / (time.monotonic() - began)
            memory = peer.resident_bytes()
    values = (told["mb_per_s"], latencies.p99_ms, 100 * spent / len(memory), sum(memory) / len(memory) / 1e6)
    return {name: [value] for name, value in zip(FIGURES, values, strict=True)}


async def _until_quiet(peer: QuoratePeer) -> None:
    """Brokers make the logs of new partitions after the topic is there, durably: thousands take a while."""
    deadline = time.monotonic() + _QUIET_WAIT_S
    while time.monotonic() < deadline:
        before = _processor_time(peer)
        await asyncio.sleep(_QUIET_LOOK_S)
        if _processor_time(peer) - before < _QUIET_SHARE * _QUIET_LOOK_S:
            return
    raise ClientFailed(f"the nodes are not quiet {_QUIET_WAIT_S:g} s after their partitions were made")


def _processor_time(peer: QuoratePeer) -> float:
    return sum(seconds_of_process(process_id) for process_id in peer.process_ids())


@asynccontextmanager
async def _nothing(_peer: QuoratePeer, _size: int) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def _idle_connections(peer: QuoratePeer, size: int) -> AsyncIterator[None]:
    """Each has made one call, and makes no more."""
    addresses = peer.bootstrap.split(",")
    channels = [client_transport().connect(addresses[number % len(addresses)]) for number in range(size)]
    try:
        for channel in channels:
            await ask_for_brokers(channel, _TOPIC)
        yield
    finally:
        for channel in channels:
            await channel.close()


@asynccontextmanager
async def _idle_partitions(peer: QuoratePeer, size: int) -> AsyncIterator[None]:
    for number, first in enumerate(range(0, size, _PARTITIONS_MAX)):
        await peer.create_topic(f"idle-{number}", min(_PARTITIONS_MAX, size - first))
    yield


DIMENSIONS: Final[Sequence[Dimension]] = (
    Dimension("partitions", (1, 10, 100, 1_000, 5_000), _nothing, partitions=lambda size: size),
    Dimension("producers", (1, 2, 4, 8, 16, 32, 64), _nothing, connections=lambda size: size),
    Dimension("idle connections", (1, 10, 100, 1_000), _idle_connections),
    Dimension("idle partitions", (10, 100, 1_000, 10_000), _idle_partitions),
)
