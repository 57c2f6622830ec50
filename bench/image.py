"""A hundred thousand partitions: what decisions cost, snapshots, memory; then the same in a real quorum.

In one process first, without disk or network: a decision is made on the image, applied to it, encoded,
decoded and applied again, as it happens in the controller that decides and in every other one. Then in a
quorum of three processes, as a client and a broker see it. What applying alone costs, for images of other
shapes too, ``bench.metadata_image`` tells.

    python -m bench.image
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from contextlib import AsyncExitStack, suppress
from typing import Final, NamedTuple

from bench.figure import Figure, show
from bench.metadata_image import timed
from bench.resident_memory import resident_bytes
from quorate.chaos.quorum_drills.fake_brokers import (
    FAKE_BROKER_SETTINGS,
    BrokerSession,
    register_fake_brokers,
)
from quorate.chaos.quorum_drills.voters import DrillVoters
from quorate.controller.brokers import fence_broker
from quorate.controller.decision import Decision
from quorate.controller.topics import create_topic
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId
from quorate.core.topic_names import topic_id_from
from quorate.errors import QuorateError
from quorate.metadata.delta import apply_batch
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.records import cluster_record, decode_batch, encode_batch, feature_level_record
from quorate.metadata.snapshot import decode_snapshot, encode_snapshot
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2
from quorate.v1.metadata_pb2 import BrokerChangeRecord, MetadataRecord, RegisterBrokerRecord

__all__ = ["run"]

PARTITIONS: Final = 100_000
PER_TOPIC: Final = 1_000
BROKERS: Final = 10
REPLICATION_FACTOR: Final = 3
LEADER: Final = BrokerId(1)
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01


def _creation(number: int) -> admin_pb2.CreateTopicRequest:
    return admin_pb2.CreateTopicRequest(
        name=f"topic-{number}",
        topic_id=topic_id_from(number.to_bytes(16, "big")),
        partition_count=PER_TOPIC,
        replication_factor=REPLICATION_FACTOR,
    )


# --- in one process -----------------------------------------------------------------------------------


def _cluster_of_brokers() -> MetadataImage:
    image = apply_batch(EMPTY_IMAGE, [feature_level_record(1), cluster_record("bench", 3)], 1)
    for broker_id in range(1, BROKERS + 1):
        register = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=f"bench-{broker_id}",
            directory_id=f"directory-{broker_id}",
            address=f"broker-{broker_id}:9092",
            feature_level_min=1,
            feature_level_max=1,
        )
        image = apply_batch(image, [MetadataRecord(register_broker=register)], image.offset + 1)
        unfence = BrokerChangeRecord(broker_id=broker_id, broker_epoch=image.offset, is_fenced=False)
        image = apply_batch(image, [MetadataRecord(broker_change=unfence)], image.offset + 1)
    return image


def _create(image: MetadataImage, number: int) -> Decision[admin_pb2.CreateTopicResponse]:
    return create_topic(
        image,
        _creation(number),
        next_offset=image.offset + 1,
        default_partition_count=1,
        rng=random.Random(number),
    )


def _carry_out(image: MetadataImage, decision: Decision[object]) -> MetadataImage:
    """At the controller that decided, and again from bytes, as everywhere."""
    offset = image.offset + 1
    apply_batch(image, decision.records, offset)
    return apply_batch(image, decode_batch(encode_batch(decision.records)).records, offset)


class _Fencing(NamedTuple):
    #: until its partitions had new leaders
    leaders_s: float
    #: until it was out of every ISR, and fenced
    whole_s: float
    #: between two batches the controller does other things, and is heard
    longest_batch_s: float


def _fence(image: MetadataImage) -> _Fencing:
    batches: list[float] = []
    leaders_s = 0.0
    is_complete = False
    while not is_complete:
        began = time.perf_counter()
        decision = fence_broker(image, LEADER)
        image = _carry_out(image, decision)
        batches.append(time.perf_counter() - began)
        is_complete = decision.is_complete
        if not leaders_s and not _led(image):
            leaders_s = sum(batches)
    return _Fencing(leaders_s, sum(batches), max(batches))


def _led(image: MetadataImage) -> int:
    return sum(
        partition.leader == LEADER for topic in image.topics.values() for partition in topic.partitions
    )


async def decision_figures() -> list[Figure]:
    gc.collect()
    before = resident_bytes(os.getpid())
    image = _cluster_of_brokers()
    topics = PARTITIONS // PER_TOPIC
    for number in range(topics):
        image = _carry_out(image, _create(image, number))
    gc.collect()
    size = resident_bytes(os.getpid()) - before

    began = time.perf_counter()
    _carry_out(image, _create(image, topics))
    creation_s = time.perf_counter() - began

    fencing = _fence(image)
    encoded, writing_s, longest_write_s = await timed(encode_snapshot(image))
    loaded, reading_s, longest_read_s = await timed(decode_snapshot(encoded))
    assert loaded == image
    how = f"{topics} topics of {PER_TOPIC:,} partitions of {REPLICATION_FACTOR} replicas, {BROKERS} brokers"
    pauses = f"longest pause {longest_write_s * 1e3:.0f} and {longest_read_s * 1e3:.0f} ms"
    snapshot = f"{writing_s:.2f} s and {reading_s:.2f} s, {len(encoded) / (1 << 20):.1f} MiB, {pauses}"
    return [
        Figure.at_most(f"create {PER_TOPIC:,} partitions", creation_s, "s", 1.0, how),
        Figure.at_most(
            "fail over a broker that leads 10,000",
            fencing.leaders_s,
            "s",
            2.0,
            f"of {_led(image):,}; out of 30,000 ISRs after {fencing.whole_s:.2f} s; "
            f"the longest batch {fencing.longest_batch_s * 1e3:.0f} ms",
        ),
        Figure.at_most("snapshot and reload", writing_s + reading_s, "s", 10.0, snapshot),
        Figure.at_most(
            "memory of the image", size / (1 << 20), "MiB", None, f"{size / PARTITIONS:.0f} B each"
        ),
    ]


# --- in a quorum --------------------------------------------------------------------------------------


class _Watch:
    """A broker's copy of the metadata: when ``LEADER`` had lost its leaderships, and when it was fenced."""

    def __init__(self) -> None:
        self.leaders_moved_at: float | None = None
        self.fenced_at: float | None = None
        self.is_fenced = asyncio.Event()

    def on_image(self, image: MetadataImage, _delta: object) -> None:
        now = time.perf_counter()
        if self.leaders_moved_at is None and image.topics and not _led(image):
            self.leaders_moved_at = now
        if image.topics and image.brokers[LEADER].is_fenced:
            self.fenced_at = now
            self.is_fenced.set()


