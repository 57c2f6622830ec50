"""A follower: what it takes, what it keeps, and what it says that it has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.metadata.raft.entries import NO_TERM
from quorate.metadata.raft.messages import AppendResponse
from quorate.metadata.raft.ready import Role
from tests.raft.core_harness import (
    Node,
    acknowledged,
    all_of,
    append,
    entry,
    key,
    log,
    messages_to,
    only,
    refused,
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
    ready = node.hear(2, append(1, (2, 1), round=5))
    assert messages_to(2, ready.send_now) == [acknowledged(1, 0, round=5)]
    node.ready = written
    node.persist()
    ready = node.hear(2, append(1, (2, 1), round=6))
    assert messages_to(2, ready.send_now) == [acknowledged(1, 2, round=6)]


def test_a_heartbeat_of_a_new_term_is_answered_once_the_term_is_durable() -> None:
    node = Node()
    ready = node.hear(2, append(7))
    assert ready.hard_state is not None
    assert ready.send_now == ()
    assert messages_to(2, ready.send_after_persist) == [acknowledged(7, 0)]


def test_an_old_leader_is_refused_and_learns_the_term() -> None:
    node = Node(restored((1, 1), term=5))
    ready = node.hear(2, append(4, (2, 1), log(4, after=2), round=9))
    assert node.terms() == [1, 1]
    assert node.core.leader is None
    # Round 0: it may have become the leader of term 5 since, and must not take this for an echo.
    assert all_of(AppendResponse, ready) == [refused(5, 0, NO_TERM, round=0)]


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
def test_any_log_ends_up_as_the_leaders_within_one_hint_per_term(terms: Sequence[int]) -> None:
    follower = Node(restored(terms), number=2)
    leader = Node(restored(LEADER_LOG, term=7))
    leader.lead(3)
    message = only_request(leader, 2)
    for _ in range(5):
        response = only(AppendResponse, all_of(AppendResponse, follower.hear(1, message)))
        follower.persist()
        leader.hear(2, response)
        if response.is_success:
            break
        message = only_request(leader, 2)
    assert follower.terms() == leader.terms() == [*LEADER_LOG, 8]


def only_request(node: Node, number: int):  # type: ignore[no-untyped-def]
    return messages_to(number, node.ready.send_now)[-1]
