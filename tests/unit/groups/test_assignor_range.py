"""The range assignor: the same number of different topics goes to the same member."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.assignors import AssignableMember, AssignableTopic, Assignment
from quorate.broker.groups.assignors.range_assignor import assign_range
from quorate.core.ids import TopicId
from tests.unit.groups.assignor_problems import RACKS, Problem, assert_complete, moved, partitions, problems

X, Y = TopicId("x"), TopicId("y")


def numbers(assignment: Assignment, member_id: str, topic_id: TopicId) -> list[int]:
    return sorted(number for topic, number in assignment[member_id] if topic == topic_id)


@given(problems(with_racks=True))
def test_every_partition_that_is_wanted_has_one_owner_who_wants_it(problem: Problem) -> None:
    assert_complete(problem, assign_range(*problem))


@given(problems(with_racks=True))
def test_topics_of_one_size_and_the_same_subscribers_are_given_row_by_row(problem: Problem) -> None:
    assignment = assign_range(*problem)
    tables: dict[tuple[frozenset[str], int], set[TopicId]] = {}
    for partition, wanting in problem.wanted.items():
        size = problem.topics[partition.topic_id].partition_count
        tables.setdefault((frozenset(wanting), size), set()).add(partition.topic_id)
    for (subscribers, _), topic_ids in tables.items():
        for member_id in subscribers:
            rows = [numbers(assignment, member_id, topic_id) for topic_id in sorted(topic_ids)]
            assert rows == [rows[0]] * len(rows)


@given(problems(with_racks=True))
def test_of_each_topic_all_who_want_it_have_equally_many_but_for_one(problem: Problem) -> None:
    assignment = assign_range(*problem)
    for topic_id in problem.topics:
        wanting = [member.member_id for member in problem.members if topic_id in member.topic_ids]
        counts = [len(numbers(assignment, member_id, topic_id)) for member_id in wanting]
        assert not counts or max(counts) - min(counts) <= 1


@given(problems(with_racks=True))
def test_what_is_as_it_should_be_stays(problem: Problem) -> None:
    assignment = assign_range(*problem)
    assert assign_range(*problem.with_targets(assignment)) == assignment


@given(problems(all_alike=True))
def test_a_newcomer_takes_and_nothing_moves_between_the_others(problem: Problem) -> None:
    settled = problem.with_targets(assign_range(*problem))
    newcomer = AssignableMember("newcomer", settled.members[0].topic_ids, "", frozenset())
    assignment = assign_range([*settled.members, newcomer], settled.topics)
    assert moved(settled, assignment) == assignment["newcomer"]


@given(problems(all_alike=True))
def test_who_leaves_leaves_its_partitions_and_the_others_keep_theirs(problem: Problem) -> None:
    settled = problem.with_targets(assign_range(*problem))
    rest = settled.without("member-0")
    if rest.members:
        assert moved(rest, assign_range(*rest)) == set()


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(problem: Problem, rng: random.Random) -> None:
    shuffled = rng.sample(problem.members, len(problem.members))
    assert assign_range(shuffled, problem.topics) == assign_range(*problem)


def test_neighbours_go_to_the_same_member() -> None:
    members = [AssignableMember(name, (X, Y), "", frozenset()) for name in ("a", "b", "c")]
    assignment = assign_range(members, {X: AssignableTopic(7), Y: AssignableTopic(7)})
    assert [numbers(assignment, name, X) for name in ("a", "b", "c")] == [[0, 1, 2], [3, 4], [5, 6]]


@given(problems(all_alike=True, with_racks=True))
def test_racks_cost_neither_balance_nor_movement(problem: Problem) -> None:
    blind = problem.without_racks()
    near, far = assign_range(*problem), assign_range(*blind)
    assert {name: len(mine) for name, mine in near.items()} == {name: len(mine) for name, mine in far.items()}
    assert len(moved(problem, near)) == len(moved(blind, far))


def test_a_row_goes_to_a_rack_with_a_replica_of_each_of_its_partitions() -> None:
    members = [
        AssignableMember(name, (X, Y), rack, frozenset()) for name, rack in zip("abc", RACKS, strict=True)
    ]
    of_x = tuple(frozenset({RACKS[number % 3]}) for number in range(6))
    of_y = tuple(frozenset(RACKS) for _ in range(6))
    assignment = assign_range(members, {X: AssignableTopic(6, of_x), Y: AssignableTopic(6, of_y)})
    for topic_id in (X, Y):
        assert [numbers(assignment, name, topic_id) for name in "abc"] == [[0, 3], [1, 4], [2, 5]]


def test_a_row_that_is_near_in_part_is_dealt_like_any_other() -> None:
    members = [
        AssignableMember(name, (X, Y), rack, frozenset()) for name, rack in zip("ab", RACKS, strict=False)
    ]
    of_x = tuple(frozenset({RACKS[1]}) for _ in range(4))
    of_y = tuple(frozenset({RACKS[2]}) for _ in range(4))
    assignment = assign_range(members, {X: AssignableTopic(4, of_x), Y: AssignableTopic(4, of_y)})
    assert [numbers(assignment, name, X) for name in "ab"] == [[0, 1], [2, 3]]


def test_the_odd_rows_of_different_tables_go_to_different_members() -> None:
    members = [AssignableMember(name, (X, Y), "", frozenset()) for name in ("a", "b", "c")]
    assignment = assign_range(members, {X: AssignableTopic(1), Y: AssignableTopic(2)})
    assert [len(assignment[name]) for name in ("a", "b", "c")] == [1, 1, 1]


def test_a_row_that_is_torn_goes_to_whoever_has_most_of_it() -> None:
    z = TopicId("z")
    topic_ids = (X, Y, z)
    had = {name: partitions(topic, 2) for name, topic in zip("aab", topic_ids, strict=True)}
    had["a"] = [*partitions(X, 2)[:1], *partitions(Y, 2)[1:]]
    had["b"] = [*partitions(X, 2)[1:], *partitions(Y, 2)[:1], *partitions(z, 2)[:1]]
    members = [AssignableMember(name, topic_ids, "", frozenset(had[name])) for name in ("a", "b")]
    assignment = assign_range(members, dict.fromkeys(topic_ids, AssignableTopic(2)))
    assert [numbers(assignment, "b", topic_id) for topic_id in topic_ids] == [[0]] * 3
