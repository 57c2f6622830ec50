"""Networks that carry less than they should, or in one direction only."""

from __future__ import annotations

from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import APART, story
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.faults.network import CLIENTS, NetworkFaults

__all__ = ["isolated_leader", "slow_follower", "split_brain"]

#: how a leader is cut off, and whether another one has to take over
_CUTS: Final = {
    "a leader cut off from everybody": True,
    "a leader that hears nobody": True,
    "a leader that nobody hears": True,
    "a leader cut off from the controllers": True,
    "a leader cut off from its followers": False,
    "a leader cut off from clients": False,
}
_SLOW_MS: Final = (50.0, 400.0)
_LOSS_PERCENT: Final = (5.0, 30.0)


@story(
    "isolated-leader",
    shows="a leader that nobody reaches: another takes over, and the old one returns as a follower",
    needs=(Ability.ISOLATE,),
    leaves=(EventKind.ELECTION, EventKind.FENCED),
    mixes=True,
)
async def isolated_leader(drill: Drill) -> None:
    partition = drill.a_partition()
    leader = await drill.leader(partition)
    with drill.fault("a leader cut off from everybody", leader):
        await drill.isolate(leader)
        await drill.another_leads(partition, leader)
        await drill.acknowledges()
        await drill.heal()
    await drill.acknowledges()


@story(
    "split-brain",
    shows="a leader behind cut links, whole or one way: two never acknowledge for the same partition",
    needs=(Ability.LINKS,),
    layout=APART,
)
async def split_brain(drill: Drill) -> None:
    partition = drill.a_partition()
    leader, followers = await drill.leader(partition), await drill.followers(partition)
    kind = drill.next_of("ways to cut", list(_CUTS))
    network = drill.disturb_network()
    with drill.fault(kind, leader):
        await _cut(network, kind, leader, followers=followers, controllers=drill.controllers, drill=drill)
        if _CUTS[kind]:
            await drill.another_leads(partition, leader)
            await drill.acknowledges()
        else:
            begun_s = drill.timeline.history.now_s()
            await drill.lasts(drill.pace.fault_s)
            count = drill.acknowledged_since(begun_s, partition)
            drill.expect(count == 0, f"{count} records were acknowledged by {kind}")
        await drill.heal()
    await drill.acknowledges()


async def _cut(
    network: NetworkFaults,
    kind: str,
    leader: str,
    *,
    followers: list[str],
    controllers: list[str],
    drill: Drill,
) -> None:
    others = [node.name for node in drill.agent.nodes if node.name != leader]
    match kind:
        case "a leader cut off from everybody":
            await network.isolate(leader)
        case "a leader that hears nobody":
            for other in (*others, CLIENTS):
                await network.block(other, leader)
        case "a leader that nobody hears":
            for other in (*others, CLIENTS):
                await network.block(leader, other)
        case "a leader cut off from the controllers":
            await network.partition([leader], controllers)
        case "a leader cut off from its followers":
            await network.partition([leader], followers)
        case "a leader cut off from clients":
            await network.partition([leader], [CLIENTS])


@story(
    "slow-follower",
    shows="a follower behind a slow link that loses: it leaves the ISR or holds nobody up",
    needs=(Ability.LINKS,),
    mixes=True,
)
async def slow_follower(drill: Drill) -> None:
    partition = drill.a_partition()
    slow = drill.random.choice(await drill.followers(partition))
    delay_ms = drill.random.uniform(*_SLOW_MS)
    percent = drill.random.uniform(*_LOSS_PERCENT)
    network = drill.disturb_network()
    with drill.fault("slow and lossy links of a follower", f"{slow}: {delay_ms:.0f} ms, {percent:.0f} %"):
        for other in (node.name for node in drill.agent.nodes if node.name != slow):
            for source, target in ((slow, other), (other, slow)):
                await network.delay(source, target, delay_ms=delay_ms, jitter_ms=delay_ms / 4)
                await network.loss(source, target, percent=percent)
        await drill.lasts(drill.pace.fault_s)
        await drill.acknowledges()
        await drill.heal()
    await drill.acknowledges()
