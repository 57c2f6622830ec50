"""The simulated network: named nodes, a link each way between any two, and what goes wrong on them.

It carries ordered flows of frames, as TCP does, and fails as TCP does. Within one flow nothing is lost,
doubled or overtaken unless the connection breaks; between flows everything is independent:

- delay: each frame takes a random time, so calls overtake each other.
- block: frames that arrive at a blocked link wait there. If it heals in time they go on, late: an old
  request may reach its server long after its caller gave up. After ``break_after_s`` the connections
  over it break. A link is one way, so that a request can get through whose answer cannot.
- drop: the flow that lost a frame falls silent, and its connection breaks after ``break_after_s``.
- reject: who connects to a node is refused though somebody listens there, as by a firewall.
- break: both sides learn at once, and everything in flight is gone. So it is when a machine loses its power.
- death of a process: its kernel lives on. What the process had sent may still arrive, at links that are
  blocked as late as after its next start; then the connection ends. Or it is reset, as it is where something
  has come that the process has not read.
- repeat: a request is sent twice, as by a proxy that got no answer in time; the first one may be lost. The
  second one belongs to nobody any more, and may come when its sender has died and is back.

Everything random comes from the generator that is passed in.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from quorate.chaos.sim.loop import SimLoop
from quorate.errors import CannotListen

if TYPE_CHECKING:
    from quorate.chaos.sim.conversation import Conversation, Head

__all__ = ["Link", "LinkFaults", "Listener", "SimConnection", "SimNetwork", "node_of"]

_FIRST_FREE_PORT: Final = 40_000
_DELIVERED_SHARE: Final = 0.5
_REPEATED_AT_ONCE_SHARE: Final = 0.5
_FIRST_LOST_SHARE: Final = 0.3

Deliver: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LinkFaults:
    #: shortest and longest time that a frame takes
    delay_s: tuple[float, float] = (0.000_1, 0.001)
    #: of a frame, to be lost
    drop_probability: float = 0.0
    #: of a unary request, to be sent twice, as by a proxy that repeats it
    duplicate_probability: float = 0.0
    #: after how long it is repeated, at most
    repeated_within_s: float = 0.0


class SimConnection(Protocol):
    """Whatever goes on between two nodes and ends when their connection breaks."""

    def connection_broken(self, reason: str) -> None: ...

    def process_died(self, node: str) -> None:
        """Of the two: what it has sent arrives, and the connection breaks after that."""


class Listener(Protocol):
    """Whoever answers at an address."""

    def accept(self, conversation: Conversation, head: Head) -> None: ...


def node_of(address: str) -> str:
    """An address is a node's name and a port."""
    return address.rpartition(":")[0]


class Link:
    """One way between two nodes."""

    __slots__ = ("blocked", "blocks", "faults", "held")

    def __init__(self) -> None:
        self.blocked = False
        #: how often it was blocked, to tell one block from the next
        self.blocks = 0
        self.held: deque[Deliver] = deque()
        self.faults: LinkFaults | None = None


