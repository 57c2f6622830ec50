"""Links that are cut, slow, or lose what they carry."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Final

from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller, leaders
from quorate.chaos.sim.network import LinkFaults

__all__ = [
    "bridge",
    "cut_leader_from_clients",
    "cut_leader_from_controllers",
    "cut_leader_from_followers",
    "cut_off",
    "cut_off_for_long",
    "cut_one_way",
    "delay",
    "drop",
    "duplicate",
    "flap",
    "lose_answers",
    "reject",
]

_FLAPS_RANGE: Final = (3, 8)
_FOR_LONG_SHARE: Final = 0.3
#: beyond what the network takes to break a connection
_BROKEN_S_RANGE: Final = (15.5, 18.0)
#: beyond the death of whoever sent it, and its next start
_REPEATED_WITHIN_S: Final = 3.0


async def _cut(scene: Scene, rng: random.Random, links: Iterable[tuple[str, str]], what: str) -> str:
    with scene.cut(links):
        await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
    return what


def _between(one: Iterable[str], other: Iterable[str]) -> list[tuple[str, str]]:
    """Both ways."""
    pairs = [(a, b) for a, b in itertools.product(one, other) if a != b]
    return pairs + [(b, a) for a, b in pairs]


def _any_leader(scene: Scene, rng: random.Random) -> str | None:
    found = leaders(scene.cluster)
    return rng.choice(found).name if found else None


async def cut_off(scene: Scene, rng: random.Random) -> str | None:
    """One machine from all others, clients among them or not."""
    names = list(scene.cluster.machines)
    victim = rng.choice(names)
    clients = scene.cluster.clients if rng.random() < 0.3 else []
    return await _cut(scene, rng, _between([victim], [*names, *clients]), f"cut off {victim}")


async def cut_off_for_long(scene: Scene, rng: random.Random) -> str | None:
    """Until its connections break, and some time more. Seldom: nothing costs as much virtual time."""
    if rng.random() >= _FOR_LONG_SHARE:
        return None
    names = list(scene.cluster.machines)
    victim = rng.choice(names)
    with scene.cut(_between([victim], names)):
        await scene.rest(rng, _BROKEN_S_RANGE)
    return f"cut off {victim} for long"


async def cut_one_way(scene: Scene, rng: random.Random) -> str | None:
    source, target = rng.sample(list(scene.cluster.machines), k=2)
    return await _cut(scene, rng, [(source, target)], f"cut {source} -> {target}")


async def cut_leader_from_controllers(scene: Scene, rng: random.Random) -> str | None:
    leader = _any_leader(scene, rng)
    if leader is None:
        return None
    controllers = [each.name for each in scene.cluster.controllers]
    return await _cut(scene, rng, _between([leader], controllers), f"cut {leader} from the controllers")


async def cut_leader_from_followers(scene: Scene, rng: random.Random) -> str | None:
    leader = _any_leader(scene, rng)
    if leader is None:
        return None
    active = active_controller(scene.cluster)
    brokers = [each.name for each in scene.cluster.brokers if each is not active]
    return await _cut(scene, rng, _between([leader], brokers), f"cut {leader} from the other brokers")


async def cut_leader_from_clients(scene: Scene, rng: random.Random) -> str | None:
    leader = _any_leader(scene, rng)
    if leader is None:
        return None
    return await _cut(scene, rng, _between([leader], scene.cluster.clients), f"cut {leader} from the clients")


async def bridge(scene: Scene, rng: random.Random) -> str | None:
    """Two sides that do not see each other, and one machine that sees both."""
    names = list(scene.cluster.machines)
    middle, *others = rng.sample(names, k=len(names))
    one, other = others[::2], others[1::2]
    what = f"cut {' '.join(one)} from {' '.join(other)}, both see {middle}"
    return await _cut(scene, rng, _between(one, other), what)


async def flap(scene: Scene, rng: random.Random) -> str | None:
    one, other = rng.sample(list(scene.cluster.machines), k=2)
    times = rng.randint(*_FLAPS_RANGE)
    for _ in range(times):
        with scene.cut(_between([one], [other])):
            await scene.rest(rng, MOMENT_S_RANGE)
        scene.cluster.network.break_connections(one, other)
        await scene.rest(rng, MOMENT_S_RANGE)
    return f"cut {one} from {other} {times} times"


async def lose_answers(scene: Scene, rng: random.Random) -> str | None:
    """What clients ask of one broker gets there, its answers do not; then the connections break."""
    machine = rng.choice(scene.cluster.brokers)
    clients = list(scene.cluster.clients)
    with scene.cut((machine.name, client) for client in clients):
        await scene.rest(rng, MOMENT_S_RANGE)
        for client in clients:
            scene.cluster.network.break_connections(machine.name, client)
    return f"lost the answers of {machine.name}"


async def reject(scene: Scene, rng: random.Random) -> str | None:
    """A firewall: whoever dials one machine is refused, though its process lives and reaches all others."""
    victim = rng.choice(list(scene.cluster.machines))
    network = scene.cluster.network
    network.reject(victim)
    try:
        await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
    finally:
        network.accept_again(victim)
    return f"connections to {victim} were refused"


async def _worsen(scene: Scene, rng: random.Random, faults: LinkFaults, what: str) -> str:
    """Of all links to and from one machine, clients' too."""
    names = list(scene.cluster.machines)
    victim = rng.choice(names)
    links = _between([victim], [*names, *scene.cluster.clients])
    with scene.worse(links, faults):
        await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
    return f"{what} {victim}"


async def delay(scene: Scene, rng: random.Random) -> str | None:
    longest_s = rng.choice((0.02, 0.1, 0.4))
    return await _worsen(
        scene, rng, LinkFaults(delay_s=(0.0001, longest_s)), f"up to {longest_s} s to and from"
    )


async def drop(scene: Scene, rng: random.Random) -> str | None:
    probability = rng.choice((0.002, 0.01, 0.05))
    return await _worsen(scene, rng, LinkFaults(drop_probability=probability), f"lost {probability:.1%} at")


async def duplicate(scene: Scene, rng: random.Random) -> str | None:
    probability = rng.choice((0.1, 0.5))
    faults = LinkFaults(duplicate_probability=probability, repeated_within_s=_REPEATED_WITHIN_S)
    return await _worsen(scene, rng, faults, f"sent {probability:.0%} of requests twice at")
