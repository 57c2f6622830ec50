"""Networks that carry less than they should, or in one direction only."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import APART, story
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.faults.network import CLIENTS
from quorate.core.ids import TopicPartition

__all__ = ["isolated_leader", "slow_follower", "split_brain"]


class _Cut(StrEnum):
    """How a leader is cut off."""

    FROM_EVERYBODY = "a leader cut off from everybody"
    HEARS_NOBODY = "a leader that hears nobody"
    IS_NOT_HEARD = "a leader that nobody hears"
    FROM_CONTROLLERS = "a leader cut off from the controllers"
    FROM_FOLLOWERS = "a leader cut off from its followers"
    FROM_CLIENTS = "a leader cut off from clients"


#: The controllers still hear it, so that it goes on to lead.
_LEAVES_THE_LEADER: Final = frozenset({_Cut.FROM_FOLLOWERS, _Cut.FROM_CLIENTS})
_SLOW_MS_RANGE: Final = (50.0, 400.0)
_LOSS_PERCENT_RANGE: Final = (5.0, 30.0)


@story(
    "isolated-leader",
    shows="a leader that nobody reaches: another takes over, and the old one returns as a follower",
    needs=(Ability.ISOLATE,),
    signs=(EventKind.ELECTION, EventKind.FENCED),
    is_in_the_mix=True,
)
async def isolated_leader(drill: Drill) -> None:
    partition = drill.a_partition()
    leader = await drill.leader(partition)
    with drill.fault(_Cut.FROM_EVERYBODY, leader):
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
    cut = drill.choices.next_of("ways to cut", list(_Cut))
    with drill.fault(cut, leader):
        await _inflict(drill, cut, leader, followers)
        if cut in _LEAVES_THE_LEADER:
            await drill.stays_silent(partition, leader, cut)
        else:
            drill.signs.add(EventKind.ELECTION)
            await drill.another_leads(partition, leader)
            await drill.acknowledges()
        await drill.heal()
    await drill.acknowledges()


async def _inflict(drill: Drill, cut: _Cut, leader: str, followers: list[str]) -> None:
    network = drill.disturb_network()
    others = [CLIENTS, *(name for name in drill.nodes if name != leader)]
    match cut:
        case _Cut.FROM_EVERYBODY:
            await network.isolate(leader)
        case _Cut.HEARS_NOBODY:
            for other in others:
                await network.block(other, leader)
        case _Cut.IS_NOT_HEARD:
            for other in others:
                await network.block(leader, other)
        case _Cut.FROM_CONTROLLERS:
            await network.partition([leader], drill.controllers)
        case _Cut.FROM_FOLLOWERS:
            await network.partition([leader], followers)
        case _Cut.FROM_CLIENTS:
            await network.partition([leader], [CLIENTS])


@story(
    "slow-follower",
    shows="a follower behind a slow link that loses: it leaves the ISR or holds nobody up",
    needs=(Ability.LINKS,),
    is_in_the_mix=True,
)
async def slow_follower(drill: Drill) -> None:
    partition = drill.a_partition()
    slow = drill.random.choice(await drill.followers(partition))
    delay_ms = drill.random.uniform(*_SLOW_MS_RANGE)
    percent = drill.random.uniform(*_LOSS_PERCENT_RANGE)
    network = drill.disturb_network()
    with drill.fault("slow and lossy links of a follower", f"{slow}: {delay_ms:.0f} ms, {percent:.0f} %"):
        for other in (name for name in drill.nodes if name != slow):
            for source, target in ((slow, other), (other, slow)):
                await network.delay(source, target, delay_ms=delay_ms, jitter_ms=delay_ms / 4)
                await network.loss(source, target, percent=percent)
        slow_s = drill.history.now_s()
        await drill.rest(drill.pace.fault_s)
        await drill.acknowledges()
        _expect_slowness(drill, slow_s, partition, delay_ms)
        await drill.heal()
    await drill.acknowledges()


def _expect_slowness(drill: Drill, since_s: float, partition: TopicPartition, delay_ms: float) -> None:
    """To be in sync it has to be waited for: there and back again for each record."""
    has_left = any(event.kind is EventKind.ISR_SHRUNK for event in drill.timeline.since(since_s))
    waits_ms = [
        (sent.ended_s - sent.begun_s) * 1e3
        for sent in drill.sent_since(since_s, partition)
        if sent.is_acknowledged and sent.ended_s is not None
    ]
    drill.expect(
        has_left or min(waits_ms, default=0.0) >= delay_ms,
        f"records were acknowledged within {min(waits_ms, default=0.0):.0f} ms over links that take "
        f"{delay_ms:.0f} ms, and the ISR has not shrunk",
    )
