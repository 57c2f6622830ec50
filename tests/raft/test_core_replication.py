"""A leader: what it sends, whom it believes, and when it commits."""

from __future__ import annotations

from quorate.metadata.raft.core import Limits, ProgressState
from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.messages import AppendRequest
from quorate.metadata.raft.ready import Outcome, Propose, Role
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
    voters,
)


def requests_to(number: int, node: Node) -> list[AppendRequest]:
    found = messages_to(number, node.ready.send_now)
    return [message for message in found if isinstance(message, AppendRequest)]


def spans(requests: list[AppendRequest]) -> list[tuple[int, int]]:
    """(previous index, number of entries) of each."""
    return [(request.previous_index, len(request.entries)) for request in requests]


# --- commit -------------------------------------------------------------------------------------------


def test_an_entry_is_committed_when_a_majority_holds_it_durably() -> None:
    node = Node(restored(members=voters(1, 2, 3, 4, 5)))
    node.lead(2, 3)
    node.propose(b"x")
    node.persist()
    node.hear(2, acknowledged(1, 2))
    assert node.core.commit_index == 0
    node.hear(2, acknowledged(1, 2))
    assert node.core.commit_index == 0, "the same voice twice"
    ready = node.hear(4, acknowledged(1, 2))
    assert node.core.commit_index == 2
    assert [(answer.request_id, answer.outcome, answer.index) for answer in ready.answers] == [
        (1, Outcome.DONE, 2)
    ]


def test_a_leader_does_not_count_itself_before_its_own_sync() -> None:
    node = Node()
    node.lead()
    node.propose(b"x")
    node.hear(2, acknowledged(1, 2))
    assert node.core.commit_index == 1
    node.persist()
    assert node.core.commit_index == 2


def test_followers_alone_may_commit_but_an_answer_waits_for_the_leaders_own_sync() -> None:
    node = Node()
    node.lead()
    written = node.propose(b"x")
    node.hear(2, acknowledged(1, 2))
    ready = node.hear(3, acknowledged(1, 2))
    assert node.core.commit_index == 2
    assert [entry.index for entry in ready.committed] == []
    assert ready.answers == ()
    node.ready = written
    ready = node.persist()
    assert [entry.index for entry in ready.committed] == [2]
    assert [answer.outcome for answer in ready.answers] == [Outcome.DONE]


def test_entries_of_earlier_terms_are_committed_only_through_one_of_the_own_term() -> None:
    """Figure 8 of the Raft paper: a majority holds an old entry, and it may still be lost."""
    node = Node(restored((1, 2), term=3))
    node.lead()
    assert node.core.term == 4
    node.hear(2, acknowledged(4, 2))
    node.hear(3, acknowledged(4, 2))
    assert node.core.commit_index == 0
    node.hear(3, acknowledged(4, 3))
    assert node.core.commit_index == 3


def test_acknowledgements_of_other_terms_count_for_nothing() -> None:
    node = Node(restored((1, 1), term=1))
    node.lead()
    node.hear(2, acknowledged(1, 3))
    assert node.core.commit_index == 0


def test_nobody_can_acknowledge_what_was_never_sent() -> None:
    node = Node()
    node.lead()
    node.hear(2, acknowledged(1, 99))
    assert node.core.commit_index == 0


def test_strangers_do_not_count() -> None:
    node = Node()
    node.lead()
    node.hear(key(2, "other directory"), acknowledged(1, 1))
    node.hear(9, acknowledged(1, 1))
    assert node.core.commit_index == 0


def test_idle_followers_learn_at_once_what_is_committed() -> None:
    node = Node()
    node.lead()
    node.hear(2, acknowledged(1, 1))
    assert [request.commit_index for request in requests_to(2, node)] == [1]
    node.hear(3, acknowledged(1, 1))
    assert [request.commit_index for request in requests_to(3, node)] == [1]
    node.hear(3, acknowledged(1, 1))
    assert requests_to(3, node) == [], "it was told"


def test_a_leader_that_loses_its_term_answers_everybody() -> None:
    node = Node()
    node.lead()
    node.propose(b"x", b"y")
    ready = node.hear(2, append(2))
    assert sorted((answer.request_id, answer.outcome) for answer in ready.answers) == [
        (1, Outcome.UNKNOWN),
        (2, Outcome.UNKNOWN),
    ]


