"""What operators do while clients are at work and other things fail.

An operation that is refused, or whose outcome is unknown, was not done, or was done: both are fine. Where
something has to be taken back, it is tried until it is.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.plan import GROUPED, TopicPlan
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import newest_image, partitions_of, replicas_of
from quorate.client.admin import AsyncAdmin
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, TopicName, TopicPartition
from quorate.errors import QuorateError, TopicAlreadyExists, UnknownTopicOrPartition

__all__ = [
    "change_config",
    "change_durability",
    "change_min_isr",
    "change_replication_factor",
    "decommission",
    "delete_old_records",
    "drain",
    "elect_preferred",
    "grow_partitions",
    "move_replicas",
    "recreate_topic",
    "transfer_controller",
]

_PARTITIONS_MAX: Final = 4
_SEGMENT_BYTES: Final = (16_384, 20_000, 65_536)
#: segments are closed by age, for a few hundred records are hardly more than one; and compacted at once
_COMPACTION: Final = {
    "segment.ms": 400,
    "delete.retention.ms": 1_200,
    "min.cleanable.dirty.ratio": 0.01,
}
#: what the nodes of a run have as a default is meant for the topic of groups
_NO_ROLLING: Final = {"segment.ms": 7 * 86_400_000}
_RETENTION_BYTES: Final = 4_096
_ATTEMPTS_MAX: Final = 300


async def move_replicas(scene: Scene, rng: random.Random) -> str | None:
    """To any brokers, as many as now; the ones that lose it may hear of it late; sometimes called off."""
    partition = _any_partition(scene, rng)
    if partition is None:
        return None
    count = len(_replicas(scene, partition))
    target = rng.sample(_broker_ids(scene), k=count)
    is_called_off = rng.random() < 0.3
    late = rng.choice(scene.cluster.brokers)
    with scene.cut(_deaf(scene, rng, late)):
        async with scene.admin(rng) as admin:
            with contextlib.suppress(QuorateError):
                await admin.reassign_partitions({partition: target})
                await scene.rest(rng, SHORT_S_RANGE)
                if is_called_off:
                    await admin.reassign_partitions({partition: None})
    return (
        f"moved {partition} to {target}{', and called it off' if is_called_off else ''}; {late.name} was deaf"
    )


async def change_replication_factor(scene: Scene, rng: random.Random) -> str | None:
    partition = _any_partition(scene, rng)
    if partition is None:
        return None
    count = rng.randint(2, min(4, len(_broker_ids(scene))))
    target = rng.sample(_broker_ids(scene), k=count)
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.reassign_partitions({partition: target})
    return f"gave {partition} the replicas {target}"


async def drain(scene: Scene, rng: random.Random) -> str | None:
    """The broker may hear of it late."""
    machine = rng.choice(scene.cluster.brokers)
    number = machine.config.node_id
    async with scene.admin(rng) as admin:
        with scene.cut(_deaf(scene, rng, machine)):
            with contextlib.suppress(QuorateError):
                await admin.drain_broker(number)
            await scene.rest(rng, SHORT_S_RANGE)
        await until_done(scene, rng, lambda: admin.drain_broker(number, cancel=True))
    return f"drained {machine.name}, which was deaf"


async def decommission(scene: Scene, rng: random.Random) -> str | None:
    """Replicas move away from it; called off before it is forgotten."""
    machine = rng.choice(scene.cluster.brokers)
    number = machine.config.node_id
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.decommission_broker(number)
        await scene.rest(rng, SHORT_S_RANGE)
        await until_done(scene, rng, lambda: admin.decommission_broker(number, cancel=True))
    return f"began to decommission {machine.name}, and called it off"


async def elect_preferred(scene: Scene, rng: random.Random) -> str | None:
    """Of one partition another replica comes to be preferred before, or there might be nobody to elect."""
    partition = _any_partition(scene, rng)
    if partition is None:
        return None
    first, *others = _replicas(scene, partition)
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.reassign_partitions({partition: [*rng.sample(others, k=len(others)), first]})
        await scene.rest(rng, MOMENT_S_RANGE)
        try:
            result = await admin.elect_preferred_leaders()
        except QuorateError:
            return None
    if not result.moved:
        return None
    return f"had preferred leaders elected: {' '.join(map(str, result.moved))}"


async def transfer_controller(scene: Scene, rng: random.Random) -> str | None:
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.transfer_controller()
    return "moved the active controller"


async def grow_partitions(scene: Scene, rng: random.Random) -> str | None:
    topic = rng.choice(scene.plan.topics).name
    image = newest_image(scene.cluster)
    found = [name for name, _ in partitions_of(image) if name.topic == topic]
    if not found or len(found) >= _PARTITIONS_MAX:
        return None
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.create_partitions(topic, len(found) + 1)
    return f"gave {topic} {len(found) + 1} partitions"


async def change_min_isr(scene: Scene, rng: random.Random) -> str | None:
    """Never below the plan's: that one decides what may be lost."""
    topic = rng.choice(scene.plan.topics)
    value = topic.min_insync_replicas + rng.choice((0, 1))
    # The error passes through the budget, which knows then that the change may come yet.
    with contextlib.suppress(QuorateError), scene.budget.changing_min_isr(topic.name) as may_change:
        if not may_change:
            return None
        async with scene.admin(rng) as admin:
            with scene.demands.changing_min_isr(topic.name, value):
                await admin.alter_config(topic.name, {"min.insync.replicas": value})
    return f"set min.insync.replicas={value} for {topic.name}"


