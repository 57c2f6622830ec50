"""Too few nodes: what the cluster must refuse to do then."""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import APART, story
from quorate.chaos.drills.timeline import EventKind
from quorate.core.config import Durability
from quorate.errors import QuorateError

__all__ = ["last_replica_standing", "quorum_loss", "unclean_stays_off"]

#: One partition, so that its replicas can be counted down one by one; one whose leader may acknowledge alone.
_COUNTED: Final = {
    "two": {"partitions": 1, "replication_factor": 3, "configs": {"min.insync.replicas": "2"}},
    "alone": {"partitions": 1, "replication_factor": 3, "configs": {"min.insync.replicas": "1"}},
}
_ORDERS: Final = [
    (killed, started)
    for killed in itertools.permutations(range(3))
    for started in itertools.permutations(range(3))
]
#: how long a change without a quorum may try
_FUTILE_S: Final = 3.0


@story(
    "quorum-loss",
    shows="most controllers gone: no change of metadata commits; with them back all goes on",
    needs=(Ability.KILL,),
    layout=APART,
    signs=(EventKind.CONTROLLER,),
)
async def quorum_loss(drill: Drill) -> None:
    controllers = drill.shuffled(drill.controllers)
    victims = controllers[: len(controllers) // 2 + 1]
    with drill.fault("kill -9 of most controllers", ", ".join(victims)):
        await drill.kill(*victims)
        try:
            async with asyncio.timeout(_FUTILE_S):
                await drill.change_metadata()
            has_changed = True
        except (QuorateError, TimeoutError):
            has_changed = False
        drill.expect(not has_changed, "a change of metadata was confirmed without a quorum")
        await drill.rest(drill.pace.fault_s)
        await drill.start(*victims)
        await drill.acknowledges()
    await drill.change_metadata()


@story(
    "last-replica-standing",
    shows="replicas die one by one and return in another order: all 36 orders, none loses anything",
    needs=(Ability.KILL,),
    topics=_COUNTED,
    layout=APART,
    signs=(EventKind.ISR_SHRUNK, EventKind.OFFLINE),
)
async def last_replica_standing(drill: Drill) -> None:
    killed, started = drill.choices.next_in_turn("orders", _ORDERS)
    replicas = [drill.name_of(each) for each in sorted((await drill.describe(drill.a_partition())).replicas)]
    victims = [replicas[each] for each in killed]
    with drill.fault("kill -9 of all replicas, one by one", f"{' '.join(victims)}; back in order {started}"):
        for left, victim in enumerate(victims):
            await drill.kill(victim)
            # Each death meets another ISR; the one who is alone goes on writing where it may.
            if left < 2:
                await drill.acknowledges(drill.of_topic("alone"))
        for each in started:
            await drill.start(replicas[each])
        await drill.acknowledges()


@story(
    "unclean-stays-off",
    shows="only stale replicas are left: the partition waits for the one that has everything",
    needs=(Ability.KILL,),
    topics={"alone": _COUNTED["alone"]},
    layout=APART,
    signs=(EventKind.ISR_SHRUNK, EventKind.OFFLINE),
)
async def unclean_stays_off(drill: Drill) -> None:
    [partition] = drill.partitions
    leader, stale = await drill.leader(partition), await drill.followers(partition)
    with drill.fault("death of the only replica in sync, with stale ones alive", leader):
        await drill.kill(*stale)
        await drill.described_until(partition, lambda each: each.isr == (drill.id_of(leader),))
        # Acknowledged by the leader alone: the others lack these records.
        await drill.acknowledges()
        await drill.kill(leader)
        # The controller decides on the partition when brokers come back, and again when it is to be synced
        # from now on: whoever elects a stale replica on any of these occasions is found out.
        await drill.start(*stale)
        await drill.are_unfenced(stale)
        await drill.admin.alter_config(partition.topic, {"durability": Durability.FSYNC})
        await drill.rest(drill.pace.fault_s)
        waiting = await drill.describe(partition)
        drill.expect(waiting.leader is None, f"{waiting.leader} leads without the acknowledged records")
        drill.expect(waiting.isr == (drill.id_of(leader),), f"the ISR became {waiting.isr} without a leader")
        await drill.start(leader)
        await drill.acknowledges()
    await drill.becomes_whole()
    await drill.admin.alter_config(partition.topic, {"durability": None})
