"""``quorate bench failover``: how long no write is acknowledged after a leader was lost.

A writer sends one record after the other to one partition, each acknowledged before the next. With a local
cluster's directory the leader of that partition is killed (kill -9) while it writes. The time runs from the
signal to the acknowledgement of the first write that was sent once the process was gone: what was under way
before may have been acknowledged by the dead. The node is started again, every replica is in sync again, and
then comes the next.

Without a directory nothing is killed: the writer watches whatever happens to the cluster, and tells of its
longest pauses.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from quorate.client import AsyncProducer
from quorate.client.impatient_admin import connect
from quorate.console.measuring.bench_topic import BenchTopic, TopicOptions, bench_topic
from quorate.console.session import Session
from quorate.errors import QuorateError, RequestTimedOut
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2

__all__ = ["FailedOver", "FailoverLoad", "Watched", "measure_failover", "watch"]

Victim = Literal["leader", "controller"]

_VALUE: Final = bytes(100)
_WRITES_BEFORE: Final = 100
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_ATTEMPTS_MAX: Final = 2
_PAUSES_TOLD: Final = 5


@dataclass(frozen=True)
class FailoverLoad:
    times: int
    #: "controller": the leader that is killed is the active controller, too; "leader": it is not
    victim: Victim


class FailedOver(NamedTuple):
    victim: Victim
    seconds: list[float]

    def document(self) -> dict[str, object]:
        return {
            "victim": self.victim,
            "times": len(self.seconds),
            "seconds": [round(each, 3) for each in self.seconds],
            "max_s": round(max(self.seconds), 3),
        }


class Watched(NamedTuple):
    seconds: float
    writes: int
    #: between two acknowledgements, the longest first
    pauses_s: list[float]

    def document(self) -> dict[str, object]:
        return {
            "seconds": round(self.seconds, 3),
            "writes": self.writes,
            "pauses_s": [round(each, 3) for each in self.pauses_s],
        }


def measure_failover(
    session: Session, cluster: LocalCluster, topic: TopicOptions, load: FailoverLoad
) -> FailedOver:
    with bench_topic(session, topic) as chosen:
        return asyncio.run(_fail_over_again_and_again(session, cluster, chosen, load))


def watch(session: Session, topic: TopicOptions, *, seconds: float) -> Watched:
    with bench_topic(session, topic) as chosen:
        return asyncio.run(_watch(session, chosen, seconds))


class _Writer:
    """Writes to one partition for as long as its context lasts."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partition = partition
        self.writes = 0

    async def write_until(self, is_done: Callable[[float, float], bool]) -> None:
        """``is_done`` is told when each write was sent and when it was acknowledged."""
        async with AsyncProducer(self._bootstrap) as producer:
            while True:
                sent_at = time.monotonic()
                future = await producer.send(self._topic, _VALUE, partition=self._partition)
                await future
                self.writes += 1
                if is_done(sent_at, time.monotonic()):
                    return


async def _fail_over_again_and_again(
    session: Session, cluster: LocalCluster, topic: BenchTopic, load: FailoverLoad
) -> FailedOver:
    seconds: list[float] = []
    for _ in range(_ATTEMPTS_MAX * load.times):
        await _until_in_sync(session, topic)
        led = await _led_by_victim(session, topic, load.victim)
        node = next(node.name for node in cluster.nodes if node.id == led.leader)
        taken = await _fail_over(session, cluster, topic, led, node)
        if taken is None:
            continue
        seconds.append(taken)
        session.note(f"{len(seconds)} of {load.times}: {node} killed, {taken:.2f} s")
        await cluster.start([node])
        if len(seconds) == load.times:
            await _until_in_sync(session, topic)
            return FailedOver(load.victim, seconds)
    raise RequestTimedOut(f"leaders of {topic.name} change by themselves; only {len(seconds)} were killed")


async def _fail_over(
    session: Session,
    cluster: LocalCluster,
    topic: BenchTopic,
    led: admin_pb2.PartitionDescription,
    node: str,
) -> float | None:
    """None: the node leads no longer, so it was not killed. Whatever happens after the signal counts."""
    writer = _Writer(session.bootstrap, topic.name, led.partition)
    is_warm = asyncio.Event()
    gone_at: float | None = None
    acknowledged_at: float | None = None

    def is_done(sent: float, acknowledged: float) -> bool:
        nonlocal acknowledged_at
        if writer.writes == _WRITES_BEFORE:
            is_warm.set()
        acknowledged_at = acknowledged
        return gone_at is not None and sent > gone_at

    async with asyncio.timeout(_TIMEOUT_S), asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(writer.write_until(is_done))
        await is_warm.wait()
        if not await _still_leads(session, topic, led):
            writing.cancel()
            return None
        killed_at = time.monotonic()
        await cluster.kill(node)
        gone_at = time.monotonic()
    assert acknowledged_at is not None
    return acknowledged_at - killed_at


async def _led_by_victim(
    session: Session, topic: BenchTopic, victim: Victim
) -> admin_pb2.PartitionDescription:
    """A partition whose leader is the one to be killed."""
    async with connect(session.bootstrap) as connection:
        controller = (await connection.describe_cluster()).controller
        partitions = (await connection.describe_topic(topic.name)).partitions
    for partition in partitions:
        if (partition.leader == controller) == (victim == "controller"):
            return partition
    kind = "leads and is the active controller" if victim == "controller" else "only leads"
    raise RequestTimedOut(f"no partition of {topic.name} has a leader that {kind}; give it more partitions")


async def _still_leads(session: Session, topic: BenchTopic, led: admin_pb2.PartitionDescription) -> bool:
    """Leaders are moved back by and by; the death of a node that only follows would cost nothing."""
    async with connect(session.bootstrap) as connection:
        now = (await connection.describe_topic(topic.name)).partitions[led.partition]
    return now.leader_epoch == led.leader_epoch


async def _until_in_sync(session: Session, topic: BenchTopic) -> None:
    async with asyncio.timeout(_TIMEOUT_S), connect(session.bootstrap) as connection:
        while True:
            try:
                partitions = (await connection.describe_topic(topic.name)).partitions
            except QuorateError as error:
                if not error.retriable:
                    raise
            else:
                if all(len(each.isr) == len(each.replicas) for each in partitions):
                    return
            await asyncio.sleep(_POLL_S)


async def _watch(session: Session, topic: BenchTopic, seconds: float) -> Watched:
    writer = _Writer(session.bootstrap, topic.name, partition=0)
    began = last = time.monotonic()
    pauses: list[float] = []

    def is_done(_sent: float, acknowledged: float) -> bool:
        nonlocal last
        heapq.heappush(pauses, acknowledged - last)
        if len(pauses) > _PAUSES_TOLD:
            heapq.heappop(pauses)
        last = acknowledged
        return acknowledged - began >= seconds

    await writer.write_until(is_done)
    return Watched(last - began, writer.writes, sorted(pauses, reverse=True))