def test_committed_proposals_stay_done_when_leadership_is_lost_before_the_own_sync() -> None:
    node = Node()
    node.lead()
    written = node.propose(b"x")
    node.hear(2, acknowledged(1, 2))
    node.hear(3, acknowledged(1, 2))
    ready = node.hear(2, append(2, (2, 1)))
    assert ready.answers == ()
    node.ready = written
    assert [(answer.request_id, answer.outcome) for answer in node.persist().answers] == [(1, Outcome.DONE)]


def test_proposals_for_another_term_are_refused() -> None:
    node = Node()
    node.lead()
    ready = node.step(Propose((1,), (b"x",), Term(0)))
    assert [(answer.outcome, answer.reason) for answer in ready.answers] == [
        (Outcome.REFUSED, "term 0 is over")
    ]
    assert node.core.last_index == 1


# --- sending ------------------------------------------------------------------------------------------


def replicating(node: Node) -> Node:
    """Followers 2 and 3 have acknowledged the no-op."""
    node.lead()
    node.hear(2, acknowledged(1, 1))
    node.hear(3, acknowledged(1, 1))
    return node


def test_requests_follow_each_other_without_waiting_up_to_a_bound() -> None:
    node = replicating(Node(limits=Limits(inflight_max=3, pipelined_entries_min=1)))
    sent = []
    for number in range(5):
        node.propose(b"%d" % number)
        sent += spans(requests_to(2, node))
    assert sent == [(1, 1), (2, 1), (3, 1)]
    node.hear(2, acknowledged(1, 3))
    assert spans(requests_to(2, node)) == [(4, 2)], "what has gathered meanwhile travels together"


def test_few_entries_wait_for_the_answer_to_what_is_on_its_way_and_travel_together() -> None:
    node = replicating(Node(limits=Limits(pipelined_entries_min=3)))
    node.propose(b"a")
    assert spans(requests_to(2, node)) == [(1, 1)], "nothing is on its way: at once"
    for command in (b"b", b"c"):
        node.propose(command)
        assert requests_to(2, node) == []
    node.hear(2, acknowledged(1, 2))
    assert spans(requests_to(2, node)) == [(2, 2)]


def test_enough_entries_do_not_wait_for_any_answer() -> None:
    node = replicating(Node(limits=Limits(pipelined_entries_min=3)))
    node.propose(b"a")
    node.propose(b"b", b"c", first_id=2)
    node.propose(b"d", first_id=4)
    assert spans(requests_to(2, node)) == [(2, 3)]


def test_a_busy_leader_sends_its_followers_few_large_requests() -> None:
    """With the limits that a controller runs with."""
    limits = Limits()
    node = replicating(Node(limits=limits))
    sent = []
    for number in range(limits.pipelined_entries_min):
        node.propose(b"%d" % number, first_id=number)
        sent += spans(requests_to(2, node))
    assert sent == [(1, 1)], "the others gather behind the first"
    node.propose(b"one more", first_id=1000)
    assert spans(requests_to(2, node)) == [(2, limits.pipelined_entries_min)], "enough to be worth a request"


def test_entries_that_wait_for_an_answer_travel_after_the_request_was_lost() -> None:
    node = replicating(Node(limits=Limits(pipelined_entries_min=3)))
    node.propose(b"a")
    node.propose(b"b", first_id=2)
    node.after(TIMING.heartbeat_s)
    node.hear(2, rejected(1, 1, 1))
    assert spans(requests_to(2, node)) == [(1, 2)]


def test_a_request_holds_no_more_bytes_than_allowed_and_at_least_one_entry() -> None:
    node = replicating(Node(limits=Limits(append_bytes_max=200, pipelined_entries_min=1)))
    node.propose(b"x" * 50, b"x" * 50, b"x" * 500, b"x" * 50, b"x" * 50)
    assert spans(requests_to(2, node)) == [(1, 2), (3, 1), (4, 2)]


def test_a_lost_request_is_noticed_by_the_next_heartbeat_and_sent_again_once() -> None:
    node = replicating(Node(limits=Limits(pipelined_entries_min=1)))
    node.propose(b"a")
    node.propose(b"b")
    node.propose(b"c")
    node.after(TIMING.heartbeat_s)
    assert spans(requests_to(2, node)) == [(4, 0)]
    node.hear(2, rejected(1, 1, 1))
    assert spans(requests_to(2, node)) == [(1, 3)]
    for _ in range(3):
        node.hear(2, rejected(1, 1, 1))
        assert requests_to(2, node) == [], "refusals of what was under way behind the lost one"


