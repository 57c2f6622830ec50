"""Questions for assignors, and what can be said about every answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from quorate.broker.groups.assignors import AssignableMember, AssignableTopic, Assignment
from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import PartitionId, TopicId

RACKS = ("east", "north", "west")


class Problem(NamedTuple):
    members: list[AssignableMember]
    topics: dict[TopicId, AssignableTopic]

    def with_targets(self, targets: Mapping[str, frozenset[TopicIdPartition]]) -> Problem:
        members = [each._replace(target=targets.get(each.member_id, frozenset())) for each in self.members]
        return self._replace(members=members)

    def without(self, member_id: str) -> Problem:
        return self._replace(members=[each for each in self.members if each.member_id != member_id])

    def without_racks(self) -> Problem:
        topics = {topic_id: topic._replace(racks=()) for topic_id, topic in self.topics.items()}
        return Problem([each._replace(rack="") for each in self.members], topics)

    @property
    def wanted(self) -> dict[TopicIdPartition, set[str]]:
        """Every partition that somebody wants, and who does."""
        found: dict[TopicIdPartition, set[str]] = {}
        for member in self.members:
            for topic_id in member.topic_ids:
                for partition in partitions(topic_id, self.topics[topic_id].partition_count):
                    found.setdefault(partition, set()).add(member.member_id)
        return found


def partitions(topic_id: str, count: int) -> list[TopicIdPartition]:
    return [TopicIdPartition(TopicId(topic_id), PartitionId(number)) for number in range(count)]


def loads(assignment: Assignment) -> list[int]:
    return sorted(len(each) for each in assignment.values())


def moved(problem: Problem, assignment: Assignment) -> set[TopicIdPartition]:
    """What a member still wants, had, and has no longer."""
    wanted = problem.wanted
    return {
        partition
        for member in problem.members
        for partition in member.target
        if member.member_id in wanted.get(partition, ()) and partition not in assignment[member.member_id]
    }


def assert_complete(problem: Problem, assignment: Assignment) -> None:
    """Each partition that is wanted has one owner, who wants it, and nothing else has any."""
    assert assignment.keys() == {member.member_id for member in problem.members}
    owned = sorted(partition for each in assignment.values() for partition in each)
    assert owned == sorted(problem.wanted)
    for member_id, mine in assignment.items():
        assert all(member_id in problem.wanted[partition] for partition in mine)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    members_max: int = 6,
    topics_max: int = 4,
    partitions_max: int = 7,
    all_alike: bool = False,
    with_racks: bool = False,
) -> Problem:
    """What members had before is whatever it is, also of topics that are gone or not wanted any more."""
    counts = draw(st.lists(st.integers(1, partitions_max), min_size=1, max_size=topics_max))
    # One number in place of many choices: drawing each of them costs more than all that is tested.
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    topics = {}
    for number, count in enumerate(counts):
        racks = tuple(frozenset(rng.sample(RACKS, rng.randrange(3))) for _ in range(count))
        topics[TopicId(f"topic-{number}")] = AssignableTopic(count, racks if with_racks else ())
    ids = sorted(topics)
    names = [f"member-{number}" for number in range(draw(st.integers(1, members_max)))]
    # Some had much and some had nothing, more often than by chance alone.
    likely = draw(st.lists(st.sampled_from(("", *names)), min_size=1, max_size=4))
    every = [partition for topic_id in (*ids, "gone") for partition in partitions(topic_id, partitions_max)]
    owners = {partition: rng.choice(likely) for partition in every}
    common = _wish(rng, ids) or tuple(ids)
    members = []
    for name in names:
        wish = common if all_alike else _wish(rng, ids)
        rack = rng.choice(("", *RACKS)) if with_racks else ""
        had = frozenset(partition for partition, owner in owners.items() if owner == name)
        members.append(AssignableMember(name, wish, rack, had))
    return Problem(members, topics)


def _wish(rng: random.Random, ids: Sequence[TopicId]) -> tuple[TopicId, ...]:
    return tuple(sorted(rng.sample(ids, rng.randint(0, len(ids)))))
