"""What a simulated run will be, drawn from its seed before anything runs.

A plan is data: it can be stored, printed, and made smaller. Every fault event has a random generator of its
own, so a plan without some of its events does the others as before, as far as the cluster lets it: that is
what makes a failing plan shrink. What happens inside the cluster is drawn from the plan's seed as well, but
not by the plan.

A seed draws few kinds of faults and repeats them: that finds more than all of them rarely (a swarm). Some
draw no operations, some no faults but operations.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.chaos.cluster.faults.kinds import OPERATIONS, UNPLANNED, Fault
from quorate.core.config import Durability

__all__ = ["COMPETED", "GROUPED", "FaultEvent", "Plan", "TopicPlan", "WorkloadPlan"]

#: the topic for whose end clients compete
COMPETED: Final = "c"
#: the topic that a group shares
GROUPED: Final = "g"
#: the one of which something may be lost; there only where somebody gives it up
_LOSSY: Final = "m"
_BROKERS: Final = (3, 3, 3, 3, 4, 5)
_DURABILITIES: Final = (Durability.REPLICATED, Durability.REPLICATED, Durability.FSYNC)
_KINDS_RANGE: Final = (2, 5)
_EVENTS_RANGE: Final = (5, 11)
#: these are not compacted
_EVERY_RECORD_COUNTS: Final = (COMPETED, GROUPED, _LOSSY)
_COMPETITORS: Final = 4
_MEMBERS: Final = 4
_MEMBERS_DRAWN: Final = (0, 0, 0, 0, 2, 3)
_SHARED_PARTITIONS: Final = 3
_DELETE: Final = "delete"
_COMPACT: Final = "compact"
_COMPACTIONS: Final = (_COMPACT, _COMPACT, f"{_COMPACT},{_DELETE}")
_COMPACTED_SHARE: Final = 0.25
#: faults overlap: the next one begins so long after the last one began
_PAUSE_S_RANGE: Final = (0.02, 0.8)


@dataclass(frozen=True, slots=True)
class FaultEvent:
    number: int
    kind: Fault
    #: after the event before it has begun
    pause_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    durability: Durability
    #: an operator gives up what is on dead brokers (rule 33); of all other topics nothing may be lost
    may_lose: bool = False
    #: as the topic's setting of that name has it
    cleanup_policy: str = _DELETE

    @property
    def is_compacted(self) -> bool:
        return _COMPACT in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """By age and size."""
        return _DELETE in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    #: with acks=all
    producers: int
    #: with acks=1, whose losses are counted and not condemned
    hasty_producers: int
    readers: int
    #: clients that compete for the end of one log with conditional appends
    competitors: int
    #: of a group that shares one topic
    members: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    brokers: int
    #: the first brokers are the controllers too
    is_combined: bool
    topics: tuple[TopicPlan, ...]
    workload: WorkloadPlan
    events: tuple[FaultEvent, ...]

    @staticmethod
    def draw(seed: int, *, kinds: Sequence[Fault] = (), durability: Durability | None = None) -> Plan:
        """From the seed alone. ``kinds`` and ``durability``: those and no others."""
        rng = random.Random(f"plan {seed}")
        brokers = rng.choice(_BROKERS)
        workload = _draw_workload(rng)
        names = [f"t{number}" for number in range(rng.choice((1, 2)))]
        if workload.competitors:
            names.append(COMPETED)
        is_combined = rng.random() < 0.4
        topics = [_draw_topic(rng, name, brokers, durability) for name in names]
        # With generators of their own, so that the rest of a plan does not depend on these.
        topics = _draw_compaction(random.Random(f"compaction {seed}"), topics)
        of_group = random.Random(f"group {seed}")
        members = of_group.choice(_MEMBERS_DRAWN)
        if members:
            topics.append(_draw_topic(of_group, GROUPED, brokers, durability))
            workload = dataclasses.replace(workload, members=members)
        events = _draw_events(rng, kinds)
        if any(event.kind is Fault.RECOVER_PARTITION for event in events):
            topics.append(_draw_lossy_topic(rng, durability))
        return Plan(
            seed=seed,
            brokers=brokers,
            is_combined=is_combined,
            topics=tuple(topics),
            workload=workload,
            events=events,
        )

    def only_competing(self) -> Plan:
        """The same faults, and nobody but clients that compete."""
        competed = dataclasses.replace(self.topics[0], name=COMPETED, partitions=1, cleanup_policy=_DELETE)
        workload = WorkloadPlan(producers=0, hasty_producers=0, readers=0, competitors=_COMPETITORS)
        return dataclasses.replace(self, topics=(competed,), workload=workload)

    def plain(self) -> Plan:
        """The same without a group, and without compaction, whatever was drawn."""
        topics = [
            dataclasses.replace(topic, cleanup_policy=_DELETE)
            for topic in self.topics
            if topic.name != GROUPED
        ]
        workload = dataclasses.replace(self.workload, members=0)
        return dataclasses.replace(self, topics=tuple(topics), workload=workload)

    def with_group(self) -> Plan:
        """The same faults, and a group whose members come and go, whether it was drawn or not."""
        topics = [topic for topic in self.topics if topic.name != GROUPED]
        shared = dataclasses.replace(
            self.topics[0],
            name=GROUPED,
            partitions=_SHARED_PARTITIONS,
            cleanup_policy=_DELETE,
            may_lose=False,
        )
        workload = dataclasses.replace(self.workload, members=_MEMBERS)
        return dataclasses.replace(self, topics=(*topics, shared), workload=workload)

    def with_compaction(self) -> Plan:
        """The same, and every topic that may be is compacted."""
        topics = [
            topic
            if topic.name in _EVERY_RECORD_COUNTS
            else dataclasses.replace(topic, cleanup_policy=_COMPACT)
            for topic in self.topics
        ]
        return dataclasses.replace(self, topics=tuple(topics))

    @property
    def written_topics(self) -> list[TopicPlan]:
        """Those that ordinary producers write to."""
        return [topic for topic in self.topics if topic.name != COMPETED]

    def without(self, numbers: Collection[int]) -> Plan:
        """The same plan, less these events."""
        kept = tuple(event for event in self.events if event.number not in numbers)
        return dataclasses.replace(self, events=kept)

    # -- JSON

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Plan:
        topics = tuple(
            TopicPlan(**{**each, "durability": Durability(each["durability"])}) for each in content["topics"]
        )
        events = tuple(FaultEvent(**{**each, "kind": Fault(each["kind"])}) for each in content["events"])
        workload = WorkloadPlan(**content["workload"])
        return Plan(**{**content, "topics": topics, "events": events, "workload": workload})


def _draw_topic(rng: random.Random, name: str, brokers: int, durability: Durability | None) -> TopicPlan:
    drawn = rng.choice(_DURABILITIES)
    replication_factor = rng.choice((3, 3, 3, 2, min(4, brokers)))
    return TopicPlan(
        name=name,
        partitions=rng.choice((1, 1, 2)),
        replication_factor=replication_factor,
        min_insync_replicas=rng.choice((2, 2, 2, 1, min(3, replication_factor))),
        durability=durability or drawn,
    )


def _draw_compaction(rng: random.Random, topics: Sequence[TopicPlan]) -> list[TopicPlan]:
    """Some are compacted; not those of which every record counts: what is competed for."""
    return [
        dataclasses.replace(topic, cleanup_policy=rng.choice(_COMPACTIONS))
        if rng.random() < _COMPACTED_SHARE and topic.name not in _EVERY_RECORD_COUNTS
        else topic
        for topic in topics
    ]


def _draw_lossy_topic(rng: random.Random, durability: Durability | None) -> TopicPlan:
    """With MinISR 1 its new leader writes alone, where the others have something else."""
    drawn = rng.choice(_DURABILITIES)
    return TopicPlan(
        name=_LOSSY,
        partitions=1,
        replication_factor=3,
        min_insync_replicas=rng.choice((1, 2)),
        durability=durability or drawn,
        may_lose=True,
    )


def _draw_workload(rng: random.Random) -> WorkloadPlan:
    return WorkloadPlan(
        producers=rng.choice((1, 2, 2, 3)),
        hasty_producers=rng.choice((0, 0, 1)),
        readers=rng.choice((1, 1, 2)),
        competitors=rng.choice((0, 0, 0, 0, 0, _COMPETITORS)),
    )


def _draw_events(rng: random.Random, kinds: Sequence[Fault]) -> tuple[FaultEvent, ...]:
    chosen = list(kinds) or _draw_kinds(rng)
    return tuple(
        FaultEvent(number, rng.choice(chosen), rng.uniform(*_PAUSE_S_RANGE), rng.getrandbits(64))
        for number in range(rng.randint(*_EVENTS_RANGE))
    )


def _draw_kinds(rng: random.Random) -> list[Fault]:
    unplanned = rng.sample(UNPLANNED, k=rng.randint(*_KINDS_RANGE))
    operations = rng.sample(OPERATIONS, k=rng.choice((0, 0, 1, 1, 2, 3)))
    return unplanned + operations
