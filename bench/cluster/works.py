"""The work that both clusters are given, and what is held against what.

Three replicas, two of which are enough, acks=all: the producers wait until no single failure can lose a
record. Sizes are chosen so that a load takes Kafka five to ten seconds on two cores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from bench.cluster.comparison import Comparison
from bench.cluster.peer import Latencies, Load, Peer

__all__ = ["WORKS", "Work", "chosen_works", "warm_up"]

Measured = Mapping[str, Sequence[float]]

_KB: Final = 1_000
_MB: Final = 1_000_000


class Work(ABC):
    """One load, or two that belong together."""

    name: str
    comparisons: Sequence[Comparison]
    #: False: once is enough, because it repeats itself
    every_round = True

    @abstractmethod
    async def run(self, peer: Peer) -> Measured: ...


class Produce(Work):
    """Large batches, as many as the cluster acknowledges."""

    def __init__(self, value_bytes: int, partitions: int, *, records: int, ours: str) -> None:
        self.name = f"produce-{value_bytes}-{partitions}"
        self._partitions = partitions
        self._load = Load(self.name, records, value_bytes, warm_up_records=records // 5)
        what = f"produce {_size(value_bytes)}, {partitions} partition{'s' if partitions > 1 else ''}"
        self.comparisons = [
            Comparison(
                f"{what}: {way}",
                "MB/s",
                self._measure(way),
                self._measure("java"),
                "higher",
                *((1.5, 2.5) if way == ours else ()),
            )
            for way in ("send_many", "send")
        ]

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self._load.topic, self._partitions)
        rates = await peer.produce(self._load)
        return {self._measure(way): [rate * self._load.value_bytes / _MB] for way, rate in rates.items()}

    def _measure(self, way: str) -> str:
        return f"{self.name}: {way}"


class OnePerBatch(Work):
    """No batching at all: what each request costs."""

    name = "one-per-batch"
    comparisons = (Comparison("one record per batch", "/s", name, name, "higher", 1.5, 4.0),)

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, 1)
        load = Load(self.name, 8_000, 1 * _KB, warm_up_records=2_000)
        return {self.name: [await peer.produce_one_per_batch(load)]}


class SendAlone(Work):
    """A program that waits for each of its records."""

    name = "send-alone"
    comparisons = (
        Comparison("lone synchronous send, p50", "ms", f"{name}: p50", f"{name}: p50", "lower", 1.0, 0.6),
        Comparison("lone synchronous send, p99", "ms", f"{name}: p99", f"{name}: p99", "lower", 1.0, 0.6),
    )

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, 1)
        load = Load(self.name, 3_000, 1 * _KB, warm_up_records=1_000)
        return _percentiles(self.name, await peer.send_alone(load))


class EndToEnd(Work):
    """A steady stream far below what the cluster can do, until a consumer has each record."""

    name = "end-to-end"
    comparisons = (
        Comparison("end to end at 2,000/s, p50", "ms", f"{name}: p50", f"{name}: p50", "lower"),
        Comparison("end to end at 2,000/s, p99", "ms", f"{name}: p99", f"{name}: p99", "lower", 1.0, 0.33),
    )
    _RATE: Final = 2_000.0
    _PARTITIONS: Final = 6

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, self._PARTITIONS)
        load = Load(self.name, 12_000, 1 * _KB, warm_up_records=4_000)
        return _percentiles(self.name, await peer.end_to_end(load, rate=self._RATE))


class Consume(Work):
    """What the first of the loads with small records left behind, from its beginning."""

    name = "consume"
    comparisons = (
        Comparison(
            "consume 100 B, against confluent-kafka",
            "M/s",
            f"{name}: poll",
            f"{name}: confluent-kafka",
            "higher",
            3.0,
        ),
        Comparison(
            "consume 100 B, against Java", "M/s", f"{name}: poll", f"{name}: java", "higher", None, 1.0
        ),
    )
    _RECORDS: Final = 2_000_000

    async def run(self, peer: Peer) -> Measured:
        load = Load(self.name, self._RECORDS, 100)
        await peer.create_topic(load.topic, 6)
        await peer.produce(load)
        rates = await peer.consume(load)
        return {f"{self.name}: {way}": [rate / _MB] for way, rate in rates.items()}


class FailOver(Work):
    """kill -9, at the defaults of both; the longest of all is what counts."""

    name = "fail-over"
    every_round = False
    comparisons = (
        Comparison(
            "from kill -9 of a leader to the next acknowledged write",
            "s",
            f"{name}: leader",
            f"{name}: leader",
            "lower",
            1.5,
            is_absolute=True,
        ),
        Comparison(
            "the same, of one that is the active controller too",
            "s",
            f"{name}: controller",
            f"{name}: controller",
            "lower",
            3.0,
            is_absolute=True,
        ),
    )

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, 6)
        times = peer.fail_overs
        return {
            f"{self.name}: leader": await peer.fail_over(self.name, times=times, with_controller=False),
            f"{self.name}: controller": await peer.fail_over(self.name, times=times, with_controller=True),
        }


class Memory(Work):
    """After all that produced and consumed before it."""

    name = "memory"
    comparisons = (Comparison("resident memory of a node after these loads", "MB", name, name, "lower", 0.2),)

    async def run(self, peer: Peer) -> Measured:
        return {self.name: [size / _MB for size in peer.resident_bytes()]}


class Start(Work):
    """Part of every life, so that it is measured in any case."""

    name = "start"
    comparisons = (Comparison("three nodes, until they serve", "s", name, name, "lower", 0.5),)

    async def run(self, peer: Peer) -> Measured:
        return {self.name: [await peer.start()]}


def chosen_works(names: Sequence[str]) -> list[Work]:
    """Those, or all; a cluster is started in any case."""
    unknown = sorted(set(names) - {work.name for work in WORKS})
    if unknown:
        raise SystemExit(f"no such work: {', '.join(unknown)}; there are {', '.join(w.name for w in WORKS)}")
    return [work for work in WORKS if not names or work.name in names or isinstance(work, Start)]


async def warm_up(peer: Peer) -> None:
    """A virtual machine compiles what runs often: the first load must not pay for the others."""
    await peer.create_topic("warm-up", 6)
    await peer.produce(Load("warm-up", 500_000, 100))


def _percentiles(name: str, latencies: Latencies) -> Measured:
    return {f"{name}: p50": [latencies.p50_ms], f"{name}: p99": [latencies.p99_ms]}


def _size(value_bytes: int) -> str:
    return f"{value_bytes // _KB} KB" if value_bytes >= _KB else f"{value_bytes} B"


#: In this order: the memory is looked at after the loads, and nodes are killed last.
WORKS: Final[Sequence[Work]] = (
    Start(),
    Produce(100, 1, records=1_500_000, ours="send_many"),
    Produce(100, 6, records=1_500_000, ours="send_many"),
    Produce(1 * _KB, 1, records=200_000, ours="send"),
    Produce(1 * _KB, 6, records=200_000, ours="send"),
    OnePerBatch(),
    SendAlone(),
    EndToEnd(),
    Consume(),
    Memory(),
    FailOver(),
)
