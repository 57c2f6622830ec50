"""What goes wrong, and when: one fault after the other, each of a kind that the seed knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from quorate.chaos.raft.ambush import Ambush, Moment
from quorate.chaos.raft.cluster import Cluster
from quorate.chaos.raft.conditions import WEIGHTS, Conditions, FaultKind
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.fault_budget import FaultBudget
from quorate.chaos.raft.links import Direction, Links
from quorate.chaos.raft.node import SimulatedNode
from quorate.chaos.raft.operator import Operator
from quorate.chaos.raft.partitions import draw_isolation, draw_partition
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.ready import PeerGone, Transfer
from quorate.metadata.raft.voters import NodeId, VoterKey

__all__ = ["Faults"]

#: the other one is for disks that were damaged once
_AMBUSHES: Final = tuple(moment for moment in Moment if moment is not Moment.RECOVERED)


class Faults:
    def __init__(
        self,
        *,
        cluster: Cluster,
        links: Links,
        time: VirtualTime,
        budget: FaultBudget,
        operator: Operator,
        ambush: Ambush,
        counters: Counters,
        conditions: Conditions,
        random: random.Random,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._time = time
        self._budget = budget
        self._operator = operator
        self._ambush = ambush
        self._counters = counters
        self._conditions = conditions
        self._random = random
        self._is_over = False
        self._strikes: dict[FaultKind, Callable[[], None]] = {
            FaultKind.CRASH: self._crash,
            FaultKind.CRASH_SEVERAL: self._crash_several,
            FaultKind.AMBUSH: self._lie_in_wait,
            FaultKind.PAUSE: self._pause,
            FaultKind.PARTITION: self._partition,
            FaultKind.FLAP: self._flap,
            FaultKind.DAMAGE_TAIL: self._damage_tail,
            FaultKind.WIPE: self._wipe,
            FaultKind.CLOCK: self._change_clock,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.FALSE_ALARM: self._raise_false_alarm,
            FaultKind.SNAPSHOT: self._take_snapshot,
            FaultKind.TRANSFER: self._transfer,
            FaultKind.VOTER_CHANGE: self._operator.change_voters,
        }

    def start(self) -> None:
        """Faults come in storms. A quorum that never gets to work has nothing to lose."""
        wait = self._random.expovariate(self._conditions.fault_rate)
        if self._random.random() < self._conditions.calm_probability:
            wait += self._random.uniform(0.5, 2.5) * self._conditions.timing.election_timeout_max_s
        self._time.after(wait, self._strike)

    def heal(self) -> None:
        """No more faults. What was broken is in order again; lost disks are for the operator."""
        self._is_over = True
        self._ambush.disarm()
        self._links.heal()
        for node in self._cluster:
            node.sync_factor = 1.0
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()

    def _strike(self, _: None) -> None:
        if self._is_over:
            return
        kinds = self._conditions.fault_kinds
        kind = self._random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        self._strikes[kind]()
        self.start()

    # --- processes ------------------------------------------------------------------------------------

    def _victim(self) -> SimulatedNode | None:
        """Leaders are the more rewarding ones."""
        running = self._cluster.running()
        leaders = [node for node in running if node.is_leader]
        if leaders and self._random.random() < 0.65:
            return self._random.choice(leaders)
        return self._random.choice(running) if running else None

    def _crash(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._take_down(victim)

    def _lie_in_wait(self) -> None:
        self._ambush.arm(self._random.choice(_AMBUSHES), self._spring)

    def _spring(self, node: SimulatedNode) -> None:
        """Within the time that a sync, or a message, takes."""
        strike = self._random.choice((self._crash_it, self._crash_it, self._pause_it, self._strand_it))
        self._time.after(self._conditions.sync_s * self._random.random(), strike, node)

    def _damage_again(self, node: SimulatedNode) -> None:
        """What was said about the first damage may be taken to be about the second."""
        self._time.after(0.1 * self._random.random(), self._damage_it, node)

    def _crash_it(self, node: SimulatedNode) -> None:
        if node.is_up and not self._is_over:
            self._take_down(node)

    def _crash_several(self) -> None:
        running = self._cluster.running()
        for victim in self._random.sample(running, self._random.randint(0, len(running))):
            self._take_down(victim)

    def _take_down(self, node: SimulatedNode) -> None:
        key = node.key
        node.crash()
        if self._random.random() < 0.5:
            for other in self._cluster.running():
                self._time.after(0.05 * self._random.random(), self._alarm, (other, key))
        self._time.after(self._random.choice((0.01, 0.1, 0.5)) * self._random.random(), self._restart, node)

    def _restart(self, node: SimulatedNode) -> None:
        if not node.is_up:
            node.start()

    def _pause(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._pause_it(victim)

    def _pause_it(self, node: SimulatedNode) -> None:
        if not node.is_up or node.is_paused or self._is_over:
            return
        self._counters.pauses += 1
        self._cluster.note(f"node {node.node_id} is paused")
        node.pause()
        self._time.after(self._random.choice((0.1, 0.4, 0.9)) * self._random.random(), self._resume, node)

    def _resume(self, node: SimulatedNode) -> None:
        if node.is_paused:
            self._cluster.note(f"node {node.node_id} is resumed")
            node.resume()

    def _raise_false_alarm(self) -> None:
        """Some are told that the leader is gone, and it is not."""
        leader = self._cluster.newest_leader()
        running = self._cluster.running()
        if leader is not None:
            for other in self._random.sample(running, self._random.randint(0, len(running))):
                self._alarm((other, leader.key))

    def _alarm(self, whom: tuple[SimulatedNode, VoterKey]) -> None:
        node, gone = whom
        if node.is_up:
            self._counters.alarms += 1
            node.handle(PeerGone(gone))

    def _change_clock(self) -> None:
        node = self._random.choice(list(self._cluster))
        self._counters.clock_changes += 1
        node.change_clock(1.0 + self._random.uniform(-1, 1) * self._conditions.drift_max)

    # --- disks ----------------------------------------------------------------------------------------

    def _damage_tail(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._damage_it(victim)

    def _damage_it(self, node: SimulatedNode) -> None:
        if self._is_over or not node.is_up or not self._budget.may_lose_its_disk(node):
            return
        self._take_down(node)
        self._counters.damaged_tails += 1
        records = self._random.randint(0, 4)
        node.disk.damage_tail(records)
        self._cluster.note(f"the last {records} records of node {node.node_id} are damaged")
        if self._random.random() < self._conditions.rot_probability:
            self._ambush.arm(Moment.RECOVERED, self._damage_again)

    def _wipe(self) -> None:
        victim = self._victim()
        if victim is not None and self._budget.may_lose_its_disk(victim):
            self._take_down(victim)
            self._counters.wipes += 1
            self._cluster.wipe(victim)

    def _slow_disk(self) -> None:
        self._slow_it(self._random.choice(list(self._cluster)))

    def _slow_it(self, node: SimulatedNode) -> None:
        self._counters.slow_disks += 1
        node.sync_factor = self._random.choice((0.05, 0.3)) / self._conditions.sync_s
        self._time.after(self._random.random(), self._speed_up_disk, node)

    def _speed_up_disk(self, node: SimulatedNode) -> None:
        node.sync_factor = 1.0

    # --- the network ----------------------------------------------------------------------------------

    def _partition(self) -> None:
        leader = self._cluster.newest_leader()
        leader_id = None if leader is None else leader.node_id
        name, directions = draw_partition(list(self._cluster.nodes), leader_id, self._random)
        self._cut(name, directions)

    def _strand_it(self, node: SimulatedNode) -> None:
        """Cut off, and perhaps with a slow disk, it is in the middle of something when the others go on."""
        if self._is_over:
            return
        if self._random.random() < 0.5:
            self._slow_it(node)
        self._cut(*draw_isolation(list(self._cluster.nodes), node.node_id, self._random))

    def _cut(self, name: str, directions: frozenset[Direction]) -> None:
        self._counters.partitions += 1
        self._cluster.note(f"partition, {name}: {sorted(directions)}")
        handle = self._links.cut(directions, clogs=self._random.random() < self._conditions.clog_probability)
        # Over before anybody notices, or long enough for the others to elect another leader.
        low, high = self._random.choice(((0.02, 0.2), (0.4, 1.2)))
        self._time.after(self._random.uniform(low, high), self._mend, handle)

    def _flap(self) -> None:
        """A link that comes and goes, faster than anybody gets used to it."""
        one, other = (
            self._random.choice(list(self._cluster.nodes)),
            self._random.choice(list(self._cluster.nodes)),
        )
        for number in range(self._random.randint(2, 5)):
            self._time.after(0.1 * number, self._flap_once, (one, other))

    def _flap_once(self, link: tuple[NodeId, NodeId]) -> None:
        if self._is_over:
            return
        one, other = link
        self._counters.partitions += 1
        handle = self._links.cut({(one, other), (other, one)})
        self._time.after(0.07 * self._random.random(), self._mend, handle)

    def _mend(self, handle: int) -> None:
        self._links.mend(handle)

    # --- no faults, but at a bad moment ---------------------------------------------------------------

    def _take_snapshot(self) -> None:
        running = self._cluster.running()
        if running:
            self._random.choice(running).take_snapshot()

    def _transfer(self) -> None:
        leader = self._cluster.newest_leader()
        if leader is None:
            return
        keys = [voter.key for voter in leader.voters]
        to = self._random.choice([None, *keys])
        self._counters.transfers += 1
        self._cluster.note(f"leadership of node {leader.node_id} is to go to {to or 'whoever is furthest'}")
        leader.handle(Transfer(to))
