"""The work that both clusters are given, and what is held against what.

Three replicas, two of which are enough, acks=all: the producers wait until no single failure can lose a
record. Sizes are chosen so that a load takes Kafka five to ten seconds on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

from bench.cluster.comparison import Comparison
from bench.cluster.limit_works import BrokerLimited, CpuPerGigabyte, LightConsume, ManyProducers, Synced
from bench.cluster.peer import Latencies, Load, LonePeer, Peer
from bench.cluster.work import KB, MB, LoneWork, Measured, Work

__all__ = ["WORKS", "chosen_works", "warm_up"]


class Produce(Work):
    """Large batches, as many as the cluster acknowledges."""

    def __init__(
        self,
        value_bytes: int,
        partitions: int,
        *,
        records: int,
        limits: Mapping[str, tuple[float, float]],
    ) -> None:
        """``limits``: the bar and the aim of each way."""
        self.name = f"produce-{value_bytes}-{partitions}"
        self._partitions = partitions
        self._records = records
        self._value_bytes = value_bytes
        what = f"produce {_size(value_bytes)}, {partitions} partition{'s' if partitions > 1 else ''}"
        self.comparisons = [
            Comparison(
                f"{what}: {way}",
                "MB/s",
                self._measure(way),
                self._measure("java"),
                "higher",
                *limits[way],
            )
            for way in ("send_many", "send")
        ]

    async def run(self, peer: Peer) -> Measured:
        load = self.load(self.name, self._records, self._value_bytes, warm_up=self._records // 5)
        await peer.create_topic(load.topic, self._partitions)
        rates = await peer.produce(load)
        return {self._measure(way): [rate * load.value_bytes / MB] for way, rate in rates.items()}

    def _measure(self, way: str) -> str:
        return f"{self.name}: {way}"


class OnePerBatch(Work):
    """No batching at all: what each request costs."""

    name = "one-per-batch"
    comparisons = (Comparison("one record per batch", "/s", name, name, "higher", 8.0, 20.0),)

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, 1)
        load = self.load(self.name, 8_000, 1 * KB, warm_up=2_000)
        return {self.name: [await peer.produce_one_per_batch(load)]}


class SendAlone(LoneWork):
    """A program that waits for each of its records."""

    name = "send-alone"
    comparisons = tuple(
        Comparison(
            f"lone synchronous send, {which}{who}",
            *("ms", f"send-alone: {which}", f"send-alone: {which}", "lower", bar, aim),
            against=against,
        )
        for who, against, bar, aim in (
            ("", "kafka", 0.6, None),
            (", against NATS JetStream R3", "nats", 1.0, None),
            (", against Redis Streams WAIT 2", "redis", None, 1.0),
        )
        for which in ("p50", "p99")
    )

    async def run(self, peer: LonePeer) -> Measured:
        await peer.create_topic(self.name, 1)
        load = self.load(self.name, 3_000, 1 * KB, warm_up=1_000)
        return _percentiles(self.name, await peer.send_alone(load))


class EndToEnd(Work):
    """A steady stream far below what the cluster can do, until a consumer has each record."""

    name = "end-to-end"
    comparisons = (
        Comparison("end to end at 2,000/s, p50", "ms", f"{name}: p50", f"{name}: p50", "lower"),
        Comparison("end to end at 2,000/s, p99", "ms", f"{name}: p99", f"{name}: p99", "lower", 0.4),
        Comparison(
            "end to end at 2,000/s, p99, the longest of all rounds",
            *("ms", f"{name}: p99", f"{name}: p99", "lower", None, 2.0),
            is_absolute=True,
        ),
    )
    _RATE: Final = 2_000.0
    _PARTITIONS: Final = 6

    async def run(self, peer: Peer) -> Measured:
        await peer.create_topic(self.name, self._PARTITIONS)
        load = self.load(self.name, 12_000, 1 * KB, warm_up=4_000)
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
            "consume 100 B, against Java", "M/s", f"{name}: poll", f"{name}: java", "higher", 1.0, 2.0
        ),
    )
    _RECORDS: Final = 2_000_000

    async def run(self, peer: Peer) -> Measured:
        load = self.load(self.name, self._RECORDS, 100)
        await peer.create_topic(load.topic, 6)
        await peer.produce(load)
        rates = await peer.consume(load)
        return {f"{self.name}: {way}": [rate / MB] for way, rate in rates.items()}


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
        return {self.name: [size / MB for size in peer.resident_bytes()]}


class Start(LoneWork):
    """Part of every life, so that it is measured in any case."""

    name = "start"
    comparisons = (Comparison("three nodes, until they serve", "s", name, name, "lower", 0.5),)

    async def run(self, peer: LonePeer) -> Measured:
        return {self.name: [await peer.start()]}


def chosen_works(names: Sequence[str], scale: float = 1.0) -> list[Work]:
    """Those, or all; a cluster is started in any case."""
    unknown = sorted(set(names) - {work.name for work in WORKS})
    if unknown:
        raise SystemExit(f"no such work: {', '.join(unknown)}; there are {', '.join(w.name for w in WORKS)}")
    chosen = [copy(work) for work in WORKS if not names or work.name in names or isinstance(work, Start)]
    for work in chosen:
        work.scale = scale
    return chosen


async def warm_up(peer: LonePeer, scale: float = 1.0) -> None:
    """A virtual machine compiles what runs often: the first load must not pay for the others."""
    if isinstance(peer, Peer):
        await peer.create_topic("warm-up", 6)
        await peer.produce(Load("warm-up", max(round(500_000 * scale), 1), 100))


def _percentiles(name: str, latencies: Latencies) -> Measured:
    return {f"{name}: p50": [latencies.p50_ms], f"{name}: p99": [latencies.p99_ms]}


def _size(value_bytes: int) -> str:
    return f"{value_bytes // KB} KB" if value_bytes >= KB else f"{value_bytes} B"


_SMALL: Final = {"send_many": (3.0, 5.0), "send": (1.5, 3.0)}
_LARGE: Final = {"send_many": (3.0, 5.0), "send": (3.0, 5.0)}

#: In this order: the memory is looked at after the loads, and nodes are killed last.
WORKS: Final[Sequence[Work]] = (
    Start(),
    Produce(100, 1, records=1_500_000, limits=_SMALL),
    Produce(100, 6, records=1_500_000, limits=_SMALL),
    Produce(1 * KB, 1, records=200_000, limits=_LARGE),
    Produce(1 * KB, 6, records=200_000, limits=_LARGE),
    OnePerBatch(),
    SendAlone(),
    EndToEnd(),
    ManyProducers(),
    Consume(),
    LightConsume(),
    BrokerLimited(128, 24, bar=1.0, aim=1.2),
    BrokerLimited(16, 48, bar=1.5, aim=2.5),
    BrokerLimited(1, 50, bar=3.0, aim=6.0),
    Synced(),
    CpuPerGigabyte(),
    Memory(),
    FailOver(),
)
