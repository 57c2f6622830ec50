"""The network of the control: one connection between any two voters, as TCP has it.

What is sent arrives in order, both ways, until the connection breaks. Then what was in flight is gone, both
ends hear of it, and a new connection is made a little later. That is all that pysyncobj asks of a network,
and it is kinder than the simulator's, which drops, doubles and reorders.

Only where a scenario says so does a broken connection linger: what it held arrives after all, in its own
order, but after the first messages of the new one. That is what a kernel does with a socket that its
process has closed: it goes on sending what is in the buffer, at longer and longer intervals, and the other
end, which has not noticed anything, goes on reading.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.voters import NodeId

__all__ = ["Connections", "End", "Traffic"]

Direction: TypeAlias = tuple[NodeId, NodeId]


class End(Protocol):
    """Whoever is connected: a process that may be down."""

    @property
    def is_up(self) -> bool: ...

    def connected(self, peer: NodeId) -> None: ...

    def disconnected(self, peer: NodeId) -> None: ...

    def receive_from(self, sender: NodeId, message: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds, each drawn between the two."""

    delay_s: tuple[float, float] = (0.01, 0.25)
    connect_s: tuple[float, float] = (0.01, 0.3)
    #: how much later the messages of a broken connection arrive; None: never
    linger_s: tuple[float, float] | None = None


@dataclass(slots=True)
class _Connection:
    ends: tuple[NodeId, NodeId]
    is_up: bool = False
    #: after it broke: how much later its messages arrive; None: they are gone
    linger_s: float | None = None
    #: when the last message of each direction arrives
    last_arrival: dict[Direction, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sent:
    connection: _Connection
    sender: NodeId
    to: NodeId
    #: of the addressee's process; one that came up later does not own the socket
    life: int
    message: object
    is_late: bool = False


class Connections:
    def __init__(self, time: VirtualTime, random: random.Random, traffic: Traffic) -> None:
        self.traffic = traffic
        #: messages in this direction take this many times as long
        self.slowness: dict[Direction, float] = {}
        #: messages that arrived after their connection had broken
        self.late = 0
        self._time = time
        self._random = random
        self._ends: dict[NodeId, End] = {}
        self._lives: dict[NodeId, int] = {}
        self._current: dict[tuple[NodeId, NodeId], _Connection] = {}

    def join(self, node_id: NodeId, end: End) -> None:
        self._ends[node_id] = end
        self._lives[node_id] = 0

    def came_up(self, node_id: NodeId) -> None:
        self._lives[node_id] += 1
        for peer in self._peers(node_id):
            self._plan_connection(node_id, peer)

    def went_down(self, node_id: NodeId) -> None:
        for peer in self._peers(node_id):
            self.break_between(node_id, peer)

    def break_between(self, one: NodeId, other: NodeId) -> None:
        connection = self._current.pop(_pair(one, other), None)
        if connection is None:
            return
        if self.traffic.linger_s is not None:
            connection.linger_s = self._random.uniform(*self.traffic.linger_s)
        if connection.is_up:
            connection.is_up = False
            for end, peer in ((one, other), (other, one)):
                if self._ends[end].is_up:
                    self._ends[end].disconnected(peer)
        self._plan_connection(one, other)

    def send(self, sender: NodeId, to: NodeId, message: object) -> bool:
        """False: there is no connection, and the message is gone."""
        connection = self._current.get(_pair(sender, to))
        if connection is None or not connection.is_up:
            return False
        direction = (sender, to)
        delay = self._random.uniform(*self.traffic.delay_s) * self.slowness.get(direction, 1.0)
        arrival = max(connection.last_arrival.get(direction, 0.0), self._time.now + delay)
        connection.last_arrival[direction] = arrival
        self._time.at(arrival, self._arrive, _Sent(connection, sender, to, self._lives[to], message))
        return True

    def _arrive(self, sent: _Sent) -> None:
        connection, end = sent.connection, self._ends[sent.to]
        if not end.is_up or sent.life != self._lives[sent.to]:
            return
        if not connection.is_up and not sent.is_late:
            if connection.linger_s is not None:
                late = _Sent(connection, sent.sender, sent.to, sent.life, sent.message, is_late=True)
                self._time.after(connection.linger_s, self._arrive, late)
            return
        self.late += sent.is_late
        end.receive_from(sent.sender, sent.message)

    def _plan_connection(self, one: NodeId, other: NodeId) -> None:
        if not (self._ends[one].is_up and self._ends[other].is_up):
            return
        connection = _Connection(_pair(one, other))
        self._current[connection.ends] = connection
        self._time.after(self._random.uniform(*self.traffic.connect_s), self._connect, connection)

    def _connect(self, connection: _Connection) -> None:
        if self._current.get(connection.ends) is not connection:
            return
        connection.is_up = True
        one, other = connection.ends
        self._ends[one].connected(other)
        self._ends[other].connected(one)

    def _peers(self, node_id: NodeId) -> list[NodeId]:
        return [peer for peer in self._ends if peer != node_id]


def _pair(one: NodeId, other: NodeId) -> tuple[NodeId, NodeId]:
    return (one, other) if one < other else (other, one)
