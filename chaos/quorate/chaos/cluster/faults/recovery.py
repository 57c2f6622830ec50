"""An operator gives up what nobody can bring back, and has a replica lead that lacks some of it (rule 33).

Only of a topic that may lose. A follower stays away until it is neither in the ISR nor in the ELR; then all
others go, it comes back, and the operator has it lead: by the command for that, or by allowing unclean
elections. When the others are back they hold more than their leader, committed once, and have to drop it
(rule 11). Those that were killed hardly know any more what was committed. Those that stood still do; those
that were cut off from everybody but each other and the clients have gone on to commit.

No disk loses anything: until the operator decides, everything is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

from quorate.chaos.cluster.faults.operations import until_done
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import partitions_of
from quorate.core.ids import TopicPartition
from quorate.errors import QuorateError, UnknownTopicOrPartition
from quorate.metadata.image import NO_LEADER, PartitionImage

__all__ = ["recover_partition"]

_UNCLEAN: Final = "unclean.leader.election.enable"
#: a session; then all replicas are asked, and those that do not answer have 3 s to; and again if need be
_WAIT_S_MAX: Final = 12.0
_LOOK_EVERY_S: Final = 0.05


async def recover_partition(scene: Scene, rng: random.Random) -> str | None:
    name, partition = _any_that_may_lose(scene, rng)
    if name is None or partition is None:
        return None
    followers = [each for each in partition.isr if each != partition.leader]
    if not followers:
        return None
    stale = scene.cluster.broker(rng.choice(followers))
    others = [scene.cluster.broker(each) for each in partition.replicas if each != stale.config.node_id]
    machines = [stale, *others]
    if len(scene.free(machines)) < len(machines) or not _is_quorum_without(scene, others):
        return None
    is_automatic = rng.random() < 0.5
    way = rng.choice(list(_Away))
    with scene.holding(machines):
        stale.kill()
        is_led = await _until(scene, name, _without(stale))
        await scene.rest(rng, SHORT_S_RANGE)
        with _away(scene, others, way):
            stale.start()
            if is_led:
                is_led = await _have_it_lead(scene, rng, name, stale, is_automatic=is_automatic)
                await scene.rest(rng, SHORT_S_RANGE)
        for machine in rng.sample(others, k=len(others)):
            await scene.rest(rng, SHORT_S_RANGE)
            scene.bring_back(machine)
    if is_automatic:
        await _forbid(scene, rng, name)
    if not is_led:
        return None
    how = "by allowing unclean elections" if is_automatic else "by command"
    return f"had {stale.name} lead {name} without what it lacks, {how}; all others were {way}"


class _Away(StrEnum):
    KILLED = "killed"
    PAUSED = "paused"
    CUT_OFF = "cut off"


@contextlib.contextmanager
def _away(scene: Scene, machines: list[SimMachine], way: _Away) -> Iterator[None]:
    """Whoever was killed or paused is brought back by the caller."""
    running = [each for each in machines if each.is_running]
    if way is _Away.CUT_OFF:
        names = {each.name for each in machines}
        links = [(one, other) for one in names for other in scene.cluster.machines if other not in names]
        with scene.cut(sorted([*links, *((other, one) for one, other in links)])):
            yield
        return
    for machine in running:
        machine.kill() if way is _Away.KILLED else machine.pause()
    yield


def _without(machine: SimMachine) -> Callable[[PartitionImage], bool]:
    return lambda now: machine.config.node_id not in (*now.isr, *now.elr)


async def _have_it_lead(
    scene: Scene, rng: random.Random, name: TopicPartition, stale: SimMachine, *, is_automatic: bool
) -> bool:
    number = stale.config.node_id
    if not await _until(scene, name, lambda now: now.leader == NO_LEADER or _is_unclean(now)):
        return False
    deciding = asyncio.create_task(_decide(scene, rng, name, stale, is_automatic=is_automatic))
    try:
        return await _until(scene, name, lambda now: now.leader == number and _is_unclean(now))
    finally:
        deciding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await deciding


async def _decide(
    scene: Scene, rng: random.Random, name: TopicPartition, stale: SimMachine, *, is_automatic: bool
) -> None:
    """By way of the broker that is there: whoever asks the others waits. It is refused until it is ready."""
    while True:
        async with scene.admin(rng, at=stale) as admin:
            try:
                if is_automatic:
                    await admin.alter_config(name.topic, {_UNCLEAN: True})
                else:
                    await admin.recover_partition(name, accept_missing_replicas=True)
            except QuorateError:
                await scene.rest(rng, MOMENT_S_RANGE)
            else:
                return


async def _forbid(scene: Scene, rng: random.Random, name: TopicPartition) -> None:
    async with scene.admin(rng) as admin:
        await until_done(
            scene,
            rng,
            lambda: admin.alter_config(name.topic, {_UNCLEAN: None}),
            done=UnknownTopicOrPartition,
        )


async def _until(scene: Scene, name: TopicPartition, is_so: Callable[[PartitionImage], bool]) -> bool:
    """By the committed metadata; False: not in time, or the partition is gone."""
    clock = scene.cluster.clock
    ends_at = clock.monotonic() + _WAIT_S_MAX
    while clock.monotonic() < ends_at:
        found = dict(partitions_of(scene.image())).get(name)
        if found is None:
            return False
        if is_so(found):
            return True
        await clock.sleep(_LOOK_EVERY_S)
    return False


def _is_unclean(partition: PartitionImage) -> bool:
    return partition.leader_epoch in partition.unclean_leader_epochs


def _any_that_may_lose(
    scene: Scene, rng: random.Random
) -> tuple[TopicPartition, PartitionImage] | tuple[None, None]:
    topics = {topic.name for topic in scene.plan.topics if topic.may_lose}
    found = [each for each in partitions_of(scene.image()) if each[0].topic in topics]
    return rng.choice(found) if found else (None, None)


def _is_quorum_without(scene: Scene, dead: list[SimMachine]) -> bool:
    """Somebody has to put the decision on record."""
    voters = scene.cluster.controllers
    return 2 * sum(each not in dead for each in voters) > len(voters)
