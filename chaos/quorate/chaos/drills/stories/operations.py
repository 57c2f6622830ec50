"""What operators do on purpose, under load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import SMALL_SEGMENTS, Layout, story
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.live.waiting import until_so
from quorate.client.admin.types import DecommissionProgress

__all__ = ["drain", "grow_and_shrink", "reassign_under_fire", "rolling_restart", "topic_recreate"]

_FEW_PARTITIONS: Final = {"partitions": 2, "replication_factor": 3, "configs": SMALL_SEGMENTS}
#: and the replicas are where they were
_CALLED_OFF: Final = "moves called off half-way"


@story(
    "rolling-restart",
    shows="every broker is stopped with SIGTERM and started again: leaders move away before it ends",
    needs=(Ability.STOP,),
    signs=(EventKind.ELECTION,),
    is_in_the_mix=True,
)
async def rolling_restart(drill: Drill) -> None:
    for name in drill.shuffled(drill.brokers):
        with drill.fault("SIGTERM of each broker in turn", name):
            await drill.stop(name)
            await drill.start(name)
        await drill.becomes_whole()


@story(
    "drain",
    shows="leaders are moved away from each broker before it is killed: nobody waits for an election",
    needs=(Ability.KILL,),
    signs=(EventKind.ELECTION,),
    is_in_the_mix=True,
)
async def drain(drill: Drill) -> None:
    victim = drill.random.choice(drill.brokers)
    broker_id = drill.id_of(victim)
    with drill.fault("drain, then kill -9 of a broker", victim):
        await until_so(
            f"the drain of {victim}",
            lambda: drill.admin.drain_broker(broker_id),
            lambda still_led: not still_led,
        )
        await drill.kill(victim)
        await drill.acknowledges()
        await drill.start(victim)
        await drill.admin.drain_broker(broker_id, cancel=True)


@story(
    "grow-and-shrink",
    shows="a broker joins and takes replicas, a topic gets partitions, and the broker leaves for good",
    needs=(Ability.GROW, Ability.STOP),
    layout=Layout(is_combined=False),
    signs=(EventKind.ISR_GREW, EventKind.ISR_SHRUNK),
)
async def grow_and_shrink(drill: Drill) -> None:
    newcomer = await drill.agent.add_broker()
    broker_id = drill.id_of(newcomer)
    moves: dict[tuple[str, int], list[int]] = {}
    for partition in drill.partitions:
        replicas = (await drill.describe(partition)).replicas
        moves[partition] = [broker_id, *drill.shuffled(replicas)[1:]]
    with drill.fault("a broker joins, takes replicas, and is decommissioned", newcomer):
        await drill.admin.reassign_partitions({**moves})
        await drill.stops_moving()
        await drill.add_partition("replicated")
        await drill.acknowledges()
        await _decommissioned(drill, newcomer, lambda found: found.remaining_replica_count == 0)
        await drill.agent.stop(newcomer)
        await _decommissioned(drill, newcomer, lambda found: found.is_removed)
        await drill.acknowledges()


async def _decommissioned(drill: Drill, name: str, is_so: Callable[[DecommissionProgress], bool]) -> None:
    """Until it is so far."""
    broker_id = drill.id_of(name)
    await until_so(f"the leave of {name}", lambda: drill.admin.decommission_broker(broker_id), is_so)


@story(
    "reassign-under-fire",
    shows="partitions move while brokers die; some moves are called off half-way",
    needs=(Ability.KILL,),
    layout=Layout(brokers=4, is_combined=False),
    signs=(EventKind.ISR_GREW,),
)
async def reassign_under_fire(drill: Drill) -> None:
    moving = drill.shuffled(drill.partitions)[: max(2, len(drill.partitions) // 2)]
    ids = [drill.id_of(name) for name in drill.brokers]
    goals: dict[tuple[str, int], list[int]] = {partition: drill.shuffled(ids)[:3] for partition in moving}
    sources = {partition: set((await drill.describe(partition)).replicas) for partition in moving}
    victim = drill.random.choice(drill.brokers)
    with drill.fault("kill -9 of a broker while partitions move", victim):
        await drill.admin.reassign_partitions({**goals})
        await drill.kill(victim)
        # At least one, if any is still on its way.
        under_way = drill.shuffled(await drill.moving())
        called_off = [each for each in under_way if each == under_way[0] or drill.random.random() < 0.3]
        await drill.admin.reassign_partitions(dict.fromkeys(called_off))
        await drill.acknowledges()
        await drill.start(victim)
        await drill.stops_moving()
    for partition in moving:
        replicas = set((await drill.describe(partition)).replicas)
        goal, source = set(goals[partition]), sources[partition]
        # A move may have been done before it was called off.
        possible = (goal, source) if partition in called_off else (goal,)
        drill.expect(replicas in possible, f"{partition} moved to {sorted(replicas)} instead")
        drill.count(_CALLED_OFF, partition in called_off and replicas == source != goal)
    drill.figures[_CALLED_OFF] = str(drill.counted[_CALLED_OFF])


@story(
    "topic-recreate",
    shows="a topic is deleted and made again under load: nothing of the old one is in the new one",
    needs=(Ability.KILL,),
    topics={"kept": _FEW_PARTITIONS, "again": _FEW_PARTITIONS},
    # One is dead when the topic is made again, and three have to take it.
    layout=Layout(brokers=4),
    signs=(EventKind.ISR_SHRUNK,),
)
async def topic_recreate(drill: Drill) -> None:
    partitions = drill.of_topic("again")
    victim = await drill.leader(drill.random.choice(partitions))
    with drill.fault("delete and create a topic while a replica of it is dead", victim):
        await drill.kill(victim)
        await drill.acknowledges()
        # Whatever had its outcome before the deletion was of the old topic.
        old = {sent.value for sent in drill.history.sent if sent.ended_s is not None}
        await drill.recreate_topic("again", _FEW_PARTITIONS)
        await drill.acknowledges()
        # It comes back with the old topic's files, and without knowing that there is another one.
        await drill.start(victim)
        await drill.becomes_whole()
        await drill.acknowledges()
    for partition in partitions:
        stale = [value for value in await drill.reads_all(partition) if value in old]
        drill.expect(not stale, f"{partition} holds {len(stale)} records of the topic before it: {stale[:3]}")
