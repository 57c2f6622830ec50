"""The limit on copies is told while there is one, and how much of it they use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from immutables import Map

from quorate.broker.replicas import Replicas
from quorate.broker.replication.throttle import ReplicationThrottle
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.metadata.topic_settings import throttled_rate
from quorate.node.metrics.throttle import ThrottleMeter

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
COPIED = PartitionImage(
    topic_id=TopicId("t"),
    partition=PartitionId(0),
    replicas=(ONE, TWO, THREE),
    isr=(ONE, TWO),
    elr=(),
    last_known_elr=(),
    leader=ONE,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=7,
    adding_replicas=(THREE,),
)


class HandClock:
    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now


class Broker:
    """The third, with a throttle as brokers have; its replicas and its metadata are what the test says."""

    def __init__(self, *partitions: PartitionImage, rate: int | None = 1_000) -> None:
        self.clock = HandClock()
        self.partitions = partitions
        self.throttle = ReplicationThrottle(cast(Clock, self.clock))
        self.image: MetadataImage | None = None
        self.limited_to(rate)
        self.meter = ThrottleMeter(
            THREE,
            cast(Replicas, self),
            cast(Clock, self.clock),
            image=lambda: self.image,
            debt_s=self.throttle.wait_s,
        )

    def __iter__(self) -> Iterator[Any]:
        # One whose log is being made has heard of no metadata yet.
        yield SimpleNamespace(state=None)
        for image in self.partitions:
            yield SimpleNamespace(state=SimpleNamespace(image=image))

    def limited_to(self, rate: int | None) -> None:
        configs = Map({} if rate is None else {"follower.replication.throttled.rate": str(rate)})
        self.image = MetadataImage(offset=1, cluster_configs=configs)
        self.throttle.set_rate(throttled_rate(self.image))

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.meter.tick()

    async def told(self) -> dict[str, float]:
        await self.meter.look()
        return {
            reading.metric.name.removeprefix("quorate_throttle_"): sample.value
            for reading in self.meter.read()
            for sample in reading.samples
        }


async def test_without_a_limit_none_is_used_and_none_is_told() -> None:
    broker = Broker(COPIED, rate=None)
    broker.throttle.took(1_000_000)
    broker.passes(1)
    assert await broker.told() == {"limited_replicas": 0, "used_seconds_total": 0}


async def test_bytes_count_as_seconds_worth_of_the_limit() -> None:
    broker = Broker(COPIED)
    broker.throttle.took(2_000)
    for _ in range(12):
        broker.passes(0.25)
    told = await broker.told()
    assert told["limit_bytes_per_second"] == 1_000
    assert told["limited_replicas"] == 1
    # Two seconds' worth were taken; at the tick at which they are over nothing is owed any more.
    assert told["used_seconds_total"] == pytest.approx(1.75)


async def test_half_of_the_limit_is_half_a_second_in_a_second() -> None:
    """Nobody waits for a limit that is not reached; it is in use all the same."""
    broker = Broker(COPIED)
    for _ in range(10):
        broker.throttle.took(500)
        for _ in range(4):
            broker.passes(0.25 - 1e-6)
    assert (await broker.told())["used_seconds_total"] == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize(
    "other",
    [
        replace(COPIED, isr=(ONE, TWO, THREE)),
        replace(COPIED, adding_replicas=()),
        replace(COPIED, adding_replicas=(TWO,)),
    ],
    ids=["in sync by now", "merely behind", "added to another broker"],
)
async def test_debt_that_outlives_its_copy_is_no_use_of_the_limit(other: PartitionImage) -> None:
    broker = Broker(other)
    broker.throttle.took(2_000)
    broker.passes(1)
    told = await broker.told()
    assert (told["limited_replicas"], told["used_seconds_total"]) == (0, 0)


async def test_limit_that_is_lifted_is_told_no_more_and_what_was_used_stays() -> None:
    broker = Broker(COPIED)
    broker.throttle.took(10_000)
    broker.passes(1)
    broker.limited_to(None)
    broker.passes(1)
    assert await broker.told() == {"limited_replicas": 0, "used_seconds_total": 1}


async def test_broker_that_knows_no_metadata_yet_tells_of_no_limit() -> None:
    broker = Broker(COPIED)
    broker.image = None
    assert await broker.told() == {"limited_replicas": 0, "used_seconds_total": 0}
