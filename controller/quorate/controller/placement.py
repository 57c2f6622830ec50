"""Where new replicas go.

What is wanted, in this order:

1. No two replicas of a partition on one broker, and none on one rack while another rack has none: what takes
   a whole rack down must take one copy. A broker without a rack is a rack of its own. With more replicas
   than racks, each rack gets its share.
2. The partitions of one topic spread evenly over the brokers, replicas as well as leaders, within one of
   each other (as far as racks of different sizes allow): the partitions of a topic carry its load together.
3. All partitions together spread evenly. This is what balances many small topics. It comes after the spread
   within the topic, because else a broker that has just joined, and holds nothing yet, would get all leaders
   of the next topic.
4. Which brokers share partitions varies, so that what a failed broker led is taken over by many.

How: replicas are dealt out one partition at a time, each to the rack, and there to the broker, that has the
least so far; ties are broken by chance (4). Always taking the least keeps the counts within one of each
other. A rack's count is taken per broker in it, so that a rack with twice the brokers gets twice the
replicas.

Leaders are chosen among the replicas. Taking the least one of each partition comes close to even but not
always there, so leaders are then shifted along chains (a partition of A is led by B instead, one of B by C)
as long as that evens them out. With replicas spread evenly there is always such a choice within one of even:
give each replica an equal share of its partition's leadership, and a whole-numbered flow exists between the
rounded sums.

Heaps make a partition cost the logarithm of the brokers, not their number, and existing partitions are
counted in one pass. Rejected: strides around a ring of brokers. They need no counts, but many small topics,
racks of different sizes and brokers that come later are all uneven there.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage

__all__ = ["BrokerLoads", "can_take_replicas", "place_replicas", "rack_of"]


@dataclass(frozen=True, slots=True)
class BrokerLoads:
    """What each broker holds and leads; zero for one that is not in it."""

    replicas: Counter[BrokerId] = field(default_factory=Counter)
    leaders: Counter[BrokerId] = field(default_factory=Counter)

    @classmethod
    def of(cls, partitions: Iterable[PartitionImage]) -> BrokerLoads:
        listed = list(partitions)
        leaders = Counter(partition.leader for partition in listed)
        del leaders[NO_LEADER]
        return cls(Counter(chain.from_iterable(partition.replicas for partition in listed)), leaders)

    @classmethod
    def of_image(cls, image: MetadataImage) -> BrokerLoads:
        return cls.of(chain.from_iterable(topic.partitions for topic in image.topics.values()))


def can_take_replicas(broker: BrokerImage) -> bool:
    return broker.is_active and not broker.is_draining


def rack_of(broker: BrokerImage) -> str:
    # Rack names come from configuration and hold no NUL, so this is nobody's rack.
    return broker.rack or f"\0{broker.broker_id}"


def place_replicas(
    brokers: Sequence[BrokerImage],
    *,
    partition_count: int,
    replication_factor: int,
    topic: BrokerLoads,
    total: BrokerLoads,
    rng: random.Random,
) -> list[tuple[BrokerId, ...]]:
    """Replicas of each new partition, the preferred leader first.

    ``topic``: the partitions that it has already; ``total``: those of all topics, its own included.
    """
    assert 1 <= replication_factor <= len(brokers)
    table = _Table(brokers, topic, total, rng)
    dealt = [table.deal(replication_factor) for _ in range(partition_count)]
    leaders = _Leaders(dealt, table.topic_leaders, table.total_leaders)
    leaders.even_out()
    placed = []
    for replicas, leader in zip(dealt, leaders.chosen, strict=True):
        # Who comes second takes over first: by chance, or a failed broker's load would fall on a few.
        others = [broker_id for broker_id in replicas if broker_id != leader]
        rng.shuffle(others)
        placed.append((leader, *others))
    return placed


class _Rack:
    """Its brokers, the one that has the least first, and what they have together."""

    __slots__ = ("heap", "number", "size", "topic_replicas", "total_replicas")

    def __init__(self, number: int) -> None:
        #: orders racks that are equal in all else
        self.number = number
        self.size = 0
        self.topic_replicas = 0
        self.total_replicas = 0
        self.heap: list[tuple[int, int, float, BrokerId]] = []


class _Table:
    """Brokers in their racks, each with what it was dealt so far."""

    def __init__(
        self, brokers: Sequence[BrokerImage], topic: BrokerLoads, total: BrokerLoads, rng: random.Random
    ) -> None:
        self._rng = rng
        self._topic_replicas = topic.replicas.copy()
        self._total_replicas = total.replicas.copy()
        self.topic_leaders = topic.leaders.copy()
        self.total_leaders = total.leaders.copy()
        racks: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda each: each.broker_id):
            rack = racks.setdefault(rack_of(broker), _Rack(len(racks)))
            rack.size += 1
            rack.topic_replicas += self._topic_replicas[broker.broker_id]
            rack.total_replicas += self._total_replicas[broker.broker_id]
            self._put_back(rack, broker.broker_id)
        self._heap: list[tuple[float, float, float, int, _Rack]] = []
        for rack in racks.values():
            self._put_back_rack(rack)

    def deal(self, count: int) -> tuple[BrokerId, ...]:
        """Replicas of one partition: one from each rack, and round again while more are needed.

        The first one leads, as far as can be said without looking at the other partitions.
        """
        hand: list[tuple[_Rack, BrokerId]] = []
        visited: list[_Rack] = []
        while len(hand) < count:
            if not self._heap:
                for rack in visited:
                    if rack.heap:
                        self._put_back_rack(rack)
                visited = [rack for rack in visited if not rack.heap]
            rack = heapq.heappop(self._heap)[-1]
            visited.append(rack)
            hand.append((rack, self._take_from(rack)))
        leader = self._choose_leader([broker_id for _, broker_id in hand])
        for rack, broker_id in hand:
            self._put_back(rack, broker_id)
        for rack in visited:
            self._put_back_rack(rack)
        return (leader, *(broker_id for _, broker_id in hand if broker_id != leader))

    def _take_from(self, rack: _Rack) -> BrokerId:
        broker_id = heapq.heappop(rack.heap)[-1]
        rack.topic_replicas += 1
        rack.total_replicas += 1
        self._topic_replicas[broker_id] += 1
        self._total_replicas[broker_id] += 1
        return broker_id

    def _choose_leader(self, hand: list[BrokerId]) -> BrokerId:
        leader = min(hand, key=lambda each: (self.topic_leaders[each], self.total_leaders[each]))
        self.topic_leaders[leader] += 1
        self.total_leaders[leader] += 1
        return leader

    def _put_back(self, rack: _Rack, broker_id: BrokerId) -> None:
        entry = (
            self._topic_replicas[broker_id],
            self._total_replicas[broker_id],
            self._rng.random(),
            broker_id,
        )
        heapq.heappush(rack.heap, entry)

    def _put_back_rack(self, rack: _Rack) -> None:
        topic, total = rack.topic_replicas / rack.size, rack.total_replicas / rack.size
        heapq.heappush(self._heap, (topic, total, self._rng.random(), rack.number, rack))


class _Leaders:
    """Which of its replicas leads each partition, and the shifting of that along chains."""

    def __init__(
        self, dealt: Sequence[tuple[BrokerId, ...]], topic: Counter[BrokerId], total: Counter[BrokerId]
    ) -> None:
        self._dealt = dealt
        self._topic = topic
        self._total = total
        self.chosen = [replicas[0] for replicas in dealt]
        #: the partitions that each one leads, in an order that does not depend on a hash
        self._led_by: dict[BrokerId, dict[int, None]] = {
            broker_id: {} for broker_id in sorted(set(chain.from_iterable(dealt)))
        }
        for number, leader in enumerate(self.chosen):
            self._led_by[leader][number] = None

    def even_out(self) -> None:
        """Ends, because each chain makes the sum of the squares of the counts smaller."""
        is_uneven = True
        while is_uneven:
            is_uneven = False
            for start in sorted(self._led_by, key=self._count, reverse=True):
                while self._shift_from(start):
                    is_uneven = True

    def _count(self, broker_id: BrokerId) -> tuple[int, int]:
        return self._topic[broker_id], self._total[broker_id]

    def _shift_from(self, start: BrokerId) -> bool:
        """Find the shortest chain from ``start`` to a broker that has less even after it got one more."""
        limit = (self._topic[start] - 1, self._total[start] - 1)
        if not any(self._count(broker_id) < limit for broker_id in self._led_by):
            return False
        came_from: dict[BrokerId, tuple[BrokerId, int]] = {start: (start, -1)}
        queue = deque([start])
        while queue and len(came_from) < len(self._led_by):
            giver = queue.popleft()
            for number in self._led_by[giver]:
                for taker in self._dealt[number]:
                    if taker in came_from:
                        continue
                    came_from[taker] = (giver, number)
                    queue.append(taker)
                    if self._count(taker) < limit:
                        self._shift_along(came_from, start, taker)
                        return True
        return False

    def _shift_along(
        self, came_from: dict[BrokerId, tuple[BrokerId, int]], start: BrokerId, end: BrokerId
    ) -> None:
        taker = end
        while taker != start:
            giver, number = came_from[taker]
            del self._led_by[giver][number]
            self._led_by[taker][number] = None
            self.chosen[number] = taker
            taker = giver
        for counts in (self._topic, self._total):
            counts[start] -= 1
            counts[end] += 1
