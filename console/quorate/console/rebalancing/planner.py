"""A better placement, found without asking anybody: what there is in, what there should be out.

The problem: brokers that came later hold nothing, brokers that were away for long lead nothing, and topics
that were made at different times lie where there was room then. Every byte that is moved costs the cluster
work, so what is wanted is not the best placement but a good one that is near.

How, in three passes, each of which only ever improves what it is about and harms nothing of those before:

1. *Racks.* A partition with two replicas in one rack, while another rack has none, gets one moved there.
2. *Replicas.* From the broker with the most, one replica at a time moves to one with less, as long as that
   makes the whole more even. The measure adds two things, each as a share of the average broker's: how many
   replicas a broker holds, and how many bytes. It is the sum of squares of both, so a move helps if it goes
   from more to less. The one that helps most is taken, among equals the one that copies least. No move
   crowds a rack.
3. *Leaders.* Which replica is preferred costs nothing to change. Leadership is shifted along chains (from A
   to B in one partition, from B to C in another) until no broker is preferred for two more than one that
   could take over from it.

A partition that must stay, being out of sync, is never moved and weighs like any other: a broker that is
catching up is not empty. Each step lowers a sum that cannot fall for ever, so it ends. The same input gives
the same plan.

Rejected: the optimum by a solver (a dependency, and it moves everything for the last percent); to balance
each topic by itself, as the controller does for new ones (a topic of one partition would always stay on the
old brokers); current load in bytes per second (it changes by the hour, and moves take hours).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.console.rebalancing.placement import Broker, Name, Placed, Tally, crowding

__all__ = ["Move", "plan"]

#: Of the gain of moving one replica by count alone: less is not worth a move.
_GAIN_SHARE_MIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Move:
    before: Placed
    after: Placed

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(each for each in self.after.replicas if each not in self.before.replicas)

    @property
    def size_bytes(self) -> int:
        """That have to be copied; a change of the preferred leader alone copies none."""
        return self.before.size_bytes * len(self.added)


def plan(brokers: Sequence[Broker], partitions: Iterable[Placed]) -> list[Move]:
    """What has to change, by topic and partition."""
    before = {each.name: each for each in sorted(partitions, key=lambda each: each.name)}
    known = {each.id: each for each in brokers}
    takers = [each for each in sorted(brokers, key=lambda each: each.id) if each.takes]
    if not takers:
        return []
    after = _spread_over_racks(known, takers, before)
    after = _Evening(known, takers, after).evened()
    after = _share_leaders(takers, after)
    return [
        Move(before[name], after[name]) for name in before if before[name].replicas != after[name].replicas
    ]


# -- racks


def _spread_over_racks(
    brokers: Mapping[int, Broker], takers: Sequence[Broker], partitions: Mapping[Name, Placed]
) -> dict[Name, Placed]:
    result = dict(partitions)
    counts = {broker_id: tally.replicas for broker_id, tally in Tally.of(takers, result.values()).items()}
    for name, placed in partitions.items():
        while not placed.is_fixed and (better := _less_crowded(brokers, counts, placed)) is not None:
            old, new = better
            placed = result[name] = placed.with_replica(old, new)
            counts[old] -= 1
            counts[new] += 1
    return result


def _less_crowded(
    brokers: Mapping[int, Broker], counts: Mapping[int, int], placed: Placed
) -> tuple[int, int] | None:
    """The replacement that parts the most; among equals, from the fullest broker to the emptiest."""
    now = crowding(placed.replicas, brokers)
    if now == 0:
        return None
    choices = [
        (crowding(placed.with_replica(old, new).replicas, brokers), counts[new] - counts[old], new, old)
        for old in placed.replicas
        if old in counts
        for new in counts
        if new not in placed.replicas
    ]
    if not choices or min(choices)[0] >= now:
        return None
    _, _, new, old = min(choices)
    return old, new


# -- replicas


class _Evening:
    """Moves replicas between brokers that take some, until no single move makes it more even."""

    def __init__(
        self, brokers: Mapping[int, Broker], takers: Sequence[Broker], partitions: Mapping[Name, Placed]
    ) -> None:
        self._brokers = brokers
        self._placed = dict(partitions)
        #: by broker: what could be moved away from it
        self._held: dict[int, set[Name]] = {each.id: set() for each in takers}
        #: by broker: replicas and bytes, each as a share of what the average one has
        self._count: dict[int, float] = dict.fromkeys(self._held, 0.0)
        self._bytes: dict[int, float] = dict.fromkeys(self._held, 0.0)
        held = [(each, broker_id) for each in partitions.values() for broker_id in each.replicas]
        held = [(each, broker_id) for each, broker_id in held if broker_id in self._held]
        self._unit = len(takers) / len(held) if held else 0.0
        size_bytes = sum(each.size_bytes for each, _ in held)
        self._per_byte = len(takers) / size_bytes if size_bytes else 0.0
        for each, broker_id in held:
            if not each.is_fixed:
                self._held[broker_id].add(each.name)
            self._count[broker_id] += self._unit
            self._bytes[broker_id] += each.size_bytes * self._per_byte

    def evened(self) -> dict[Name, Placed]:
        while self._step():
            pass
        return self._placed

    def _step(self) -> bool:
        """The best move away from the fullest broker that has a useful one."""
        for source in sorted(self._held, key=lambda each: (-self._count[each] - self._bytes[each], each)):
            choices = [
                (gain, -self._placed[name].size_bytes, -target, name)
                for name in sorted(self._held[source])
                for target in self._held
                if (gain := self._gain(name, source, target)) > _GAIN_SHARE_MIN * self._unit**2
            ]
            if choices:
                _, _, target, name = max(choices, key=lambda each: each[:3])
                self._move(name, source, -target)
                return True
        return False

    def _gain(self, name: Name, source: int, target: int) -> float:
        """By how much the sum of squares falls; below nothing: it would grow, or the move is not allowed."""
        placed = self._placed[name]
        if target in placed.replicas:
            return -1.0
        weight = placed.size_bytes * self._per_byte
        gain = 2 * self._unit * (self._count[source] - self._count[target] - self._unit)
        gain += 2 * weight * (self._bytes[source] - self._bytes[target] - weight)
        if gain <= 0:
            return gain
        moved = placed.with_replica(source, target).replicas
        is_crowded = crowding(moved, self._brokers) > crowding(placed.replicas, self._brokers)
        return -1.0 if is_crowded else gain

    def _move(self, name: Name, source: int, target: int) -> None:
        placed = self._placed[name]
        self._placed[name] = placed.with_replica(source, target)
        self._held[source].remove(name)
        self._held[target].add(name)
        for broker_id, sign in ((source, -1), (target, 1)):
            self._count[broker_id] += sign * self._unit
            self._bytes[broker_id] += sign * placed.size_bytes * self._per_byte


# -- leaders


def _share_leaders(takers: Sequence[Broker], partitions: Mapping[Name, Placed]) -> dict[Name, Placed]:
    result = dict(partitions)
    able = {each.id for each in takers}
    led: dict[int, set[Name]] = defaultdict(set)
    for name, placed in result.items():
        led[placed.replicas[0]].add(name)
    while (chain := _chain(able, led, result)) is not None:
        for name, leader in chain:
            led[result[name].replicas[0]].remove(name)
            led[leader].add(name)
            result[name] = result[name].led_by(leader)
    return result


def _chain(
    able: set[int], led: Mapping[int, set[Name]], partitions: Mapping[Name, Placed]
) -> list[tuple[Name, int]] | None:
    """The shortest way to take one from a broker that is preferred for two more than where it ends."""
    count = {broker_id: len(led[broker_id]) if broker_id in led else 0 for broker_id in able}
    for start in sorted(able, key=lambda each: (-count[each], each)):
        came: dict[int, tuple[int, Name]] = {}
        waiting = deque([start])
        while waiting:
            at = waiting.popleft()
            if count[at] <= count[start] - 2:
                return _way(start, at, came)
            for name in sorted(led[at]) if at in led else ():
                if partitions[name].is_fixed:
                    continue
                for other in partitions[name].replicas[1:]:
                    if other in able and other != start and other not in came:
                        came[other] = (at, name)
                        waiting.append(other)
    return None


def _way(start: int, end: int, came: Mapping[int, tuple[int, Name]]) -> list[tuple[Name, int]]:
    way: list[tuple[Name, int]] = []
    while end != start:
        before, name = came[end]
        way.append((name, end))
        end = before
    return way
