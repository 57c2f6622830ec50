"""Handing leadership over."""

from __future__ import annotations

from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.messages import AppendRequest, TimeoutNow, VoteRequest
from quorate.metadata.raft.ready import AddVoter, Outcome, Role, Transfer
from tests.raft.core_harness import (
    TIMING,
    Node,
    Quorum,
    acknowledged,
    all_of,
    append,
    key,
    messages_to,
    restored,
    voter,
)


def leading() -> Node:
    node = Node()
    node.lead()
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    return node


def test_leadership_goes_to_the_voter_that_was_named() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.propose(1, b"x")
    quorum.step(1, Transfer(key(3)))
    assert quorum.leaders() == [3]
    assert {quorum.core(number).term for number in (1, 2, 3)} == {2}


def test_leadership_goes_to_the_one_that_is_furthest_where_none_is_named() -> None:
    node = leading()
    node.propose(b"x")
    node.hear(3, acknowledged(1, 2))
    ready = node.step(Transfer(None))
    assert messages_to(3, ready.send_now) == [TimeoutNow(Term(1))]


def test_the_target_is_told_once_it_has_everything_and_again_with_heartbeats() -> None:
    node = leading()
    node.propose(b"x")
    assert all_of(TimeoutNow, node.step(Transfer(key(2)))) == []
    assert all_of(TimeoutNow, node.hear(2, acknowledged(1, 2))) == [TimeoutNow(Term(1))]
    assert all_of(TimeoutNow, node.hear(2, acknowledged(1, 2))) == []
    assert all_of(TimeoutNow, node.after(TIMING.heartbeat_s)) == [TimeoutNow(Term(1))]


def test_nothing_new_is_taken_until_the_transfer_is_over() -> None:
    node = leading()
    node.step(Transfer(key(2)))
    assert [answer.outcome for answer in node.propose(b"x").answers] == [Outcome.REFUSED]
    assert [answer.outcome for answer in node.step(AddVoter(9, voter(4))).answers] == [Outcome.REFUSED]
    for _ in range(8):
        node.after(TIMING.heartbeat_s)
        node.hear(3, acknowledged(1, 1, round_=node.round))
    assert node.role() is Role.LEADER
    assert node.propose(b"x").answers == (), "an election time-out has passed: it was not to be"


def test_a_transfer_to_somebody_who_cannot_lead_does_nothing() -> None:
    node = leading()
    for target in (key(1), key(9), key(2, "other directory")):
        assert all_of(TimeoutNow, node.step(Transfer(target))) == []
        assert node.propose(b"x").answers == ()
    node.hear(3, acknowledged(1, 0, is_counted=False), incarnation=2)
    assert all_of(TimeoutNow, node.step(Transfer(key(3)))) == []
    assert node.propose(b"x").answers == ()


def test_the_target_asks_at_once_and_without_a_pre_vote() -> None:
    node = Node()
    node.hear(2, append(1))
    ready = node.hear(2, TimeoutNow(Term(1)))
    requests = all_of(VoteRequest, ready)
    assert [(request.term, request.is_pre_vote, request.is_transfer) for request in requests] == [
        (2, False, True)
    ] * 2


def test_a_late_word_of_a_transfer_changes_nothing() -> None:
    node = Node(restored(term=3))
    assert all_of(VoteRequest, node.hear(2, TimeoutNow(Term(2)))) == []
    recovering = Node(restored(term=3, is_recovering=True))
    assert all_of(VoteRequest, recovering.hear(2, TimeoutNow(Term(3)))) == []


def test_the_target_gets_what_it_lacks_first() -> None:
    node = Node()
    node.lead(3)
    node.hear(3, acknowledged(1, 1))
    ready = node.step(Transfer(key(2)))
    assert all_of(TimeoutNow, ready) == []
    ready = node.hear(2, acknowledged(1, 0))
    assert [
        len(message.entries)
        for message in messages_to(2, ready.send_now)
        if isinstance(message, AppendRequest)
    ][:1] == [1]
