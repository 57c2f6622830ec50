"""Changing the voters: one at a time, judged from the log."""

from __future__ import annotations

import pytest

from quorate.metadata.raft.core import Limits
from quorate.metadata.raft.entries import EntryKind
from quorate.metadata.raft.messages import AppendRequest, Envelope, VoteRequest
from quorate.metadata.raft.ready import AddVoter, Outcome, RemoveVoter, Role, Trimmed
from quorate.metadata.raft.voters import Voters
from quorate.metadata.raft.voters_codec import decode_voters, encode_voters
from tests.raft.core_harness import (
    LONG_S,
    TIMING,
    Node,
    Quorum,
    acknowledged,
    append,
    key,
    messages_to,
    rejected,
    restored,
    snapshot,
    vote,
    voter,
    voters,
    voters_entry,
)


def leading(limits: Limits | None = None) -> Node:
    """Its no-op is committed."""
    node = Node(limits=limits)
    node.lead()
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    return node


def refusals(node: Node) -> list[str]:
    return [answer.reason for answer in node.ready.answers if answer.outcome is Outcome.REFUSED]


def test_a_newcomer_becomes_a_voter_after_it_has_caught_up() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.propose(1, b"x")
    quorum.add_node(4, restored(members=Voters(())))
    quorum.step(1, AddVoter(9, voter(4)))
    answer = quorum[1].answer(9)
    assert (answer.outcome, answer.index) == (Outcome.DONE, 3)
    assert all(quorum.core(number).committed_voters == voters(1, 2, 3, 4) for number in (1, 2, 3, 4))


def test_a_newcomer_comes_in_through_a_snapshot_too() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.propose(1, b"x", b"y")
    quorum.step(1, Trimmed(snapshot(3, 1)))
    quorum.add_node(4, restored(members=Voters(())))
    quorum.step(1, AddVoter(9, voter(4)))
    assert quorum[1].answer(9).outcome is Outcome.DONE
    assert quorum[4].snapshot == snapshot(3, 1)


def test_a_learner_counts_nowhere() -> None:
    node = leading(limits=Limits(append_bytes_max=1))
    node.propose(b"x", b"y")
    node.step(AddVoter(9, voter(4)))
    node.persist()
    node.hear(4, acknowledged(1, 2))
    assert node.core.commit_index == 1
    assert node.core.voters == voters(1, 2, 3)
    node.hear(2, acknowledged(1, 2))
    assert node.core.commit_index == 2


def test_a_learner_that_is_far_behind_is_not_made_a_voter_yet() -> None:
    node = leading(limits=Limits(append_bytes_max=100))
    node.step(AddVoter(9, voter(4)))
    node.propose(b"x" * 60, b"y" * 60, b"z" * 60)
    node.hear(4, acknowledged(1, 1))
    assert node.core.voters == voters(1, 2, 3), "more than one request behind: another round"
    node.hear(4, acknowledged(1, 2))
    node.hear(4, acknowledged(1, 3))
    assert node.core.voters == voters(1, 2, 3), "the round ends where the log ended when it began"
    node.hear(4, acknowledged(1, 4))
    assert node.core.voters == voters(1, 2, 3, 4)


def test_a_voter_set_is_in_force_as_soon_as_it_is_in_the_log() -> None:
    node = leading()
    ready = node.step(RemoveVoter(9, key(3)))
    assert [entry.kind for entry in ready.entries] == [EntryKind.VOTERS]
    assert node.core.voters == voters(1, 2)
    node.persist()
    node.hear(3, acknowledged(1, 2))
    assert node.core.commit_index == 1, "the removed one counts no more"
    ready = node.hear(2, acknowledged(1, 2))
    assert [(answer.request_id, answer.outcome, answer.index) for answer in ready.answers] == [
        (9, Outcome.DONE, 2)
    ]


def test_a_second_change_waits_for_the_first_to_be_committed() -> None:
    node = leading()
    node.step(RemoveVoter(8, key(3)))
    node.step(AddVoter(9, voter(4)))
    assert refusals(node) == ["another change of the voters is under way"]
    node.step(RemoveVoter(10, key(2)))
    assert refusals(node) == ["another change of the voters is under way"]


def test_a_change_is_judged_from_the_log_by_a_new_leader_too() -> None:
    """The entry is of another leader; nobody here remembers having asked for it."""
    node = Node()
    node.hear(2, append(1, entries=[voters_entry(1, 1, 1, 2)]))
    node.persist()
    node.lead()
    node.step(RemoveVoter(9, key(2)))
    assert refusals(node) == ["another change of the voters is under way"]