async def _fill(voters: DrillVoters, controller: str) -> float:
    """Seconds that the last topic took."""
    for number in range(PARTITIONS // PER_TOPIC + 1):
        began = time.perf_counter()
        await voters.administer(controller, "CreateTopic", _creation(number), timeout_s=_TIMEOUT_S)
    return time.perf_counter() - began


async def quorum_figures() -> list[Figure]:
    settings = {**FAKE_BROKER_SETTINGS, "controller.probe.enable": "true"}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster.create(brokers=0, settings=settings))
        voters = DrillVoters(cluster)
        stack.push_async_callback(voters.close)
        controller = voters.name_of((await voters.describe_quorum()).leader)
        sessions = await register_fake_brokers(voters, controller, BROKERS)
        for session in sessions:
            await stack.enter_async_context(session.held_open(voters, controller))
        creation_s = await _fill(voters, controller)
        leaders_s, whole_s = await _failover_s(voters, controller, sessions[0])
        sizes = [resident_bytes(node.process.pid) for node in cluster.nodes if node.process is not None]
        restart_s = await _restart_s(voters, controller)
    how = f"3 processes, {PARTITIONS:,} partitions, at a client"
    return [
        Figure.at_most(f"create {PER_TOPIC:,} partitions, in a quorum", creation_s, "s", 1.0, how),
        Figure.at_most(
            "fail over a broker that leads 10,000, in a quorum",
            leaders_s,
            "s",
            2.0,
            "from the end of its connection until brokers know all its partitions' new leaders; "
            f"out of 30,000 ISRs after {whole_s:.2f} s",
        ),
        Figure.at_most(
            "memory of a controller", max(sizes) / (1 << 20), "MiB", None, "resident, of the largest"
        ),
        Figure.at_most(
            "restart of a controller", restart_s, "s", None, "kill -9 until it has caught up again"
        ),
    ]


async def _failover_s(voters: DrillVoters, controller: str, session: BrokerSession) -> tuple[float, float]:
    """Seconds until its leaderships were gone, and until it was fenced."""
    watch = _Watch()
    follower = MetadataFollower(
        voters.transport,
        [voters.address(controller)],
        clock=SystemClock(),
        broker_id=BrokerId(0),
        on_image=watch.on_image,
    )
    following = asyncio.create_task(follower.run())
    try:
        await follower.wait_for_offset((await voters.describe_image(controller)).offset)
        began = time.perf_counter()
        session.hang_up()
        async with asyncio.timeout(_TIMEOUT_S):
            await watch.is_fenced.wait()
    finally:
        following.cancel()
        await asyncio.wait([following])
    assert watch.leaders_moved_at is not None
    assert watch.fenced_at is not None
    return watch.leaders_moved_at - began, watch.fenced_at - began


async def _restart_s(voters: DrillVoters, controller: str) -> float:
    name = next(name for name in voters.names if name != controller)
    offset = (await voters.describe_image(controller)).offset
    began = time.perf_counter()
    await voters.kill(name)
    await voters.start(name)
    reached = 0
    while reached < offset:
        await asyncio.sleep(_POLL_S)
        with suppress(QuorateError):  # it does not answer while it replays
            reached = (await voters.describe_image(name)).offset
    return time.perf_counter() - began


async def run() -> list[Figure]:
    return [*await decision_figures(), *await quorum_figures()]


if __name__ == "__main__":
    show("A hundred thousand partitions", asyncio.run(run()))
