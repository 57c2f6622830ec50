"""The network between the nodes: it delays, drops, doubles and reorders, and it is cut into pieces.

A cut is a set of directions, (from, to), so that one-way failures and bridges need nothing of their own. It
stops what is sent from now on; what is already on its way still arrives. A cut that *clogs* keeps what it
stops, as a connection does that sends again until it gets through: when it is mended, all of it arrives, from
a time that everybody else has left behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from quorate.chaos.raft.conditions import Conditions
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.messages import Envelope, SnapshotRequest
from quorate.metadata.raft.voters import NodeId

__all__ = ["Direction", "Links"]

Direction: TypeAlias = tuple[NodeId, NodeId]

_UNLUCKY_PROBABILITY: Final = 0.6
#: queues are bounded in the driver too
_CLOGGED_MAX: Final = 40


class Links:
    def __init__(
        self, time: VirtualTime, random: random.Random, conditions: Conditions, counters: Counters
    ) -> None:
        self._time = time
        self._random = random
        self._conditions = conditions
        self._counters = counters
        self._receivers: dict[NodeId, Callable[[Envelope], None]] = {}
        self._cuts: dict[int, frozenset[Direction]] = {}
        self._cut: frozenset[Direction] = frozenset()
        self._cuts_made = 0
        #: what each cut that clogs has stopped
        self._clogged: dict[int, list[Envelope]] = {}
        self._last_arrival: dict[Direction, float] = {}
        self._is_troubled = True

    def connect(self, node_id: NodeId, receive: Callable[[Envelope], None]) -> None:
        self._receivers[node_id] = receive

    # --- faults ---------------------------------------------------------------------------------------

    def cut(self, directions: Iterable[Direction], *, clogs: bool = False) -> int:
        """Returns a handle to ``mend`` it with."""
        self._cuts_made += 1
        self._cuts[self._cuts_made] = frozenset(directions)
        if clogs:
            self._clogged[self._cuts_made] = []
        self._cut = frozenset().union(*self._cuts.values())
        return self._cuts_made

    def mend(self, handle: int) -> None:
        self._cuts.pop(handle, None)
        self._cut = frozenset().union(*self._cuts.values())
        for envelope in self._clogged.pop(handle, ()):
            self._counters.messages_straggling += 1
            self._deliver_at(self._time.now + self._delay(envelope), _direction(envelope), envelope)

    def heal(self) -> None:
        """Every cut is mended, and from now on nothing is lost."""
        for handle in list(self._cuts):
            self.mend(handle)
        self._is_troubled = False

    # --- messages -------------------------------------------------------------------------------------

    def send(self, envelope: Envelope) -> None:
        direction = _direction(envelope)
        counters, conditions, draw = self._counters, self._conditions, self._random.random
        counters.messages_sent += 1
        if direction in self._cut:
            self._stop(envelope, direction)
            return
        if not self._is_troubled:
            self._deliver_at(self._time.now + conditions.delay_min_s, direction, envelope)
            return
        if draw() < conditions.drop_probability:
            counters.messages_dropped += 1
            return
        self._deliver_at(self._time.now + self._delay(envelope), direction, envelope)
        if conditions.duplicate_probability and draw() < conditions.duplicate_probability:
            counters.messages_duplicated += 1
            self._deliver_at(self._time.now + self._delay(envelope), direction, envelope)

    def _stop(self, envelope: Envelope, direction: Direction) -> None:
        self._counters.messages_cut_off += 1
        for handle, clogged in self._clogged.items():
            if direction in self._cuts[handle] and len(clogged) < _CLOGGED_MAX:
                clogged.append(envelope)
                return

    def _delay(self, envelope: Envelope) -> float:
        conditions, draw = self._conditions, self._random.random
        delay = conditions.delay_min_s + conditions.delay_jitter_s * draw()
        if type(envelope.message) is SnapshotRequest:
            delay += conditions.snapshot_transfer_s * draw()
        is_unlucky = type(envelope.message) is conditions.unlucky and draw() < _UNLUCKY_PROBABILITY
        if is_unlucky or (conditions.straggle_probability and draw() < conditions.straggle_probability):
            self._counters.messages_straggling += 1
            # Most a little late, some very.
            delay += draw() ** 2 * 4 * conditions.timing.election_timeout_max_s
        return delay

    def _deliver_at(self, when: float, direction: Direction, envelope: Envelope) -> None:
        before = self._last_arrival.get(direction, 0.0)
        if when < before:
            if self._conditions.is_fifo:
                when = before
            else:
                self._counters.messages_reordered += 1
        else:
            self._last_arrival[direction] = when
        self._time.at(when, self._receivers[direction[1]], envelope)


def _direction(envelope: Envelope) -> Direction:
    return (envelope.sender.node_id, envelope.to.node_id)
