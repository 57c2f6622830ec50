"""Voters that lost part of their log, that were started anew, or put back from an old copy."""

from __future__ import annotations

from quorate.metadata.raft.core import ProgressState
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.messages import (
    AppendRequest,
    AppendResponse,
    CatchUpRequest,
    CatchUpResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.ready import HardState, Outcome, Role
from tests.raft.core_harness import (
    LONG_S,
    TIMING,
    Member,
    Node,
    Quorum,
    acknowledged,
    all_of,
    append,
    key,
    log,
    lose_tail,
    messages_to,
    no_vote,
    only,
    rejected,
    restored,
    restored_snapshot,
    vote,
    vote_request,
)


def damaged(*terms: int) -> Node:
    return Node(restored(terms, is_recovering=True, term=1))


def nonce_of(node: Node) -> int:
    return only(CatchUpRequest, all_of(CatchUpRequest, node.ready)).nonce


# --- the voter that lost something --------------------------------------------------------------------


def test_a_recovering_voter_neither_votes_nor_campaigns() -> None:
    node = damaged(1, 1)
    for _ in range(3):
        assert all_of(VoteRequest, node.after(LONG_S)) == []
    assert all_of(VoteResponse, node.hear(2, vote_request(1, (9, 9)))) == [no_vote(1)]
    ready = node.hear(2, vote_request(5, (9, 9), is_pre_vote=True))
    assert all_of(VoteResponse, ready) == [no_vote(1, is_pre_vote=True)]
    assert node.role() is Role.FOLLOWER


def test_a_recovering_voter_takes_entries_and_says_that_it_must_not_be_counted() -> None:
    node = damaged(1)
    response = only(AppendResponse, all_of(AppendResponse, node.hear(2, append(1, (1, 1), log(1, after=1)))))
    assert response == acknowledged(1, 2, is_counted=False)


def test_a_recovering_voter_counts_again_when_its_log_durably_reaches_the_leaders_end() -> None:
    node = damaged(1)
    node.hear(2, append(1, (1, 1)))
    nonce = nonce_of(node)
    node.persist()
    node.hear(2, CatchUpResponse(Term(1), nonce, Index(3)))
    node.hear(2, append(1, (1, 1), log(1, after=1)))
    node.persist()
    assert node.core.is_recovering
    node.hear(2, append(1, (2, 1), log(1, after=2)))
    assert node.core.is_recovering, "entry 3 is not durable yet"
    ready = node.persist()
    assert ready.hard_state == HardState(Term(1), None, is_recovering=False)
    response = only(AppendResponse, all_of(AppendResponse, node.hear(2, append(1, (3, 1)))))
    assert response.is_counted
    assert response in [envelope.message for envelope in node.ready.send_after_persist], (
        "that is not durable yet"
    )


def test_what_matches_no_leaders_log_does_not_count_as_caught_up() -> None:
    node = damaged(1, 1, 1, 1)
    node.hear(2, append(1, (1, 1)))
    node.hear(2, CatchUpResponse(Term(1), nonce_of(node), Index(3)))
    node.persist()
    assert node.core.is_recovering, "its entries 2 to 4 may be another leader's"
    node.hear(2, append(1, (3, 1)))
    node.persist()
    assert not node.core.is_recovering


def test_answers_to_other_questions_are_not_taken() -> None:
    node = damaged(1)
    node.hear(2, append(1, (1, 1)))
    nonce = nonce_of(node)
    node.hear(2, CatchUpResponse(Term(1), nonce + 1, Index(1)))
    node.persist()
    assert node.core.is_recovering, "another start of this voter asked that"
    node.hear(3, append(2, (1, 1)))
    node.hear(2, CatchUpResponse(Term(1), nonce, Index(1)))
    node.persist()
    assert node.core.is_recovering, "the leader of another term said that"
    node.hear(3, CatchUpResponse(Term(2), nonce, Index(1)))
    node.persist()
    assert not node.core.is_recovering


def test_the_question_is_repeated_until_it_is_answered_and_asked_anew_in_each_term() -> None:
    node = damaged(1)
    for _ in range(3):
        assert len(all_of(CatchUpRequest, node.hear(2, append(1, (1, 1))))) == 1
    node.hear(2, CatchUpResponse(Term(1), nonce_of(node), Index(9)))
    assert all_of(CatchUpRequest, node.hear(2, append(1, (1, 1)))) == []
    assert len(all_of(CatchUpRequest, node.hear(3, append(2, (1, 1))))) == 1


def test_no_two_starts_ask_under_the_same_nonce() -> None:
    nonces = set()
    for incarnation in range(1, 20):
        node = Node(restored((1,), is_recovering=True, incarnation=incarnation), seed=0)
        node.hear(2, append(1, (1, 1)))
        nonces.add(nonce_of(node))
    assert len(nonces) == 19


def test_a_voter_takes_part_in_elections_only_once_the_end_of_its_recovery_is_durable() -> None:
    node = damaged(1)
    node.hear(2, append(1, (1, 1)))
    nonce = nonce_of(node)
    node.persist()
    node.hear(2, CatchUpResponse(Term(1), nonce, Index(1)))
    assert not node.core.is_recovering
    ready = node.after(LONG_S)
    assert ready.send_now == ()
    assert len(all_of(VoteRequest, ready)) == 2
    ready = node.hear(3, vote_request(2, (1, 1), is_pre_vote=True))
    assert ready.send_now == ()
    node.persist()
    ready = node.hear(3, vote_request(2, (1, 1), is_pre_vote=True))
    assert all_of(VoteResponse, ready) == [vote(2, is_pre_vote=True)]
    assert ready.send_after_persist == ()


def test_a_damaged_voter_comes_back_through_its_leader() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.propose(1, b"a", b"b")
    quorum.restart(3, lose_tail(2))
    quorum.run(1)
    assert not quorum[3].hard_state.is_recovering
    assert [entry.data for entry in quorum[3].journal] == [b"", b"a", b"b"]


def test_an_acknowledged_entry_survives_the_damage_of_one_voter_and_the_loss_of_another() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.propose(1, b"precious")
    assert quorum[1].answer(1).outcome is Outcome.DONE
    quorum.restart(2, lose_tail(1))
    quorum.cut_off(1)
    quorum.run(20, except_for=[1])
    assert quorum.leaders() == [1], "2 has lost the entry and 3 never had it: nobody may be elected"
    quorum.heal()
    quorum.run(20)
    assert all(b"precious" in [entry.data for entry in quorum[n].applied] for n in (1, 2, 3))


# --- its leader ---------------------------------------------------------------------------------------


def leading() -> Node:
    """Entry 1 is committed; 2 and 3 have acknowledged it as their first process."""
    node = Node()
    node.lead()
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    return node


def test_the_leader_answers_with_its_last_index_and_not_with_its_commit_index() -> None:
    """An acknowledgement from before the damage may be under way and still be counted."""
    node = leading()
    node.propose(b"x", b"y")
    ready = node.hear(2, CatchUpRequest(Term(1), 77), incarnation=2)
    assert all_of(CatchUpResponse, ready) == [CatchUpResponse(Term(1), 77, Index(3))]
    assert node.core.commit_index == 1


def test_acknowledgements_from_before_the_damage_count_no_more() -> None:
    node = leading()
    node.propose(b"x")
    written = node.ready
    node.hear(2, acknowledged(1, 2))
    node.hear(2, CatchUpRequest(Term(1), 77), incarnation=2)
    assert node.core.progress()[key(2)].match_index == 0
    node.ready = written
    node.persist()
    assert node.core.commit_index == 1
    node.hear(2, acknowledged(1, 2), incarnation=1)
    assert node.core.commit_index == 1, "its earlier process said that"
    node.hear(2, acknowledged(1, 2, is_counted=False), incarnation=2)
    assert node.core.commit_index == 1
    node.hear(2, acknowledged(1, 2), incarnation=2)
    assert node.core.commit_index == 2


def test_the_voice_of_a_recovering_voter_does_not_keep_a_leader_in_office() -> None:
    node = leading()
    for _ in range(10):
        node.after(TIMING.heartbeat_s)
        node.hear(2, acknowledged(1, 1, is_counted=False), incarnation=2)
    assert node.role() is Role.FOLLOWER


def test_late_words_of_a_voter_that_has_recovered_since_do_not_set_it_back() -> None:
    node = leading()
    node.hear(2, acknowledged(1, 1, is_counted=False), incarnation=2)
    node.hear(2, acknowledged(1, 1), incarnation=2)
    node.hear(2, acknowledged(1, 0, is_counted=False), incarnation=2)
    node.hear(2, CatchUpRequest(Term(1), 77), incarnation=2)
    progress = node.core.progress()[key(2)]
    assert (progress.match_index, progress.is_counted) == (1, True)


# --- restored from an old copy ------------------------------------------------------------------------


def with_old_copy() -> Node:
    """Voter 2 acknowledged entry 3, and came back with a log that ends at 1."""
    node = leading()
    node.propose(b"x", b"y")
    node.persist()
    node.hear(2, acknowledged(1, 3))
    node.after(TIMING.heartbeat_s)
    node.hear(2, rejected(1, 1, 1, round_=2), incarnation=2)
    return node


def test_a_voter_with_less_than_it_acknowledged_is_refused_for_the_term() -> None:
    node = with_old_copy()
    progress = node.core.progress()[key(2)]
    assert progress.state is ProgressState.DISTRUSTED
    assert progress.state.value == "lost acknowledged entries"
    assert not progress.is_counted
    assert node.core.commit_index == 3
    node.propose(b"z")
    node.persist()
    assert messages_to(2, node.ready.send_now) == []
    node.hear(2, acknowledged(1, 4), incarnation=2)
    node.hear(2, restored_snapshot(1, 4), incarnation=3)
    assert node.core.commit_index == 3
    assert node.core.progress()[key(2)].state is ProgressState.DISTRUSTED
    node.hear(3, acknowledged(1, 4))
    assert node.core.commit_index == 4


def test_a_refused_voter_still_gets_heartbeats() -> None:
    node = with_old_copy()
    ready = node.after(TIMING.heartbeat_s)
    assert [type(message) for message in messages_to(2, ready.send_now)] == [AppendRequest]


def test_an_old_copy_whose_starts_were_counted_less_is_not_even_heard() -> None:
    node = leading()
    node.hear(2, acknowledged(1, 1), incarnation=5)
    before = node.core.progress()[key(2)]
    node.now += 0.1
    node.hear(2, rejected(1, 0, 0), incarnation=4)
    assert node.core.progress()[key(2)] == before


def test_an_old_copy_whose_starts_were_counted_alike_is_found_out_too() -> None:
    node = leading()
    node.propose(b"x", b"y")
    node.hear(2, acknowledged(1, 3))
    node.hear(2, rejected(1, 1, 1))
    assert node.core.progress()[key(2)].state is not ProgressState.DISTRUSTED, "it may answer an old request"
    node.after(TIMING.heartbeat_s)
    node.hear(2, rejected(1, 1, 1, round_=2))
    assert node.core.progress()[key(2)].state is ProgressState.DISTRUSTED, (
        "it was asked after it had acknowledged"
    )


def test_a_refusal_overtaken_by_a_later_acknowledgement_is_no_loss() -> None:
    """The heartbeat of round 2 came before the entries of round 1, and was refused."""
    node = leading()
    node.propose(b"x", b"y")
    node.after(TIMING.heartbeat_s)
    node.hear(2, acknowledged(1, 3))
    node.hear(2, rejected(1, 1, 1, round_=2))
    assert node.core.progress()[key(2)].state is ProgressState.REPLICATE


def test_a_restarted_voter_that_has_all_it_acknowledged_is_welcome() -> None:
    node = leading()
    node.propose(b"x", b"y")
    node.hear(2, acknowledged(1, 2))
    node.hear(2, rejected(1, 2, 1), incarnation=2)
    assert node.core.progress()[key(2)].state is ProgressState.PROBE
    node.hear(2, acknowledged(1, 3), incarnation=2)
    assert node.core.progress()[key(2)].state is ProgressState.REPLICATE


def test_an_old_request_echoed_by_a_new_process_does_not_hide_a_loss() -> None:
    node = leading()
    node.propose(b"x", b"y")
    node.hear(2, acknowledged(1, 3))
    node.after(TIMING.heartbeat_s)
    node.hear(2, acknowledged(1, 1), incarnation=2)  # a heartbeat of long ago, doubled on the way
    node.hear(2, rejected(1, 1, 1, round_=2), incarnation=2)
    assert node.core.progress()[key(2)].state is ProgressState.DISTRUSTED


def test_a_voter_put_back_from_an_old_copy_is_refused_in_a_quorum() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.propose(1, b"a", b"b", b"c")

    def put_back(member: Member) -> None:
        del member.journal[2:]

    quorum.restart(3, put_back)
    quorum.run(1)
    assert quorum.core(1).progress()[key(3)].state is ProgressState.DISTRUSTED
    assert quorum.leaders() == [1]
    quorum.propose(1, b"d", first_id=10)
    assert quorum[1].answer(10).outcome is Outcome.DONE


def test_the_memory_of_incarnations_is_bounded_and_keeps_the_voters() -> None:
    node = Node()
    node.hear(2, append(1), incarnation=5)
    for number in range(10, 300):
        node.hear(number, vote_request(1))
    assert len(node.core._state.incarnations) <= 65
    assert all_of(AppendResponse, node.hear(2, append(1), incarnation=4)) == []