def test_no_change_before_the_leader_has_committed_in_its_own_term() -> None:
    node = Node(restored((1, 1)))
    node.lead()
    node.step(AddVoter(9, voter(4)))
    assert refusals(node) == ["the leader has not committed an entry of its term yet"]
    node.hear(2, acknowledged(2, 3))
    assert node.step(AddVoter(9, voter(4))).answers == ()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (AddVoter(9, voter(2)), "2/a is a voter already"),
        (AddVoter(9, voter(2, "b")), "node 2 votes with directory a: remove that first"),
        (RemoveVoter(9, key(4)), "4/a is not a voter"),
        (RemoveVoter(9, key(2, "b")), "2/b is not a voter"),
    ],
)
def test_changes_that_make_no_sense_are_refused(event: AddVoter | RemoveVoter, reason: str) -> None:
    node = leading()
    node.step(event)
    assert refusals(node) == [reason]


def test_the_last_voter_stays() -> None:
    quorum = Quorum(1)
    quorum.elect(1)
    quorum.step(1, RemoveVoter(9, key(1)))
    assert quorum[1].answer(9).reason == "the last voter cannot be removed"


def test_a_voter_stays_while_those_that_would_be_left_have_no_majority() -> None:
    """The wrong one of two living voters is named: without it nothing could be committed, nor undone."""
    node = leading()
    for _ in range(30):
        node.after(TIMING.heartbeat_s)
        node.hear(2, acknowledged(1, 1, round_=node.round))
    node.step(RemoveVoter(9, key(2)))
    assert refusals(node) == ["of the voters left, 3 do not answer, and the others are no majority"]
    assert node.core.voters == voters(1, 2, 3)
    node.step(RemoveVoter(10, key(3)))
    assert node.core.voters == voters(1, 2)


def test_followers_refuse_changes() -> None:
    node = Node()
    node.step(AddVoter(9, voter(4)))
    assert refusals(node) == ["not the leader"]


def test_a_leader_that_removed_itself_hands_over_once_that_is_committed() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.step(1, RemoveVoter(9, key(1)))
    assert quorum[1].answer(9).outcome is Outcome.DONE
    assert quorum.core(1).role is Role.FOLLOWER
    assert len(quorum.leaders()) == 1
    quorum.run(10)
    assert quorum.core(1).role is Role.FOLLOWER
    assert quorum.core(1).term < quorum.core(2).term, "nobody talks to it any more"


def test_a_leader_that_dies_while_it_removes_itself_from_two_voters_finishes_that_later() -> None:
    """The other's log lacks the removal, so it cannot be elected, and it is the only voter in force."""
    quorum = Quorum(1, 2)
    quorum.elect(1)
    quorum.cut_off(2)
    quorum.step(1, RemoveVoter(9, key(1)))
    assert quorum.core(1).voters == voters(2)
    quorum.restart(1)
    quorum.heal()
    quorum.run(20)
    assert quorum.leaders() == [2]
    assert quorum.core(2).committed_voters == quorum.core(1).committed_voters == voters(2)


def test_a_candidate_that_is_being_removed_does_not_vote_for_itself() -> None:
    node = Node(restored(entries=(voters_entry(1, 1, 2, 3),)))
    node.after(LONG_S)
    node.hear(2, vote(2, is_pre_vote=True))
    assert node.role() is Role.PRE_CANDIDATE
    node.hear(3, vote(2, is_pre_vote=True))
    node.persist()
    node.hear(2, vote(2))
    assert node.role() is Role.CANDIDATE
    node.hear(3, vote(2))
    assert node.role() is Role.LEADER


def test_a_leader_that_removes_itself_does_not_count_itself() -> None:
    node = leading()
    node.step(RemoveVoter(9, key(1)))
    node.persist()
    node.hear(2, acknowledged(1, 2))
    assert node.core.commit_index == 1
    node.hear(3, acknowledged(1, 2))
    assert node.core.commit_index == 2
    assert node.role() is Role.FOLLOWER


def test_a_removed_voter_learns_of_it_and_stays_quiet() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.step(1, RemoveVoter(9, key(3)))
    assert quorum.core(3).committed_voters == voters(1, 2)
    asked: list[Envelope] = []

    def watch(envelope: Envelope) -> bool:
        if isinstance(envelope.message, VoteRequest):
            asked.append(envelope)
        return True

    quorum.is_delivered = watch
    quorum.run(20)
    assert asked == []
    assert quorum.leaders() == [1]