async def change_durability(scene: Scene, rng: random.Random) -> str | None:
    topic = rng.choice(scene.plan.topics)
    scene.budget.no_longer_synced(topic.name)
    scene.demands.changing_durability(topic.name)
    return await _configure(scene, rng, topic, "durability", rng.choice(list(Durability)))


async def change_config(scene: Scene, rng: random.Random) -> str | None:
    topic = rng.choice(scene.plan.topics)
    return await _configure(scene, rng, topic, "segment.bytes", rng.choice(_SEGMENT_BYTES))


async def delete_old_records(scene: Scene, rng: random.Random) -> str | None:
    """By a retention that is soon exceeded; for a while."""
    topics = [each for each in _topics_to_shorten(scene) if each.deletes]
    if not topics:
        return None
    topic = rng.choice(topics)
    scene.may_delete[topic.name] = None
    scene.demands.shortening(topic.name, _RETENTION_BYTES)
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.alter_config(topic.name, {"retention.bytes": _RETENTION_BYTES})
        await scene.rest(rng, LONG_S_RANGE)
        await until_done(
            scene,
            rng,
            lambda: admin.alter_config(topic.name, {"retention.bytes": None}),
            done=UnknownTopicOrPartition,
        )
    return f"had old records of {topic.name} deleted" if _has_lost_its_start(scene, topic) else None


async def recreate_topic(scene: Scene, rng: random.Random) -> str | None:
    """Another topic under the same name: nothing of the old one may be in it (rule 43)."""
    topics = _topics_to_shorten(scene)
    if not topics:
        return None
    topic = rng.choice(topics)
    async with scene.admin(rng) as admin:
        scene.demands.making_anew(topic.name)
        deletion = scene.history.delete_topic(TopicName(topic.name))
        await until_done(scene, rng, lambda: admin.delete_topic(topic.name), done=UnknownTopicOrPartition)
        await scene.rest(rng, MOMENT_S_RANGE)
        await until_done(scene, rng, lambda: create_topic(admin, topic), done=TopicAlreadyExists)
    # Brokers that are cut off from the controller take writes for the old topic until they hear of it.
    while not _is_old_topic_gone(scene, topic):
        await scene.rest(rng, MOMENT_S_RANGE)
    scene.history.topic_deleted(deletion)
    return f"deleted {topic.name} and created it again"


def _topics_to_shorten(scene: Scene) -> list[TopicPlan]:
    """Not what a group shares: every record of it is to be read."""
    return [each for each in scene.plan.written_topics if not each.may_lose and each.name != GROUPED]


def _is_old_topic_gone(scene: Scene, topic: TopicPlan) -> bool:
    """No process holds a replica of another topic of that name than the newest."""
    newest = scene.image().topic_ids.get(TopicName(topic.name))
    return all(
        replica.topic_id == newest
        for machine in scene.cluster.brokers
        if machine.broker is not None
        for replica in machine.broker.replicas
        if replica.topic_partition.topic == topic.name
    )


async def create_topic(admin: AsyncAdmin, topic: TopicPlan) -> None:
    await admin.create_topic(
        topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs={
            "min.insync.replicas": topic.min_insync_replicas,
            "durability": topic.durability,
            "segment.bytes": min(_SEGMENT_BYTES),
            "cleanup.policy": topic.cleanup_policy,
            **(_COMPACTION if topic.is_compacted else _NO_ROLLING),
        },
    )


async def _configure(scene: Scene, rng: random.Random, topic: TopicPlan, key: str, value: int | str) -> str:
    async with scene.admin(rng) as admin:
        with contextlib.suppress(QuorateError):
            await admin.alter_config(topic.name, {key: value})
    return f"set {key}={value} for {topic.name}"


async def until_done(
    scene: Scene,
    rng: random.Random,
    attempt: Callable[[], Awaitable[object]],
    *,
    done: type[QuorateError] | None = None,
) -> None:
    """``done``: the error that says that an earlier attempt was carried out."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            await attempt()
        except QuorateError as error:
            if done is not None and isinstance(error, done):
                return
            last = error
            await scene.rest(rng, MOMENT_S_RANGE)
        else:
            return
    raise Violation(f"an operation is refused for ever: {last}", check="not-converged")


def _any_partition(scene: Scene, rng: random.Random) -> TopicPartition | None:
    """Of those that operators could be told of: they do not see what no running controller has heard yet.

    What may be done, and whether it was, is asked of ``scene.image``, which nobody is ahead of.
    """
    found = [name for name, _ in partitions_of(newest_image(scene.cluster))]
    return rng.choice(found) if found else None


def _replicas(scene: Scene, partition: TopicPartition) -> list[BrokerId]:
    """Those that it settles for."""
    for name, found in partitions_of(newest_image(scene.cluster)):
        if name == partition:
            return [each for each in found.replicas if each not in found.adding_replicas]
    raise AssertionError(partition)


def _has_lost_its_start(scene: Scene, topic: TopicPlan) -> bool:
    return any(
        replica.log.log_start_offset > 0
        for name, replicas in replicas_of(scene.cluster).items()
        if name.topic == topic.name
        for replica in replicas
    )


def _broker_ids(scene: Scene) -> list[int]:
    return [each.config.node_id for each in scene.cluster.brokers]


def _deaf(scene: Scene, rng: random.Random, machine: SimMachine) -> list[tuple[str, str]]:
    """Two controllers do not reach it: it may follow one of them, and speak to the third."""
    others = [each.name for each in scene.cluster.controllers if each is not machine]
    return [(name, machine.name) for name in rng.sample(others, k=2)]