def test_a_lost_probe_is_sent_again_after_a_later_round_was_answered() -> None:
    node = replicating(Node())
    node.propose(b"a")
    node.hear(2, rejected(1, 1, 1))
    assert spans(requests_to(2, node)) == [(1, 1)]
    node.after(TIMING.heartbeat_s)
    node.hear(2, rejected(1, 1, 1, round_=2))
    assert spans(requests_to(2, node)) == [(1, 1)]


def test_a_late_refusal_below_what_was_acknowledged_is_ignored() -> None:
    node = replicating(Node())
    node.propose(b"a")
    node.hear(2, acknowledged(1, 2))
    node.hear(2, rejected(1, 0, 0))
    assert requests_to(2, node) == []
    assert node.core.progress()[key(2)].match_index == 2
    assert node.core.progress()[key(2)].state is ProgressState.REPLICATE


def test_a_refusal_addressed_to_its_former_term_is_no_answer_to_a_leader() -> None:
    """It echoes no round, and says nothing of the refuser's log."""
    node = replicating(Node())
    before = node.core.progress()[key(2)]
    node.now += 0.5
    node.hear(2, rejected(1, 0, 0, round_=0), incarnation=2)
    assert node.core.progress()[key(2)] == before


def test_the_leader_skips_a_whole_term_of_its_own_for_one_hint() -> None:
    node = Node(restored((1, 1, 3, 3, 3, 3)))
    node.lead()
    node.hear(2, rejected(4, 5, 2))
    assert spans(requests_to(2, node)) == [(2, 5)]


def test_heartbeats_go_out_to_everybody_in_time() -> None:
    node = replicating(Node())
    assert node.ready.next_deadline == node.now + TIMING.heartbeat_s
    assert node.after(TIMING.heartbeat_s / 2).send_now == ()
    ready = node.after(TIMING.heartbeat_s / 2)
    assert [envelope.to for envelope in ready.send_now] == [key(2), key(3)]


def test_a_restarted_follower_is_asked_where_its_log_ends() -> None:
    node = replicating(Node(limits=Limits(inflight_max=1)))
    node.propose(b"a")
    node.propose(b"b")
    assert requests_to(2, node) == []
    node.hear(2, rejected(1, 1, 1), incarnation=2)
    assert spans(requests_to(2, node)) == [(1, 2)]


def test_proposals_beyond_the_bounds_are_refused() -> None:
    node = Node(limits=Limits(uncommitted_count_max=2, uncommitted_bytes_max=1000))
    node.lead()
    assert node.propose(b"a", b"b").answers == ()
    ready = node.propose(b"c", first_id=3)
    assert [(answer.request_id, answer.outcome) for answer in ready.answers] == [(3, Outcome.OVERLOADED)]
    node.hear(2, acknowledged(1, 3))
    node.persist()
    assert node.propose(b"x" * 2000, first_id=4).answers == (), "alone it passes, whatever its size"
    ready = node.propose(b"d", first_id=5)
    assert [answer.outcome for answer in ready.answers] == [Outcome.OVERLOADED]


def test_many_small_proposals_are_bounded_by_what_they_cost_not_by_their_contents() -> None:
    node = Node(limits=Limits(uncommitted_bytes_max=1000))
    node.lead()
    assert node.propose(b"a").answers == ()
    ready = node.propose(*[b"x"] * 100, first_id=2)
    assert {answer.outcome for answer in ready.answers} == {Outcome.OVERLOADED}
    assert len(ready.answers) == 100


def test_a_committed_entry_survives_the_leader() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.propose(1, b"precious")
    assert quorum[1].answer(1).outcome is Outcome.DONE
    quorum.cut_off(1)
    quorum.run(LONG_S * 4, except_for=[1])
    assert quorum.leaders() == [1, 2], "the old one has not noticed yet; only 2 has the entry"
    quorum.heal()
    quorum.run(5)
    assert quorum.leaders() == [2]
    for number in (1, 2, 3):
        assert b"precious" in [entry.data for entry in quorum[number].applied]


def test_an_entry_that_no_majority_took_is_replaced() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(1)
    quorum.propose(1, b"lost")
    quorum.run(LONG_S * 4)
    assert quorum[1].answer(1).outcome is Outcome.UNKNOWN
    quorum.propose(quorum.leaders()[0], b"kept")
    quorum.heal()
    quorum.run(5)
    logs = [[entry.data for entry in quorum[number].applied] for number in (1, 2, 3)]
    assert logs[0] == logs[1] == logs[2]
    assert b"kept" in logs[0]
    assert b"lost" not in logs[0]
    assert quorum.core(1).role is Role.FOLLOWER
