"""Processes that die or stand still."""

from __future__ import annotations

from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import Layout, story
from quorate.chaos.drills.timeline import EventKind

__all__ = [
    "controller_kill",
    "crash_loop",
    "kill_all",
    "leader_kill",
    "rolling_kill",
    "short_pause",
    "zombie_leader",
]

_CRASHES: Final = 4
#: shorter than any session that anybody would choose
_SHORT_S: Final = 0.8
#: A busy machine makes pauses longer; nobody who stood still for longer than this has to be spared.
_SPARED_S: Final = 1.0


@story(
    "leader-kill",
    shows="kill -9 of a leader: a replica in sync takes over, writes go on",
    needs=(Ability.KILL,),
    signs=(EventKind.ELECTION, EventKind.ISR_SHRUNK),
    is_in_the_mix=True,
)
async def leader_kill(drill: Drill) -> None:
    partition = drill.a_partition()
    victim = await drill.leader(partition)
    with drill.fault("kill -9 of a leader", victim):
        await drill.kill(victim)
        await drill.another_leads(partition, victim)
        await drill.acknowledges()
        await drill.start(victim)


@story(
    "rolling-kill",
    shows="kill -9 of every broker in turn, the next as soon as the last is back in sync",
    needs=(Ability.KILL,),
    signs=(EventKind.ELECTION, EventKind.ISR_SHRUNK),
    is_in_the_mix=True,
)
async def rolling_kill(drill: Drill) -> None:
    for victim in drill.shuffled(drill.brokers):
        with drill.fault("kill -9 of each broker in turn", victim):
            await drill.kill(victim)
            await drill.acknowledges()
            await drill.start(victim)
        await drill.becomes_whole()


@story(
    "controller-kill",
    shows="kill -9 of the active controller: another serves changes, writes do not stop for it",
    needs=(Ability.KILL,),
    layout=Layout(is_combined=False),
    signs=(EventKind.CONTROLLER,),
    is_in_the_mix=True,
)
async def controller_kill(drill: Drill) -> None:
    victim = await drill.active_controller()
    with drill.fault("kill -9 of the active controller", victim):
        await drill.kill(victim)
        await drill.acknowledges()
        await drill.change_metadata()
        await drill.start(victim)


@story(
    "kill-all",
    shows="kill -9 of all nodes at once: what was acknowledged is there when they come back",
    needs=(Ability.KILL,),
    signs=(EventKind.CONTROLLER,),
    is_in_the_mix=True,
)
async def kill_all(drill: Drill) -> None:
    with drill.fault("kill -9 of all nodes at once", ", ".join(drill.nodes)):
        await drill.kill(*drill.nodes)
        await drill.start(*drill.nodes)
        await drill.acknowledges()


@story(
    "crash-loop",
    shows="a broker that dies again and again while it starts, wherever it is then",
    needs=(Ability.KILL,),
    signs=(EventKind.ISR_SHRUNK,),
    is_in_the_mix=True,
)
async def crash_loop(drill: Drill) -> None:
    victim = drill.random.choice(drill.brokers)
    with drill.fault("kill -9 of a broker that starts, again and again", victim):
        await drill.kill(victim)
        for _ in range(_CRASHES):
            # A start takes about a second: early, in the middle of recovery, and just after it.
            await drill.start_and_kill(victim, after_s=drill.random.uniform(0.1, 2.0))
        await drill.acknowledges()
        await drill.start(victim)


@story(
    "zombie-leader",
    shows="a leader that is paused beyond its session: replaced meanwhile, and without authority after",
    needs=(Ability.PAUSE,),
    signs=(EventKind.ELECTION, EventKind.FENCED),
    is_in_the_mix=True,
)
async def zombie_leader(drill: Drill) -> None:
    partition = drill.a_partition()
    zombie = await drill.leader(partition)
    with drill.fault("SIGSTOP of a leader beyond its session", zombie):
        await drill.pause(zombie)
        await drill.another_leads(partition, zombie)
        await drill.acknowledges()
        # It wakes up in the middle of what it was doing, in front of clients that wait for its answers.
        await drill.resume(zombie)
    await drill.acknowledges()


@story(
    "short-pause",
    shows="a leader that is paused for less than its session: it goes on to lead, and nobody is elected",
    needs=(Ability.PAUSE,),
    is_in_the_mix=True,
)
async def short_pause(drill: Drill) -> None:
    partition = drill.a_partition()
    leader = await drill.leader(partition)
    with drill.fault("SIGSTOP of a leader for less than its session", leader):
        asked_s = drill.history.now_s()
        await drill.pause(leader)
        paused_s = drill.history.now_s()
        await drill.rest(_SHORT_S)
        drill.expect_silence(paused_s, [partition], f"{leader}, which stood still")
        await drill.resume(leader)
        stood_still_s = drill.history.now_s() - asked_s
    await drill.acknowledges()
    if stood_still_s < _SPARED_S:
        fenced = [event.what for event in drill.timeline.since(asked_s) if event.kind is EventKind.FENCED]
        drill.expect(leader not in fenced, f"{leader} was fenced for {stood_still_s:.2f} s of silence")
