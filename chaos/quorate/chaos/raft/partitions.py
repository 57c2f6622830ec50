"""Shapes in which a network falls apart."""

from __future__ import annotations

import random
from collections.abc import Sequence

from quorate.chaos.raft.links import Direction
from quorate.metadata.raft.voters import NodeId

__all__ = ["draw_isolation", "draw_partition"]


def draw_partition(
    nodes: Sequence[NodeId], leader: NodeId | None, random: random.Random
) -> tuple[str, frozenset[Direction]]:
    """The name of the shape, and the directions in which nothing passes."""
    victim = leader if leader is not None and random.random() < 0.75 else random.choice(nodes)
    others = [node for node in nodes if node != victim]
    match random.choice(("isolation", "isolation", "halves", "bridge", "link", "one way")):
        case "isolation":
            return draw_isolation(nodes, victim, random)
        case "halves":
            shuffled = random.sample(nodes, len(nodes))
            size = random.randint(0, len(nodes) // 2)
            return "halves", _between(shuffled[:size], shuffled[size:])
        case "bridge":
            # Two halves that do not see each other, and one node that sees both.
            half = len(others) // 2
            return f"node {victim} bridges", _between(others[:half], others[half:])
        case "link":
            other = random.choice(others) if others else victim
            return "one link", frozenset({(victim, other), (other, victim)})
        case _:
            other = random.choice(others) if others else victim
            return "one way", frozenset({(victim, other)})


def draw_isolation(
    nodes: Sequence[NodeId], victim: NodeId, random: random.Random
) -> tuple[str, frozenset[Direction]]:
    """One node hears nobody, is heard by nobody, or both."""
    outgoing = frozenset((victim, node) for node in nodes if node != victim)
    incoming = frozenset((node, victim) for node in nodes if node != victim)
    name, directions = random.choice(
        (("cut off", outgoing | incoming), ("deaf", incoming), ("mute", outgoing))
    )
    return f"node {victim} {name}", directions


def _between(side: Sequence[NodeId], other_side: Sequence[NodeId]) -> frozenset[Direction]:
    pairs = [(one, other) for one in side for other in other_side]
    return frozenset(pairs) | frozenset((other, one) for one, other in pairs)