class SimNetwork:
    def __init__(
        self,
        loop: SimLoop,
        rng: random.Random,
        *,
        faults: LinkFaults | None = None,
        break_after_s: float = 15.0,
    ) -> None:
        self.loop = loop
        self.rng = rng
        #: for links that have none of their own
        self.faults = faults or LinkFaults()
        self.break_after_s = break_after_s
        #: of the connections of a process that dies, which deliver what it has sent
        self.delivered_share = _DELIVERED_SHARE
        #: what the faults did, in all
        self.frames_dropped = self.frames_held = self.requests_doubled = self.deaths_outlived = 0
        #: requests that are still to be repeated
        self.repeats_due = 0
        #: what is on its way belongs to no process, and arrives whatever becomes of its sender
        self.outside = Context()
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[str, Listener] = {}
        self._rejecting: set[str] = set()
        self._connections: dict[SimConnection, tuple[str, str]] = {}
        self._free_ports = itertools.count(_FIRST_FREE_PORT)

    # ---- faults

    def set_faults(self, source: str, target: str, faults: LinkFaults | None) -> None:
        self.link(source, target).faults = faults

    def block(self, source: str, target: str) -> None:
        """Nothing gets from ``source`` to ``target`` any more; the other way stays as it is."""
        link = self.link(source, target)
        if link.blocked:
            return
        link.blocked = True
        link.blocks += 1
        self.loop.call_later(
            self.break_after_s,
            self._break_if_still,
            link,
            link.blocks,
            source,
            target,
            context=self.outside,
        )

    def unblock(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.blocked = False
        while link.held:
            self.loop.call_soon(link.held.popleft(), context=self.outside)

    def reject(self, node: str) -> None:
        """Nobody gets a connection to it, and what there is breaks; it connects to others as before."""
        self._rejecting.add(node)
        self.break_all_connections(node)

    def accept_again(self, node: str) -> None:
        self._rejecting.discard(node)

    def partition(self, *sides: Iterable[str]) -> None:
        """Nodes on different sides cannot reach each other; nodes on none are not concerned."""
        for one, other in itertools.permutations([list(side) for side in sides], 2):
            for source, target in itertools.product(one, other):
                self.block(source, target)

    def heal(self) -> None:
        """Unblock every link. What is broken stays broken, and is connected anew by the next call."""
        for source, target in list(self._links):
            self.unblock(source, target)

    def break_connections(self, node: str, other: str, reason: str = "connection reset") -> None:
        for connection, ends in list(self._connections.items()):
            if ends in ((node, other), (other, node)):
                connection.connection_broken(reason)

    def break_all_connections(self, node: str, reason: str = "connection reset") -> None:
        """As when the node's process dies."""
        for connection, ends in list(self._connections.items()):
            if node in ends:
                connection.connection_broken(reason)

    def node_died(self, node: str) -> None:
        """All of it: nobody listens at its addresses, and whoever was connected learns of it."""
        self._stop_listening_on(node)
        self.break_all_connections(node)

    def process_died(self, node: str) -> None:
        """To each of its peers its kernel delivers what is under way, or it resets the connection."""
        self._stop_listening_on(node)
        is_delivered: dict[str, bool] = {}
        for connection, ends in list(self._connections.items()):
            if node not in ends:
                continue
            client, server = ends
            peer = client if server == node else server
            if peer not in is_delivered:
                is_delivered[peer] = peer != node and self.rng.random() < self.delivered_share
                self.deaths_outlived += is_delivered[peer]
            if is_delivered[peer]:
                connection.process_died(node)
            else:
                connection.connection_broken("connection reset")

    def _stop_listening_on(self, node: str) -> None:
        for address in [each for each in self._listeners if node_of(each) == node]:
            self.stop_listening(address)

    # ---- for the transport

    def listen(self, address: str, listener: Listener) -> str:
        """Returns the address with a port of its own in place of port 0."""
        if address.endswith(":0"):
            address = f"{node_of(address)}:{next(self._free_ports)}"
        if address in self._listeners:
            raise CannotListen(f"cannot listen on {address}: it is in use", address=address)
        self._listeners[address] = listener
        return address

    def stop_listening(self, address: str) -> None:
        self._listeners.pop(address, None)

    def listener_at(self, address: str, *, asking: str) -> Listener | None:
        """None: a connection from the node ``asking`` is refused."""
        node = node_of(address)
        if node in self._rejecting and asking != node:
            return None
        return self._listeners.get(address)

    def connect(self, connection: SimConnection, client: str, server: str) -> None:
        self._connections[connection] = (client, server)

    def is_connected(self, connection: SimConnection) -> bool:
        return connection in self._connections

    def disconnect(self, connection: SimConnection) -> None:
        self._connections.pop(connection, None)

    def link(self, source: str, target: str) -> Link:
        """Made when it is first asked for; the same one from then on."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def transmit(self, link: Link, deliver: Deliver, *, not_before: float) -> float | None:
        """Call ``deliver`` when it has arrived: returns when that is due, or None if it never is."""
        faults = link.faults or self.faults
        if faults.drop_probability and self.rng.random() < faults.drop_probability:
            self.frames_dropped += 1
            return None
        shortest_s, longest_s = faults.delay_s
        # What ``uniform`` does, without a call more: every frame comes by here.
        due = self.loop.now + (shortest_s + (longest_s - shortest_s) * self.rng.random())
        if due < not_before:
            due = not_before
        self.loop.call_at(due, self._arrive, link, deliver, context=self.outside)
        return due

    def repeat(self, source: str, target: str, send: Deliver) -> bool:
        """A request is to be sent; ``send`` is called if it is repeated. Whether only that one arrives."""
        faults = self.link(source, target).faults or self.faults
        probability = faults.duplicate_probability
        if not probability or self.rng.random() >= probability:
            return False
        self.requests_doubled += 1
        if not faults.repeated_within_s or self.rng.random() < _REPEATED_AT_ONCE_SHARE:
            send()
            return False
        self.repeats_due += 1
        after_s = faults.repeated_within_s * self.rng.random()
        self.loop.call_later(after_s, self._repeat, send, context=self.outside)
        return self.rng.random() < _FIRST_LOST_SHARE

    def _repeat(self, send: Deliver) -> None:
        self.repeats_due -= 1
        send()

    def _arrive(self, link: Link, deliver: Deliver) -> None:
        if link.blocked:
            self.frames_held += 1
            link.held.append(deliver)
        else:
            deliver()

    def _break_if_still(self, link: Link, block: int, source: str, target: str) -> None:
        if link.blocked and link.blocks == block:
            link.held.clear()
            self.break_connections(source, target, "the peer does not answer")
