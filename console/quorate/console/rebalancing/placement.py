"""Where replicas lie, and how even that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Broker", "Name", "Placed", "Tally", "crowding"]


class Name(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    #: empty: it has none, and stands alone
    rack: str = ""
    #: it may be given replicas, and leaders; else it keeps what it has
    takes: bool = True

    @property
    def failure_domain(self) -> str:
        # Rack names come from configuration and hold no NUL, so this is nobody's rack.
        return self.rack or f"\0{self.id}"


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition: its replicas, the preferred leader first, and the bytes that each of them holds."""

    name: Name
    replicas: tuple[int, ...]
    size_bytes: int
    #: it stays where it is, and counts for what its brokers hold
    is_fixed: bool = False

    def with_replica(self, old: int, new: int) -> Placed:
        """In the same place: whoever takes over the first replica is preferred as leader."""
        replicas = tuple(new if each == old else each for each in self.replicas)
        return Placed(self.name, replicas, self.size_bytes)

    def led_by(self, leader: int) -> Placed:
        rest = [each for each in self.replicas if each != leader]
        return Placed(self.name, (leader, *rest), self.size_bytes)


@dataclass(frozen=True, slots=True)
class Tally:
    """What a broker holds."""

    replicas: int = 0
    leaders: int = 0
    size_bytes: int = 0

    @staticmethod
    def of(brokers: Iterable[Broker], partitions: Iterable[Placed]) -> dict[int, Tally]:
        replicas: Counter[int] = Counter()
        leaders: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for each in partitions:
            leaders[each.replicas[0]] += 1
            for broker_id in each.replicas:
                replicas[broker_id] += 1
                sizes[broker_id] += each.size_bytes
        return {each.id: Tally(replicas[each.id], leaders[each.id], sizes[each.id]) for each in brokers}


def crowding(replicas: Sequence[int], brokers: Mapping[int, Broker]) -> int:
    """Pairs of replicas that one failure takes away together: the fewer the better."""
    domains = Counter(brokers[each].failure_domain if each in brokers else f"\0{each}" for each in replicas)
    return sum(count * (count - 1) // 2 for count in domains.values())
