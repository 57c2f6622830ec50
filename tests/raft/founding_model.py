"""Nodes that found a quorum, as a model: what is durable, what is not, and all that may happen to them.

A *world* is a value: equal worlds are equal, so that all that can be reached is visited once. Answers
travel at once, because a node keeps the last one of each peer for as long as it likes before it acts: that
is the delay. What is reached in ``random_world`` beyond it are answers that overtake each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from quorate.metadata.raft.founding import (
    Begin,
    ConfiguredVoter,
    Decision,
    Founding,
    IdentifyResponse,
    StayOut,
    Wait,
    WriteFounding,
)
from quorate.metadata.raft.voters import DirectoryId, NodeId, VoterKey, Voters

__all__ = [
    "Node",
    "World",
    "check_safe",
    "configured",
    "explore",
    "first_world",
    "founding_of",
    "random_world",
]


def configured(count: int) -> tuple[ConfiguredVoter, ...]:
    return tuple(ConfiguredVoter(NodeId(each), f"host{each}:1") for each in range(1, count + 1))


@dataclass(frozen=True)
class Node:
    node_id: int
    #: how often its disk was replaced
    wipes: int = 0
    # durable
    founding: Voters | None = None
    is_confirmed: bool = False
    # forgotten by a crash
    heard: tuple[IdentifyResponse | None, ...] = ()

    @property
    def key(self) -> VoterKey:
        return VoterKey(NodeId(self.node_id), DirectoryId(f"{self.node_id}-{self.wipes}"))


@dataclass(frozen=True)
class World:
    nodes: tuple[Node, ...]
    wipes_left: int
    crashes_left: int

    def with_node(self, node: Node, **changes: int) -> World:
        nodes = tuple(node if each.node_id == node.node_id else each for each in self.nodes)
        return replace(self, nodes=nodes, **changes)


def first_world(count: int, *, wipes: int, crashes: int = 0) -> World:
    nodes = tuple(Node(each, heard=(None,) * count) for each in range(1, count + 1))
    return World(nodes, wipes, crashes)


def founding_of(node: Node, count: int, kind: type[Founding] = Founding) -> Founding:
    founding = kind(
        node.key,
        cluster_id="c",
        configured=configured(count),
        founding=node.founding,
        is_confirmed=node.is_confirmed,
    )
    for number, response in enumerate(node.heard, start=1):
        if response is not None:
            founding.on_response(NodeId(number), response)
    return founding


def act(node: Node, decision: Decision) -> Node:
    match decision:
        case WriteFounding(voters=voters):
            return replace(node, founding=voters)
        case Begin():
            return replace(node, is_confirmed=True)
        case StayOut():
            return replace(node, founding=Voters(()), is_confirmed=True)
        case Wait():
            return node


def next_worlds(world: World, kind: type[Founding]) -> Iterator[World]:
    count = len(world.nodes)
    for node in world.nodes:
        acted = act(node, founding_of(node, count, kind).decide())
        if acted != node:
            yield world.with_node(acted)
        for peer in world.nodes:
            if peer.node_id != node.node_id:
                yield world.with_node(hear(node, peer.node_id, founding_of(peer, count, kind).answer()))
        if world.wipes_left:
            fresh = Node(node.node_id, node.wipes + 1, heard=(None,) * count)
            yield world.with_node(fresh, wipes_left=world.wipes_left - 1)
        if world.crashes_left and any(node.heard):
            forgetful = replace(node, heard=(None,) * count)
            yield world.with_node(forgetful, crashes_left=world.crashes_left - 1)


def hear(node: Node, peer: int, response: IdentifyResponse) -> Node:
    heard = (*node.heard[: peer - 1], response, *node.heard[peer:])
    return replace(node, heard=heard)


def check_safe(world: World) -> None:
    """Of all that take part in elections right now: one founding set, and each is in it as it is."""
    voting = [node for node in world.nodes if node.is_confirmed and node.founding]
    sets = {node.founding for node in voting}
    assert len(sets) <= 1, f"two founding sets in use: {world}"
    for node in voting:
        assert node.founding is not None
        assert node.key in node.founding


def explore(start: World, kind: type[Founding] = Founding) -> int:
    """Check every world that can be reached; returns how many there are."""
    seen, frontier = {start}, [start]
    while frontier:
        for world in next_worlds(frontier.pop(), kind):
            if world not in seen:
                check_safe(world)
                seen.add(world)
                frontier.append(world)
    return len(seen)


def random_world(rng: random.Random, *, count: int, steps: int, wipes: int) -> World:
    """A long walk in which answers are also lost, late and out of order."""
    world = first_world(count, wipes=wipes)
    in_flight: list[tuple[int, int, IdentifyResponse]] = []
    for _ in range(steps):
        node = rng.choice(world.nodes)
        peer = rng.choice([each for each in world.nodes if each != node])
        chance = rng.random()
        if chance < 0.4:
            in_flight.append((node.node_id, peer.node_id, founding_of(peer, count).answer()))
        elif chance < 0.7 and in_flight:
            to, sender, response = in_flight.pop(rng.randrange(len(in_flight)))
            # Who crashed or was wiped since gets an answer to a question it never asked: no harm either.
            world = world.with_node(hear(world.nodes[to - 1], sender, response))
        elif chance < 0.95:
            world = world.with_node(act(node, founding_of(node, count).decide()))
        elif chance < 0.98:
            world = world.with_node(replace(node, heard=(None,) * count))
        elif world.wipes_left:
            fresh = Node(node.node_id, node.wipes + 1, heard=(None,) * count)
            world = world.with_node(fresh, wipes_left=world.wipes_left - 1)
        check_safe(world)
    return world
