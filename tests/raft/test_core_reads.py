"""Read barriers: a read sees whatever was acknowledged before it was asked for."""

from __future__ import annotations

from quorate.metadata.raft.core import Limits
from quorate.metadata.raft.messages import AppendRequest
from quorate.metadata.raft.ready import Answer, Outcome, ReadBarrier
from tests.raft.core_harness import (
    TIMING,
    Node,
    Quorum,
    acknowledged,
    append,
    messages_to,
    rejected,
    restored,
    voters,
)


def leading() -> Node:
    """Its no-op is committed."""
    node = Node()
    node.lead()
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    return node


def outcomes(answers: tuple[Answer, ...]) -> list[tuple[int, Outcome, int]]:
    return [(answer.request_id, answer.outcome, answer.index) for answer in answers]


def round_sent(node: Node) -> int:
    found = messages_to(2, node.ready.send_now)
    return max(message.round for message in found if isinstance(message, AppendRequest))


def test_a_barrier_waits_for_the_echo_of_a_round_begun_after_it() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    asked = round_sent(node)
    assert node.hear(2, acknowledged(1, 1, round_=asked - 1)).answers == ()
    assert outcomes(node.hear(2, acknowledged(1, 1, round_=asked)).answers) == [(7, Outcome.DONE, 1)]


def test_a_refusal_of_entries_is_an_echo_as_well() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    ready = node.hear(2, rejected(1, 1, 1, round_=round_sent(node)))
    assert outcomes(ready.answers) == [(7, Outcome.DONE, 1)]


def test_a_barrier_needs_a_majority_of_echoes() -> None:
    node = Node(restored(members=voters(1, 2, 3, 4, 5)))
    node.lead(2, 3)
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    node.step(ReadBarrier(7))
    asked = round_sent(node)
    assert node.hear(2, acknowledged(1, 1, round_=asked)).answers == ()
    assert node.hear(2, acknowledged(1, 1, round_=asked)).answers == ()
    assert outcomes(node.hear(5, acknowledged(1, 1, round_=asked)).answers) == [(7, Outcome.DONE, 1)]


def test_a_barrier_waits_until_an_entry_of_the_own_term_is_committed() -> None:
    node = Node(restored((1, 1)))
    node.lead()
    node.step(ReadBarrier(7))
    assert node.hear(2, acknowledged(2, 2)).answers == ()
    node.hear(2, acknowledged(2, 3))
    ready = node.hear(2, acknowledged(2, 3, round_=round_sent(node)))
    assert outcomes(ready.answers) == [(7, Outcome.DONE, 3)]


def test_barriers_that_come_during_a_round_take_the_next_one_together() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    first = round_sent(node)
    node.step(ReadBarrier(8))
    node.step(ReadBarrier(9))
    assert node.ready.send_now == ()
    ready = node.hear(2, acknowledged(1, 1, round_=first))
    assert outcomes(ready.answers) == [(7, Outcome.DONE, 1)]
    second = round_sent(node)
    assert second > first
    ready = node.hear(3, acknowledged(1, 1, round_=second))
    assert outcomes(ready.answers) == [(8, Outcome.DONE, 1), (9, Outcome.DONE, 1)]


def test_the_echo_of_a_later_heartbeat_serves_for_a_lost_one() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    node.after(TIMING.heartbeat_s)
    ready = node.hear(2, acknowledged(1, 1, round_=round_sent(node)))
    assert outcomes(ready.answers) == [(7, Outcome.DONE, 1)]


def test_the_echo_of_a_voter_that_must_not_be_counted_is_none() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    asked = round_sent(node)
    ready = node.hear(2, acknowledged(1, 0, round_=asked, is_counted=False), incarnation=2)
    assert ready.answers == ()


def test_a_follower_refuses_barriers() -> None:
    node = Node()
    assert outcomes(node.step(ReadBarrier(7)).answers) == [(7, Outcome.REFUSED, 0)]


def test_barriers_are_refused_when_leadership_is_lost() -> None:
    node = leading()
    node.step(ReadBarrier(7))
    node.step(ReadBarrier(8))
    ready = node.hear(3, append(2))
    assert outcomes(ready.answers) == [(7, Outcome.REFUSED, 0), (8, Outcome.REFUSED, 0)]


def test_the_only_voter_needs_nobodys_echo() -> None:
    quorum = Quorum(1)
    quorum.elect(1)
    quorum.step(1, ReadBarrier(7))
    assert outcomes(tuple(quorum[1].answers)) == [(7, Outcome.DONE, 1)]


def test_barriers_beyond_the_bound_are_refused() -> None:
    node = Node(limits=Limits(reads_max=2))
    node.lead()
    node.step(ReadBarrier(7))
    node.step(ReadBarrier(8))
    ready = node.step(ReadBarrier(9))
    assert outcomes(ready.answers) == [(9, Outcome.OVERLOADED, 0)]


def test_a_deposed_leader_that_does_not_know_it_answers_no_barrier() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(1)
    quorum.run(5, except_for=[1])
    new_leader = next(number for number in quorum.leaders() if number != 1)
    quorum.propose(new_leader, b"newer")
    quorum.now -= 5  # its clock has stood still: not even check-quorum tells it
    quorum.step(1, ReadBarrier(7))
    assert quorum[1].answers == []
