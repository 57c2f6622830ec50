"""A broker that dies when it is about to be admitted to an ISR, while what was said until then is on its way.

A leader asks for the process that has fetched (rule 24), and a fetch counts for the process that sent it
(rule 25). Both are about messages that arrive when that process is no more, and another one of the same
broker is there; its disk may be another one, too. By chance that hardly happens: an admission takes
milliseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from quorate.broker.replica.leadership import Leadership
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import Scene
from quorate.chaos.cluster.view import partitions_of

__all__ = ["kill_who_joins"]

_LOOK_EVERY_S: Final = 0.002
#: a session, and somebody who puts its end on record
_OUT_WITHIN_S: Final = 2.0
_JOINS_WITHIN_S: Final = 1.5
#: before it dies: there is more to be said
_TALK_S_RANGE: Final = (0.0, 0.1)
#: less than a session, or the leader would be another one by then
_BACK_WITHIN_S: Final = 0.9


async def kill_who_joins(scene: Scene, rng: random.Random) -> str | None:
    """What comes late is either what its leader asks for, or what itself has told that leader."""
    with scene.any_of(rng, scene.cluster.brokers) as machine:
        if machine is None:
            return None
        machine.kill()
        await _until(scene, lambda: not _is_in_an_isr(scene, machine), within_s=_OUT_WITHIN_S)
        machine.start()
        leaders: list[SimMachine] = []

        def is_asked_for() -> bool:
            leaders[:] = _asking_for(scene, machine)
            return bool(leaders)

        if not await _until(scene, is_asked_for, within_s=_JOINS_WITHIN_S):
            return f"killed {machine.name}"
        leader = leaders[0]
        is_wish_late = rng.random() < 0.5
        links = [(machine.name, leader.name)]
        if is_wish_late:
            links = [(leader.name, each.name) for each in scene.cluster.controllers if each is not leader]
        with scene.cut(links):
            await scene.rest(rng, _TALK_S_RANGE)
            is_wiped = _kill(scene, rng, machine)
            machine.start()
            await _until(scene, lambda: machine.is_ready, within_s=_BACK_WITHIN_S)
        late = f"what {leader.name} asked" if is_wish_late else f"what it had told {leader.name}"
        disk = " and wiped its disk" if is_wiped else ""
        return f"killed {machine.name} when it was to be admitted{disk}; {late} came late"


def _kill(scene: Scene, rng: random.Random, machine: SimMachine) -> bool:
    """Whether its disk is gone too."""
    if machine.is_running:
        machine.kill()
    is_wiped = not machine.config.is_controller and rng.random() < 0.7 and scene.budget.spend_disk(machine)
    if is_wiped:
        machine.wipe()
    return is_wiped


async def _until(scene: Scene, condition: Callable[[], bool], *, within_s: float) -> bool:
    clock = scene.cluster.clock
    ends_at = clock.monotonic() + within_s
    while not condition():
        if clock.monotonic() > ends_at:
            return False
        await clock.sleep(_LOOK_EVERY_S)
    return True


def _is_in_an_isr(scene: Scene, machine: SimMachine) -> bool:
    return any(machine.config.node_id in partition.isr for _, partition in partitions_of(scene.image()))


def _asking_for(scene: Scene, machine: SimMachine) -> list[SimMachine]:
    """Machines that lead a partition and have asked for this one."""
    return [
        each
        for each in scene.cluster.brokers
        if any(machine.config.node_id in _asked_for(leadership) for leadership in _leaderships(each))
    ]


def _leaderships(machine: SimMachine) -> Iterator[Leadership]:
    for replica in () if machine.broker is None else machine.broker.replicas:
        if replica.leadership is not None:
            yield replica.leadership


def _asked_for(leadership: Leadership) -> frozenset[int]:
    isr = leadership._membership.isr  # noqa: SLF001  # a fault sees what nobody is told
    return isr.maximal - isr.committed
