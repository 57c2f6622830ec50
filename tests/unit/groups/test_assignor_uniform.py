"""The uniform assignor: complete, as equal as can be, and as still as that allows."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.assignors import AssignableMember, AssignableTopic
from quorate.broker.groups.assignors.uniform import assign_uniform
from quorate.core.ids import TopicId
from tests.unit.groups.assignor_problems import (
    RACKS,
    Problem,
    assert_complete,
    loads,
    moved,
    partitions,
    problems,
)

X, Y = TopicId("x"), TopicId("y")


@given(problems(with_racks=True))
def test_every_partition_that_is_wanted_has_one_owner_who_wants_it(problem: Problem) -> None:
    assert_complete(problem, assign_uniform(*problem))


@given(problems(all_alike=True, with_racks=True))
def test_members_who_want_the_same_differ_by_one_at_most(problem: Problem) -> None:
    numbers = loads(assign_uniform(*problem))
    assert numbers[-1] - numbers[0] <= 1


@given(problems(all_alike=True, with_racks=True))
def test_nothing_moves_that_need_not(problem: Problem) -> None:
    wanted = problem.wanted
    had = [sum(partition in wanted for partition in member.target) for member in problem.members]
    share, odd = divmod(len(wanted), len(had))
    too_many = sum(max(0, number - share - (odd > 0)) for number in had)
    # What nobody had fills up those who lack something, before anybody has to give.
    lacking = sum(max(0, share - number) for number in had) - (len(wanted) - sum(had))
    assert len(moved(problem, assign_uniform(*problem))) == max(too_many, lacking, _odd_ones(had, share, odd))


def _odd_ones(had: list[int], share: int, odd: int) -> int:
    """Of those who have one more than the share, only as many can keep it as there are odd ones."""
    return sum(max(0, number - share) for number in had) - odd


@given(problems(members_max=3, topics_max=3, partitions_max=2))
def test_with_different_wishes_it_is_as_equal_as_it_can_be(problem: Problem) -> None:
    choices = [sorted(wanting) for wanting in problem.wanted.values()]
    names = [member.member_id for member in problem.members]
    best = min(sum(choice.count(name) ** 2 for name in names) for choice in product(*choices))
    assert sum(number**2 for number in loads(assign_uniform(*problem))) == best


@given(problems(with_racks=True))
def test_nobody_has_two_more_than_another_who_wants_one_of_them(problem: Problem) -> None:
    assignment = assign_uniform(*problem)
    for partition, wanting in problem.wanted.items():
        owner = next(name for name in wanting if partition in assignment[name])
        fewest = min(len(assignment[name]) for name in wanting)
        assert len(assignment[owner]) - fewest <= 1


@given(problems(with_racks=True))
def test_what_is_as_it_should_be_stays(problem: Problem) -> None:
    assignment = assign_uniform(*problem)
    assert assign_uniform(*problem.with_targets(assignment)) == assignment


@given(problems(all_alike=True))
def test_a_newcomer_takes_and_nothing_moves_between_the_others(problem: Problem) -> None:
    settled = problem.with_targets(assign_uniform(*problem))
    newcomer = AssignableMember("newcomer", settled.members[0].topic_ids, "", frozenset())
    assignment = assign_uniform([*settled.members, newcomer], settled.topics)
    assert moved(settled, assignment) == assignment["newcomer"]


@given(problems(all_alike=True, members_max=5))
def test_who_leaves_leaves_its_partitions_and_the_others_keep_theirs(problem: Problem) -> None:
    settled = problem.with_targets(assign_uniform(*problem))
    rest = settled.without("member-0")
    if rest.members:
        assert moved(rest, assign_uniform(*rest)) == set()


@given(problems(all_alike=True, with_racks=True))
def test_racks_cost_neither_balance_nor_movement(problem: Problem) -> None:
    blind = problem.without_racks()
    assignment, without = assign_uniform(*problem), assign_uniform(*blind)
    assert loads(assignment) == loads(without)
    assert len(moved(problem, assignment)) == len(moved(blind, without))


def test_members_get_what_is_near_where_that_is_possible() -> None:
    # Partition by partition in one rack, in an order in which taking turns would miss.
    racks = tuple(frozenset({rack}) for rack in RACKS for _ in range(4))
    members = [AssignableMember(f"m-{rack}", (X,), rack, frozenset()) for rack in reversed(RACKS)]
    assignment = assign_uniform(members, {X: AssignableTopic(12, racks)})
    for member in members:
        assert {racks[number] for _, number in assignment[member.member_id]} == {frozenset({member.rack})}


def test_what_is_given_away_is_what_is_far() -> None:
    racks = tuple(frozenset({rack}) for rack in ("east", "west", "east", "west"))
    before = AssignableMember("a", (X,), "east", frozenset(partitions(X, 4)))
    newcomer = AssignableMember("b", (X,), "west", frozenset())
    assignment = assign_uniform([before, newcomer], {X: AssignableTopic(4, racks)})
    assert sorted(number for _, number in assignment["b"]) == [1, 3]


def test_partitions_are_handed_on_through_others() -> None:
    """A has three of x, B two of y, C one of y: no two who share a topic differ by two, and yet."""
    members = [
        AssignableMember("a", (X,), "", frozenset(partitions(X, 3))),
        AssignableMember("b", (X, Y), "", frozenset(partitions(Y, 3)[:2])),
        AssignableMember("c", (Y,), "", frozenset(partitions(Y, 3)[2:])),
    ]
    assignment = assign_uniform(members, {X: AssignableTopic(3), Y: AssignableTopic(3)})
    assert loads(assignment) == [2, 2, 2]


def test_who_is_one_too_many_is_idle() -> None:
    members = [AssignableMember(f"m-{number}", (X,), "", frozenset()) for number in range(5)]
    assert loads(assign_uniform(members, {X: AssignableTopic(3)})) == [0, 0, 1, 1, 1]


@given(problems(with_racks=True), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(problem: Problem, rng: random.Random) -> None:
    shuffled = rng.sample(problem.members, len(problem.members))
    assert assign_uniform(shuffled, problem.topics) == assign_uniform(*problem)


_PROGRAM = """
from quorate.broker.groups.assignors import ASSIGNORS, AssignableMember, AssignableTopic
racks = tuple(frozenset(("r1", f"r{number % 3}")) for number in range(8))
topics = {f"t{number}": AssignableTopic(7 + number % 2, racks) for number in range(9)}
for assign in ASSIGNORS.values():
    targets = {}
    for count in (3, 8, 5):
        members = []
        for number in range(count):
            wish, had = tuple(sorted(topics)[number % 3 :]), targets.get(f"m{number}", frozenset())
            members.append(AssignableMember(f"m{number}", wish, f"r{number % 4}", had))
        targets = assign(members, topics)
        print([sorted(targets[name]) for name in sorted(targets)])
"""


def test_another_hash_seed_leads_to_the_same() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
