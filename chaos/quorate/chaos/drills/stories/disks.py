"""Disks that are full, fail to sync, forget, or are replaced by empty ones."""

from __future__ import annotations

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import APART, SMALL_SEGMENTS, story
from quorate.chaos.drills.timeline import EventKind

__all__ = ["disk_full", "failing_fsync", "power_loss", "power_loss_of_one", "wiped_disk"]


@story(
    "wiped-disk",
    shows="a broker returns with an empty disk: it counts for nothing until it has caught up",
    needs=(Ability.KILL, Ability.WIPE),
    layout=APART,
    signs=(EventKind.ISR_SHRUNK, EventKind.ISR_GREW),
    is_in_the_mix=True,
)
async def wiped_disk(drill: Drill) -> None:
    partition = drill.a_partition()
    victim = drill.random.choice([await drill.leader(partition), *await drill.followers(partition)])
    with drill.fault("an emptied disk", victim):
        await drill.kill(victim)
        # The others go on without it first: what was acknowledged so far is then not on this disk alone.
        await drill.acknowledges()
        await drill.agent.wipe(victim)
        await drill.start(victim)
        await drill.acknowledges()


@story(
    "disk-full",
    shows="a broker's disk is full: appends are refused, nothing is torn, and it goes on with room",
    needs=(Ability.DISK, Ability.LOGS),
    layout=APART,
)
async def disk_full(drill: Drill) -> None:
    partition = drill.a_partition()
    leader = await drill.leader(partition)
    drill.signs_in_logs.add("disk_full")
    with drill.fault("a full disk under a leader", leader):
        drill.agent.disk(leader).fill()
        await drill.stays_silent(partition, leader, f"{leader}, whose disk is full")
        drill.agent.disk(leader).make_room()
    await drill.acknowledges()


@story(
    "failing-fsync",
    shows="fsync fails under a leader: what it could not sync it never acknowledges",
    needs=(Ability.KILL, Ability.DISK),
    layout=APART,
    signs=(EventKind.ISR_SHRUNK,),
)
async def failing_fsync(drill: Drill) -> None:
    partition = drill.a_partition("synced")
    victim = await drill.leader(partition)
    with drill.fault("EIO from fsync under a leader", victim):
        drill.agent.disk(victim).fail_syncs()
        await drill.another_leads(partition, victim)
        await drill.acknowledges()
        await drill.kill(victim)
        drill.agent.disk(victim).let_syncs_succeed()
        await drill.start(victim)


@story(
    "power-loss",
    shows="all nodes lose power at once: with durability=fsync nothing acknowledged is gone",
    needs=(Ability.KILL, Ability.DISK),
    topics={
        "synced": {
            "partitions": 3,
            "replication_factor": 3,
            "configs": {**SMALL_SEGMENTS, "durability": "fsync"},
        }
    },
    signs=(EventKind.CONTROLLER,),
)
async def power_loss(drill: Drill) -> None:
    with drill.fault("power loss of all nodes at once", ", ".join(drill.nodes)):
        await drill.kill(*drill.nodes)
        for name in drill.nodes:
            drill.lose_power(name)
        await drill.start(*drill.nodes)
        await drill.acknowledges()


@story(
    "power-loss-of-one",
    shows="one node loses power: the others have what it has lost, with either durability",
    needs=(Ability.KILL, Ability.DISK),
    signs=(EventKind.ISR_SHRUNK, EventKind.ISR_GREW),
)
async def power_loss_of_one(drill: Drill) -> None:
    victim = await drill.leader(drill.a_partition())
    with drill.fault("power loss of a leader", victim):
        await drill.kill(victim)
        drill.lose_power(victim)
        await drill.acknowledges()
        await drill.start(victim)