def test_a_removed_voter_is_served_until_its_removal_is_committed_and_not_longer() -> None:
    node = leading()
    node.step(RemoveVoter(9, key(3)))
    node.persist()
    assert key(3) in node.core.progress()
    ready = node.hear(2, acknowledged(1, 2))
    told = [message for message in messages_to(3, ready.send_now) if isinstance(message, AppendRequest)]
    assert [message.commit_index for message in told] == [2]
    assert key(3) not in node.core.progress()


def test_a_learner_that_does_not_answer_is_given_up() -> None:
    node = leading()
    node.step(AddVoter(9, voter(4)))
    reasons = []
    for _ in range(100):
        node.after(TIMING.heartbeat_s)
        reasons += refusals(node)
        node.hear(2, acknowledged(1, 1, round_=node.round))
    assert reasons == ["the new voter does not answer"]
    assert key(4) not in node.core.progress()
    assert node.step(AddVoter(10, voter(5))).answers == ()


def test_an_addition_that_has_not_begun_ends_with_the_leadership() -> None:
    node = leading()
    node.step(AddVoter(9, voter(4)))
    ready = node.hear(2, append(2))
    assert [(answer.request_id, answer.outcome) for answer in ready.answers] == [(9, Outcome.REFUSED)]


def test_an_addition_in_the_log_is_unknown_when_leadership_is_lost() -> None:
    node = leading()
    node.step(RemoveVoter(9, key(3)))
    ready = node.hear(2, append(2))
    assert [(answer.request_id, answer.outcome) for answer in ready.answers] == [(9, Outcome.UNKNOWN)]


def test_a_reformatted_voter_is_replaced_by_removing_and_adding_it() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.step(1, RemoveVoter(8, key(3)))
    assert quorum[1].answer(8).outcome is Outcome.DONE
    quorum.step(1, AddVoter(9, voter(3, "b")))
    assert quorum[1].answers[-1].request_id == 8, "it has to catch up first"
    assert key(3, "b") in quorum.core(1).progress()


def test_a_quorum_grows_from_one_to_five_and_shrinks_again() -> None:
    quorum = Quorum(1)
    quorum.elect(1)
    for number in (2, 3, 4, 5):
        quorum.add_node(number, restored(members=Voters(())))
        quorum.step(1, AddVoter(number, voter(number)))
        assert quorum[1].answer(number).outcome is Outcome.DONE
    quorum.cut_off(4, 5)
    quorum.propose(1, b"x", first_id=100)
    assert quorum[1].answer(100).outcome is Outcome.DONE
    for number in (5, 4, 3, 2):
        quorum.step(1, RemoveVoter(10 + number, key(number)))
        assert quorum[1].answer(10 + number).outcome is Outcome.DONE
    assert quorum.core(1).committed_voters == voters(1)


def test_pre_votes_of_a_voter_removed_behind_its_back_disturb_nobody() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.step(1, RemoveVoter(9, key(3)))
    quorum.heal()
    quorum.run(20)
    assert quorum.leaders() == [1]
    assert quorum.core(1).term == 1
    assert quorum.core(3).role is not Role.LEADER


def test_a_refused_newcomer_is_asked_again_where_its_log_ends() -> None:
    node = leading()
    node.propose(b"x")
    ready = node.step(AddVoter(9, voter(4)))
    assert [type(message) for message in messages_to(4, ready.send_now)] == [AppendRequest]
    ready = node.hear(4, rejected(1, 0, 0))
    request = messages_to(4, ready.send_now)[0]
    assert isinstance(request, AppendRequest)
    assert (request.previous_index, len(request.entries)) == (0, 2)


# --- as bytes -----------------------------------------------------------------------------------------


def test_voters_come_back_from_their_bytes() -> None:
    for members in (voters(), voters(1), voters(1, 2, 3)):
        assert decode_voters(encode_voters(members)) == members


def test_equal_voters_are_equal_bytes() -> None:
    assert encode_voters(voters(1).with_voter(voter(2))) == encode_voters(voters(2).with_voter(voter(1)))
    assert encode_voters(voters(1)) == b'[{"address":"host1:9093","directory_id":"a","node_id":1}]', (
        "other versions read it"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"{}", "not a list"),
        (b"[1]", "not a voter"),
        (b'[{"node_id":1}]', "not a voter"),
        (b'[{"node_id":"1","directory_id":"a","address":"b"}]', "not a voter"),
        (encode_voters(voters(1))[:-1] + b"," + encode_voters(voters(1))[1:], "sorted and unique"),
    ],
)
def test_bytes_that_are_no_voters_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_voters(data)
