"""A follower: what it takes, what it keeps, and what it says that it has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from quorate.metadata.raft.entries import NO_TERM, Index, SnapshotId, Term
from quorate.metadata.raft.messages import AppendResponse, Envelope
from quorate.metadata.raft.ready import Persisted, Received, Role
from tests.raft.core_harness import (
    Node,
    Quorum,
    acknowledged,
    all_of,
    append,
    entry,
    key,
    log,
    messages_to,
    rejected,
    restored,
    vote_request,
    voters,
    voters_entry,
)


def test_entries_are_acknowledged_only_after_they_are_durable() -> None:
    node = Node()
    ready = node.hear(2, append(1, entries=log(1, 1)))
    assert ready.entries == log(1, 1)
    assert ready.send_now == ()
    assert messages_to(2, ready.send_after_persist) == [acknowledged(1, 2)]


def test_a_heartbeat_is_answered_at_once_with_what_is_durable() -> None:
    node = Node()
    node.hear(2, append(1))
    node.persist()
    written = node.hear(2, append(1, entries=log(1, 1)))
    ready = node.hear(2, append(1, (2, 1), round_=5))
    assert messages_to(2, ready.send_now) == [acknowledged(1, 0, round_=5)]
    node.ready = written
    node.persist()
    ready = node.hear(2, append(1, (2, 1), round_=6))
    assert messages_to(2, ready.send_now) == [acknowledged(1, 2, round_=6)]


def test_a_heartbeat_of_a_new_term_is_answered_once_the_term_is_durable() -> None:
    node = Node()
    ready = node.hear(2, append(7))
    assert ready.hard_state is not None
    assert ready.send_now == ()
    assert messages_to(2, ready.send_after_persist) == [acknowledged(7, 0)]


def test_an_old_leader_is_refused_and_learns_the_term() -> None:
    node = Node(restored((1, 1), term=5))
    ready = node.hear(2, append(4, (2, 1), log(4, after=2), round_=9))
    assert node.terms() == [1, 1]
    assert node.core.leader is None
    # Round 0: it may have become the leader of term 5 since, and must not take this for an echo.
    assert all_of(AppendResponse, ready) == [rejected(5, 0, NO_TERM, round_=0)]


#: Figure 7 of the Raft paper: the leader of term 8 holds these entries
LEADER_LOG = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)


@pytest.mark.parametrize(
    "terms",
    [
        (1, 1, 1, 4, 4, 5, 5, 6, 6),
        (1, 1, 1, 4),
        (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
        (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
        (1, 1, 1, 4, 4, 4, 4),
        (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
        (),
        LEADER_LOG,
    ],
)
def test_any_log_ends_up_as_the_leaders_after_a_hint_per_term(terms: Sequence[int]) -> None:
    starts = {1: restored(LEADER_LOG, term=7), 2: restored(terms, term=7), 3: restored(term=7)}
    quorum = Quorum(1, 2, 3, starts=starts)
    refusals = []

    def watch(envelope: Envelope) -> bool:
        message = envelope.message
        if envelope.sender == key(2) and isinstance(message, AppendResponse) and not message.is_success:
            refusals.append(message)
        return True

    quorum.is_delivered = watch
    quorum.elect(1)
    quorum.run(1)
    assert [entry.term for entry in quorum[2].journal] == [*LEADER_LOG, 8]
    assert len(refusals) <= 3
    assert [entry.term for entry in quorum[2].applied] == [*LEADER_LOG, 8]


def test_a_late_request_does_not_cut_what_came_after_it() -> None:
    """What pysyncobj gets wrong: an entry that matches is left alone, and so is what follows it."""
    node = Node()
    node.hear(2, append(1, entries=log(1, 1, 1)))
    ready = node.hear(2, append(1, entries=log(1)))
    assert node.terms() == [1, 1, 1]
    assert ready.entries == ()
    assert all_of(AppendResponse, ready) == [acknowledged(1, 3)]


def test_entries_are_cut_only_where_a_term_differs() -> None:
    node = Node(restored((1, 1, 1, 1)))
    ready = node.hear(2, append(2, (1, 1), (entry(2, 1), entry(3, 2))))
    assert node.terms() == [1, 1, 2]
    assert ready.entries == (entry(3, 2),), "the first is the only one that replaces anything"
    assert all_of(AppendResponse, ready) == [acknowledged(2, 3)]


def test_requests_in_any_order_give_the_same_log() -> None:
    requests = [append(1, (index, min(index, 1)), log(1, after=index), commit=index) for index in range(4)]
    for order in itertools.permutations(requests):
        node = Node()
        for request in (*order, *order, *order, *order):  # the leader sends again what was refused
            node.hear(2, request)
        node.persist()
        assert node.terms() == [1, 1, 1, 1]
        assert node.core.commit_index == 3


def test_a_gap_is_refused_with_the_end_of_the_log_as_a_hint() -> None:
    node = Node(restored((1, 1)))
    assert all_of(AppendResponse, node.hear(2, append(3, (9, 3)))) == [rejected(3, 2, 1)]


def test_a_conflict_is_refused_with_the_last_entry_of_a_term_that_may_be_common() -> None:
    node = Node(restored((1, 1, 4, 4, 4)))
    assert all_of(AppendResponse, node.hear(2, append(5, (5, 3)))) == [rejected(5, 2, 1)]


def test_the_commit_index_never_passes_what_matches_the_leaders_log() -> None:
    node = Node(restored((1, 1, 1, 1)))
    node.hear(2, append(2, (2, 1), commit=4))
    assert node.core.commit_index == 2, "entries 3 and 4 are not known to be the leader's"
    node.hear(2, append(2, (2, 1), (entry(3, 2),), commit=4))
    assert node.core.commit_index == 3


def test_what_matched_one_leader_says_nothing_of_the_next() -> None:
    node = Node()
    node.hear(2, append(1, entries=log(1, 1, 1)))
    node.hear(3, append(2, (1, 1), commit=3))
    assert node.core.commit_index == 1


def test_the_commit_index_does_not_move_back() -> None:
    node = Node(restored((1, 1, 1)))
    node.hear(2, append(1, (3, 1), commit=3))
    node.hear(2, append(1, (1, 1), commit=1))
    assert node.core.commit_index == 3


def test_committed_entries_are_handed_out_in_order_and_once_they_are_durable() -> None:
    node = Node()
    ready = node.hear(2, append(1, entries=log(1, 1), commit=2))
    assert node.core.commit_index == 2
    assert ready.committed == ()
    assert node.persist().committed == log(1, 1)
    assert node.persist().committed == ()


def test_a_write_under_way_does_not_make_durable_what_replaced_its_entries() -> None:
    node = Node(restored((1,)))
    old = node.hear(2, append(1, (1, 1), log(1, 1, after=1)))
    new = node.hear(3, append(2, (1, 1), (entry(2, 2), entry(3, 2)), commit=3))
    assert new.committed == (entry(1, 1),)
    assert node.step(Persisted(old.sequence)).committed == ()
    assert node.core.durable_index == 1
    assert node.step(Persisted(new.sequence)).committed == (entry(2, 2), entry(3, 2))


def test_a_committed_entry_is_never_cut() -> None:
    node = Node(restored((1, 1)))
    node.hear(2, append(1, (2, 1), commit=2))
    with pytest.raises(AssertionError, match="committed"):
        node.hear(3, append(2, (1, 1), (entry(2, 2),)))


def test_voters_are_in_force_with_their_entry_and_until_it_is_cut() -> None:
    node = Node(restored((1,)))
    node.hear(2, append(1, (1, 1), (voters_entry(2, 1, 1, 2, 3, 4),)))
    assert node.core.voters == voters(1, 2, 3, 4)
    assert node.core.committed_voters == voters(1, 2, 3)
    node.hear(3, append(2, (1, 1), (entry(2, 2),)))
    assert node.core.voters == voters(1, 2, 3)


def test_what_is_sent_to_another_directory_of_this_node_is_not_heard() -> None:
    node = Node()
    for message in (vote_request(5), append(5)):
        ready = node.step(Received(Envelope(key(2), key(1, "before it was formatted"), 1, message)))
        assert (ready.send_now, ready.send_after_persist) == ((), ())
    assert node.core.term == 0


def test_a_second_leader_in_one_term_is_not_followed() -> None:
    node = Node()
    node.lead()
    node.hear(3, append(1, entries=log(1, 1, 1), commit=3))
    assert node.role() is Role.LEADER
    assert node.core.commit_index == 0


def test_requests_that_reach_below_what_is_compacted_are_taken_from_there_on() -> None:
    start = restored((3,), base=SnapshotId(Index(5), Term(2)))
    node = Node(start)
    ready = node.hear(2, append(3, (3, 2), (entry(4, 2), entry(5, 2), entry(6, 3), entry(7, 3))))
    assert node.terms() == [3, 3]
    assert all_of(AppendResponse, ready) == [acknowledged(3, 7)]
