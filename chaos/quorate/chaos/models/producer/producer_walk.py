"""A producer under random trouble, and what must hold of its ledger in the end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.models.producer.fake_broker import FakeCluster, FakePartition, Trouble, simulate
from quorate.chaos.models.producer.simulated_brokers import BROKER_IDS
from quorate.client.producer import AsyncProducer, RecordFuture
from quorate.errors import (
    BatchTooLarge,
    LogBusy,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    Overloaded,
    QuorateError,
)

RECORDS: Final = 120


@dataclass
class Ledger:
    """What was sent to a partition, in order, and what the producer said became of it."""

    sent: list[tuple[bytes, RecordFuture]] = field(default_factory=list)


async def walk(cluster: FakeCluster) -> None:
    rng = cluster.simulation.rng
    partitions = cluster.add_topic(partitions=rng.randint(1, 2))
    ledgers = [Ledger() for _ in partitions]
    cluster.names_the_leader = rng.random() < 0.5
    is_idempotent = rng.random() < 0.8
    producer = cluster.producer(
        enable_idempotence=is_idempotent,
        batch_bytes=rng.choice([100, 150, 400]),
        max_in_flight=rng.randint(1, 5),
        linger_ms=rng.choice([0, 0, 5]),
        delivery_timeout_ms=rng.choice([600, 2_000, 20_000]),
        compression=rng.choice(["none", "none", "zstd"]),
    )
    nemesis = asyncio.ensure_future(_trouble(cluster, partitions))
    await _send(producer, ledgers, rng)
    await producer.flush()
    nemesis.cancel()
    _calm(cluster, partitions)
    # Whatever is still under way somewhere arrives before the log is looked at.
    await asyncio.sleep(cluster.late_s[1])
    await producer.close()
    for partition, ledger in zip(partitions, ledgers, strict=True):
        check(partition, ledger, is_idempotent=is_idempotent)


def walk_with(seed: int) -> None:
    simulate(walk, seed=seed)


def check(partition: FakePartition, ledger: Ledger, *, is_idempotent: bool) -> None:
    """Each record at most once, in the order sent; where it was said to be, or nowhere if it was refused.

    Without numbers, a record whose outcome is unknown may turn up late, behind others.
    """
    log = partition.values()
    assert len(set(log)) == len(log), "a record was written twice"
    order = {
        value: number
        for number, (value, future) in enumerate(ledger.sent)
        if is_idempotent or future.exception() is None
    }
    numbers = [order[value] for value in log if value in order]
    assert numbers == sorted(numbers), "records changed their order"
    for value, future in ledger.sent:
        assert future.done(), "a record never got its end"
        error = future.exception()
        if error is None:
            offset = future.result().offset
            assert offset is not None
            assert log[offset] == value, "a record is not where it was acknowledged"
        elif not error.outcome_unknown:
            assert value not in log, f"a record was written although it ended as {error.code}"


async def _send(producer: AsyncProducer, ledgers: list[Ledger], rng: random.Random) -> None:
    for number in range(RECORDS):
        partition = rng.randrange(len(ledgers))
        value = b"%d of %d" % (number, partition)
        future = await producer.send("t", value, partition=partition)
        ledgers[partition].sent.append((value, future))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.choice([0.0005, 0.002, 0.01, 0.1]))


async def _trouble(cluster: FakeCluster, partitions: list[FakePartition]) -> None:
    rng = cluster.simulation.rng
    while True:
        await asyncio.sleep(rng.choice([0.001, 0.005, 0.05, 0.3]))
        partition = rng.choice(partitions)
        match rng.randrange(8):
            case 0 | 1 | 2:
                partition.script.append(rng.choice(list(Trouble)))
            case 3:
                partition.script.append(_an_error(rng))
            case 4:
                uncommitted = [each for each in partition.log if each.next_offset > partition.committed]
                cluster.elect(partition, rng.choice(BROKER_IDS), kept=rng.randint(0, len(uncommitted)))
            case 5:
                cluster.network.break_connections("client", f"b{rng.choice(BROKER_IDS)}")
            case 6:
                cluster.commit_s = rng.choice([(0.001, 0.004), (0.02, 0.2)])
            case 7:
                broker = f"b{rng.choice(BROKER_IDS)}"
                source, target = rng.choice([("client", broker), (broker, "client")])
                cluster.network.block(source, target)
                await asyncio.sleep(rng.choice([0.01, 0.5, 4.0]))
                cluster.network.unblock(source, target)


def _an_error(rng: random.Random) -> QuorateError:
    kinds = [NotEnoughReplicas, NotEnoughReplicasAfterAppend, Overloaded, LogBusy, BatchTooLarge]
    return rng.choice(kinds)("by the script")


def _calm(cluster: FakeCluster, partitions: list[FakePartition]) -> None:
    cluster.network.heal()
    for partition in partitions:
        partition.script.clear()
