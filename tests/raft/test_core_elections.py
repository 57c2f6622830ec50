"""Elections: one leader per term, with every committed entry, and none without need."""

from __future__ import annotations

import pytest

from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.messages import (
    AppendRequest,
    AppendResponse,
    Envelope,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.ready import HardState, PeerGone, Persisted, Received, Role
from tests.raft.core_harness import (
    LONG_S,
    TIMING,
    Node,
    Quorum,
    acknowledged,
    all_of,
    append,
    key,
    messages_to,
    no_vote,
    only,
    restored,
    vote,
    vote_request,
    voters,
)


def test_a_time_out_asks_for_pre_votes_without_changing_the_term() -> None:
    node = Node(restored(term=4))
    ready = node.after(LONG_S)
    requests = all_of(VoteRequest, ready)
    assert [(request.term, request.is_pre_vote) for request in requests] == [(5, True), (5, True)]
    assert node.role() is Role.PRE_CANDIDATE
    assert node.core.term == 4
    assert ready.hard_state is None


def test_a_candidate_asks_only_after_its_own_vote_is_durable() -> None:
    node = Node()
    node.after(LONG_S)
    ready = node.hear(2, vote(1, is_pre_vote=True))
    assert ready.hard_state == HardState(Term(1), key(1))
    assert ready.send_now == ()
    requests = [envelope.message for envelope in ready.send_after_persist]
    assert [type(request) for request in requests] == [VoteRequest, VoteRequest]


def test_a_candidate_counts_itself_only_once_its_vote_is_durable() -> None:
    node = Node()
    node.after(LONG_S)
    asked = node.hear(2, vote(1, is_pre_vote=True))
    node.hear(2, vote(1))
    assert node.role() is Role.CANDIDATE
    node.step(Persisted(asked.sequence))
    assert node.role() is Role.LEADER


def test_the_only_voter_leads_once_its_vote_is_durable() -> None:
    node = Node(restored(members=voters(1)))
    ready = node.after(LONG_S)
    assert ready.hard_state == HardState(Term(1), key(1))
    assert node.role() is Role.CANDIDATE
    node.persist()
    assert node.role() is Role.LEADER
    assert node.core.commit_index == 0
    node.persist()
    assert node.core.commit_index == 1


def test_a_candidate_with_a_slow_disk_does_not_start_over_before_it_could_ask() -> None:
    node = Node()
    node.after(LONG_S)
    asked = node.hear(2, vote(1, is_pre_vote=True))
    for _ in range(3):
        assert all_of(VoteRequest, node.after(LONG_S)) == []
    assert (node.role(), node.core.term) == (Role.CANDIDATE, 1)
    node.ready = asked
    node.persist()
    assert node.ready.next_deadline >= node.now + TIMING.election_timeout_min_s, "now the others have time"
    node.hear(3, vote(1))
    assert node.role() is Role.LEADER


def test_a_vote_is_told_only_after_it_is_durable() -> None:
    node = Node()
    ready = node.hear(2, vote_request(1))
    assert ready.hard_state == HardState(Term(1), key(2))
    assert ready.send_now == ()
    assert messages_to(2, ready.send_after_persist) == [vote(1)]


def test_a_voter_gives_one_vote_per_term() -> None:
    node = Node()
    node.hear(2, vote_request(1))
    assert all_of(VoteResponse, node.hear(3, vote_request(1))) == [no_vote(1)]
    assert all_of(VoteResponse, node.hear(2, vote_request(1))) == [vote(1)], "the same one may be told again"
    assert all_of(VoteResponse, node.hear(3, vote_request(2))) == [vote(2)]


def test_a_vote_outlives_a_restart() -> None:
    node = Node(restored(term=3, vote=key(2)))
    assert all_of(VoteResponse, node.hear(3, vote_request(3))) == [no_vote(3)]


@pytest.mark.parametrize("is_pre_vote", [False, True])
@pytest.mark.parametrize(
    ("last", "is_granted"),
    [
        ((3, 2), True),  # the same log
        ((4, 2), True),  # longer in the same term
        ((2, 2), False),  # shorter in the same term
        ((1, 3), True),  # a later last term wins over length
        ((9, 1), False),  # and an earlier one loses, whatever its length
        ((0, 0), False),
    ],
)
def test_only_a_log_that_is_up_to_date_is_voted_for(
    last: tuple[int, int], is_granted: bool, is_pre_vote: bool
) -> None:
    node = Node(restored((1, 2, 2)))
    response = only(
        VoteResponse, all_of(VoteResponse, node.hear(2, vote_request(5, last, is_pre_vote=is_pre_vote)))
    )
    assert response.is_granted is is_granted


def test_a_pre_vote_changes_nothing_for_the_one_who_is_asked() -> None:
    node = Node(restored(term=3))
    deadline = node.ready.next_deadline
    ready = node.hear(2, vote_request(9, is_pre_vote=True))
    assert messages_to(2, ready.send_now) == [vote(9, is_pre_vote=True)]
    assert ready.hard_state is None
    assert ready.next_deadline == deadline
    assert node.core.term == 3
    assert all_of(VoteResponse, node.hear(3, vote_request(9, is_pre_vote=True))) == [
        vote(9, is_pre_vote=True)
    ]


def test_granted_pre_votes_are_not_counted_as_votes() -> None:
    node = Node()
    node.after(LONG_S)
    node.hear(2, vote(1, is_pre_vote=True))
    node.hear(3, vote(1, is_pre_vote=True))
    node.persist()
    assert node.role() is Role.CANDIDATE


def test_votes_of_an_earlier_election_are_not_counted() -> None:
    node = Node()
    node.after(LONG_S)
    node.hear(2, vote(1, is_pre_vote=True))
    node.persist()
    node.after(LONG_S)
    node.hear(2, vote(2, is_pre_vote=True))
    node.persist()
    assert node.core.term == 2
    node.hear(2, vote(1))
    assert node.role() is Role.CANDIDATE
    node.hear(2, vote(2))
    assert node.role() is Role.LEADER


def test_a_vote_heard_twice_counts_once() -> None:
    node = Node(restored(members=voters(1, 2, 3, 4, 5)))
    node.after(LONG_S)
    node.hear(2, vote(1, is_pre_vote=True))
    node.hear(2, vote(1, is_pre_vote=True))
    assert node.role() is Role.PRE_CANDIDATE
    node.hear(3, vote(1, is_pre_vote=True))
    node.persist()
    node.hear(2, vote(1))
    node.hear(2, vote(1))
    assert node.role() is Role.CANDIDATE


def test_votes_of_strangers_and_of_reformatted_disks_are_not_counted() -> None:
    node = Node()
    node.after(LONG_S)
    node.hear(key(2, "other directory"), vote(1, is_pre_vote=True))
    node.hear(key(7), vote(1, is_pre_vote=True))
    assert node.role() is Role.PRE_CANDIDATE
    node.hear(2, vote(1, is_pre_vote=True))
    node.persist()
    node.hear(key(3, "other directory"), vote(1))
    assert node.role() is Role.CANDIDATE


def test_a_node_that_is_no_voter_never_campaigns_and_still_votes() -> None:
    node = Node(restored(members=voters(2, 3, 4)))
    for _ in range(5):
        assert all_of(VoteRequest, node.after(LONG_S)) == []
    assert all_of(VoteResponse, node.hear(2, vote_request(1))) == [vote(1)]


def test_a_candidate_that_most_refuse_gives_up() -> None:
    node = Node()
    node.after(LONG_S)
    node.hear(2, no_vote(0, is_pre_vote=True))
    assert node.role() is Role.PRE_CANDIDATE
    node.hear(3, no_vote(0, is_pre_vote=True))
    assert node.role() is Role.FOLLOWER


# --- calm ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_follower_that_hears_its_leader_ignores_candidates(is_pre_vote: bool) -> None:
    node = Node()
    node.hear(2, append(1))
    ready = node.hear(3, vote_request(9, (9, 9), is_pre_vote=is_pre_vote))
    assert all_of(VoteResponse, ready) == []
    assert node.core.term == 1
    node.now += TIMING.election_timeout_min_s
    assert all_of(VoteResponse, node.hear(3, vote_request(9, (9, 9), is_pre_vote=is_pre_vote))) != []


def test_a_leader_ignores_candidates_unless_it_asked_for_the_election() -> None:
    node = Node()
    node.lead()
    node.hear(3, vote_request(9, (9, 9)))
    assert node.role() is Role.LEADER
    node.hear(3, vote_request(9, (9, 9), is_transfer=True))
    assert node.role() is Role.FOLLOWER
    assert node.core.term == 9


def test_a_leader_that_hears_no_majority_resigns_within_an_election_time_out() -> None:
    node = Node()
    node.lead()
    node.after(TIMING.election_timeout_max_s - 0.01)
    node.hear(3, acknowledged(1, 0, round_=node.round))
    node.after(TIMING.election_timeout_max_s - 0.01)
    assert node.role() is Role.LEADER
    node.after(0.02)
    assert node.role() is Role.FOLLOWER
    assert node.core.leader is None
    assert node.core.term == 1


def test_a_leader_resumed_from_a_pause_resigns_before_it_hears_anything() -> None:
    node = Node()
    node.lead()
    node.now += 60
    ready = node.propose(b"late")
    assert node.role() is Role.FOLLOWER
    assert [answer.reason for answer in ready.answers] == ["not the leader"]


def test_a_follower_restarts_its_timer_for_a_leader_whose_entries_it_cannot_take() -> None:
    """Else it campaigns, loses, and what that costs keeps it from catching up (Redpanda 30815)."""
    node = Node()
    for _ in range(10):
        node.now += TIMING.election_timeout_min_s * 0.9
        response = only(AppendResponse, all_of(AppendResponse, node.hear(2, append(1, (50, 1)))))
        assert not response.is_success
        assert all_of(VoteRequest, node.after(0)) == []
    assert node.role() is Role.FOLLOWER


def test_a_voter_in_a_higher_term_than_a_living_leader_deposes_it_and_follows_again() -> None:
    """Its requests for votes are ignored, so its refusals have to carry the news."""
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.step(3, Received(Envelope(key(1), key(3), 1, TimeoutNow(Term(1)))))
    assert quorum.core(3).term == 2
    quorum.heal()
    quorum.run(10)
    assert len(quorum.leaders()) == 1
    assert len({quorum.core(number).term for number in (1, 2, 3)}) == 1
    assert all(quorum.core(number).leader == key(quorum.leaders()[0]) for number in (1, 2, 3))


def test_the_best_log_in_a_low_term_wins_over_a_bad_one_in_a_high_term() -> None:
    """A refused pre-vote teaches the term; else the only electable voter would be refused for ever."""
    starts = {1: restored((1, 1, 1), term=1), 2: restored((1,), term=9)}
    quorum = Quorum(1, 2, 3, starts=starts)
    quorum.cut_off(3)
    quorum.run(20)
    assert quorum.leaders() == [1]


def test_equal_pre_candidates_do_not_starve_each_other() -> None:
    for numbers in ((1, 2, 3), (1, 2, 3, 4, 5)):
        quorum = Quorum(*numbers)
        quorum.now += LONG_S
        quorum.run(20)
        assert len(quorum.leaders()) == 1


def test_a_voter_cut_off_for_long_comes_back_without_a_new_election() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.run(30)
    quorum.heal()
    quorum.run(5)
    assert quorum.leaders() == [1]
    assert {quorum.core(number).term for number in (1, 2, 3)} == {1}


def test_a_removed_leaderless_voter_knows_no_leader_after_a_time_out() -> None:
    node = Node(restored(members=voters(2, 3)))
    node.hear(2, append(1))
    assert node.core.leader == key(2)
    node.after(LONG_S)
    assert node.core.leader is None


def test_a_pre_candidate_that_votes_gives_up_its_own_question() -> None:
    node = Node(restored(term=1))
    node.after(LONG_S)
    assert all_of(VoteResponse, node.hear(2, vote_request(1))) == [vote(1)]
    assert node.role() is Role.FOLLOWER
    node.hear(3, vote(2, is_pre_vote=True))
    assert node.core.term == 1


def test_a_candidate_follows_the_leader_of_its_term() -> None:
    node = Node()
    node.after(LONG_S)
    node.hear(2, vote(1, is_pre_vote=True))
    assert node.role() is Role.CANDIDATE
    node.hear(3, append(1))
    assert node.role() is Role.FOLLOWER
    assert node.core.leader == key(3)


def test_a_new_leader_opens_its_term_with_a_no_op_at_once() -> None:
    node = Node(restored((1, 1)))
    ready = node.lead()
    request = only(AppendRequest, messages_to(3, ready.send_now))
    assert [(entry.index, entry.term, entry.kind.name) for entry in request.entries] == [(3, 2, "NOOP")]
    assert (request.previous_index, request.previous_term) == (2, 1)
    assert ready.soft_state.term_start == 3


def test_election_time_outs_are_drawn_anew_within_their_bounds() -> None:
    node = Node()
    drawn = {node.hear(2, append(1)).next_deadline - node.now for _ in range(50)}
    assert len(drawn) > 40
    assert min(drawn) >= TIMING.election_timeout_min_s
    assert max(drawn) <= TIMING.election_timeout_max_s


def test_answers_that_were_long_on_their_way_do_not_keep_a_leader_in_office() -> None:
    """They show that it was followed once; a new leader may have been elected since (rule 40)."""
    node = Node()
    node.lead()
    old_round = node.round
    for _ in range(8):
        node.after(TIMING.election_timeout_max_s / 4)
        if node.role() is Role.LEADER:
            node.hear(3, acknowledged(1, 0, round_=old_round))
    assert node.role() is not Role.LEADER


def test_voters_that_see_the_leader_gone_do_not_wait_for_the_time_out() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(1)
    for number in (2, 3):
        quorum.step(number, PeerGone(key(1)))
    quorum.run(TIMING.election_timeout_min_s / 2, except_for=[1])
    assert [number for number in quorum.leaders() if number != 1] in ([2], [3])


def test_one_that_sees_the_leader_gone_cannot_depose_it_while_the_others_hear_it() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.step(2, PeerGone(key(1)))
    quorum.run(LONG_S)
    assert quorum.leaders() == [1]
    assert quorum.core(1).term == quorum.core(2).term == 1


def test_the_end_of_another_voter_than_the_leader_is_no_reason_to_ask() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.step(2, PeerGone(key(3)))
    assert quorum.core(2).leader == key(1)
