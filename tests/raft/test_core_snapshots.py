"""Snapshots: taking one, sending one, installing one, and never going backwards."""

from __future__ import annotations

from quorate.metadata.raft.core import Limits, ProgressState
from quorate.metadata.raft.entries import Index, SnapshotId, Term
from quorate.metadata.raft.messages import AppendRequest, AppendResponse, SnapshotRequest, SnapshotResponse
from quorate.metadata.raft.ready import Trimmed
from tests.raft.core_harness import (
    TIMING,
    Node,
    Quorum,
    acknowledged,
    all_of,
    append,
    entry,
    key,
    log,
    messages_to,
    only,
    rejected,
    restored,
    restored_snapshot,
    snapshot,
    voters,
    voters_entry,
)


def install(term: int, index: int, last_term: int, *numbers: int, round_: int = 1) -> SnapshotRequest:
    return SnapshotRequest(Term(term), snapshot(index, last_term, *numbers), round_)


# --- installing ---------------------------------------------------------------------------------------


def test_a_snapshot_replaces_a_log_that_does_not_reach_it() -> None:
    node = Node(restored((1, 1)))
    ready = node.hear(2, install(3, 9, 2, 1, 2, 3, 4))
    assert ready.snapshot == snapshot(9, 2, 1, 2, 3, 4)
    assert (node.core.first_index, node.core.last_index) == (10, 9)
    assert (node.core.commit_index, node.core.applied_index) == (9, 9)
    assert node.core.voters == voters(1, 2, 3, 4)
    assert messages_to(2, ready.send_after_persist) == [restored_snapshot(3, 9)]
    assert ready.send_now == ()


def test_a_log_that_contradicts_the_snapshot_is_dropped() -> None:
    node = Node(restored((1, 1, 1, 1)))
    ready = node.hear(2, install(3, 3, 2))
    assert ready.snapshot is not None
    assert node.core.last_index == 3
    assert node.core.term_at(Index(3)) == 2


def test_a_log_that_holds_the_snapshots_entry_keeps_what_follows_it() -> None:
    node = Node(restored((1, 1, 1, 1)))
    ready = node.hear(2, install(3, 3, 1))
    assert ready.snapshot is None
    assert node.terms() == [1, 1, 1, 1]
    assert node.core.commit_index == 3
    assert ready.committed == log(1, 1, 1)
    assert all_of(SnapshotResponse, ready) == [restored_snapshot(3, 3)]


def test_an_old_snapshot_moves_nothing_backwards() -> None:
    node = Node(restored((1, 1, 1, 1)))
    node.hear(2, append(1, (4, 1), commit=4))
    ready = node.hear(2, install(1, 2, 1))
    assert ready.snapshot is None
    assert (node.core.commit_index, node.core.applied_index, node.core.last_index) == (4, 4, 4)
    assert all_of(SnapshotResponse, ready) == [restored_snapshot(1, 4)]


def test_a_snapshot_heard_twice_is_installed_once() -> None:
    node = Node()
    node.hear(2, install(1, 5, 1))
    node.hear(2, append(1, (5, 1), log(1, after=5), commit=6))
    ready = node.hear(2, install(1, 5, 1))
    assert ready.snapshot is None
    assert node.core.last_index == 6


def test_a_snapshot_of_an_old_leader_is_refused() -> None:
    node = Node(restored(term=4))
    ready = node.hear(2, install(3, 9, 2))
    assert ready.snapshot is None
    assert all_of(AppendResponse, ready) == [rejected(4, 0, 0, round_=0)]


def test_nothing_after_a_snapshot_is_handed_out_before_the_snapshot_is_durable() -> None:
    node = Node()
    node.hear(2, install(1, 5, 1))
    ready = node.hear(2, append(1, (5, 1), log(1, after=5), commit=6))
    assert node.core.commit_index == 6
    assert ready.committed == ()
    assert node.persist().committed == log(1, after=5)


def test_writes_under_way_do_not_count_for_a_log_that_a_snapshot_replaced() -> None:
    node = Node()
    written = node.hear(2, append(1, entries=log(1, 1, 1, 1)))
    node.hear(3, install(2, 2, 2))
    node.hear(3, append(2, (2, 2), (entry(3, 2),)))
    node.ready = written
    node.persist()
    assert node.core.durable_index == 0


# --- trimming -----------------------------------------------------------------------------------------


def followed(count: int, *, entries_kept: int) -> Node:
    node = Node(limits=Limits(entries_kept=entries_kept))
    node.hear(2, append(1, entries=log(*[1] * count), commit=count))
    node.persist()
    return node


def test_a_trim_keeps_some_entries_for_those_a_little_behind() -> None:
    node = followed(10, entries_kept=3)
    node.step(Trimmed(snapshot(8, 1)))
    assert node.core.first_index == 6
    assert node.core.term_at(Index(5)) == 1
    assert node.core.term_at(Index(4)) is None


def test_a_trim_that_comes_late_is_ignored() -> None:
    node = followed(10, entries_kept=0)
    node.step(Trimmed(snapshot(8, 1)))
    node.step(Trimmed(snapshot(4, 1)))
    assert node.core.first_index == 9
    node.hear(2, install(1, 20, 1))
    node.step(Trimmed(snapshot(10, 1)))
    assert node.core.first_index == 21


def test_voters_before_a_trim_are_remembered() -> None:
    node = Node(limits=Limits(entries_kept=0))
    entries = (entry(1, 1), voters_entry(2, 1, 1, 2, 3, 4), entry(3, 1), voters_entry(4, 1, 1, 2, 3))
    node.hear(2, append(1, entries=entries, commit=3))
    node.persist()
    assert node.core.voters_at(Index(3)) == voters(1, 2, 3, 4)
    node.step(Trimmed(snapshot(3, 1, 1, 2, 3, 4)))
    assert node.core.committed_voters == voters(1, 2, 3, 4)
    assert node.core.voters == voters(1, 2, 3)


# --- sending ------------------------------------------------------------------------------------------


def leader_with_snapshot() -> Node:
    """Holds only what follows entry 5."""
    node = Node(restored((1, 1), base=SnapshotId(Index(5), Term(1))))
    node.step(Trimmed(snapshot(5, 1)))
    node.lead(3)
    return node


def test_a_follower_that_needs_what_is_compacted_gets_the_snapshot_once() -> None:
    node = leader_with_snapshot()
    ready = node.hear(2, rejected(2, 3, 1))
    assert messages_to(2, ready.send_now) == [install(2, 5, 1)]
    assert node.core.progress()[key(2)].state is ProgressState.SNAPSHOT
    assert messages_to(2, node.hear(2, rejected(2, 3, 1)).send_now) == []
    node.propose(b"x")
    assert messages_to(2, node.ready.send_now) == []


def test_entries_follow_an_installed_snapshot() -> None:
    node = leader_with_snapshot()
    node.hear(2, rejected(2, 3, 1))
    ready = node.hear(2, restored_snapshot(2, 5))
    request = only(AppendRequest, messages_to(2, ready.send_now))
    assert (request.previous_index, len(request.entries)) == (5, 3)
    assert node.core.progress()[key(2)].state is ProgressState.REPLICATE


def test_a_heartbeats_answer_serves_for_a_lost_answer_to_a_snapshot() -> None:
    node = leader_with_snapshot()
    node.hear(2, rejected(2, 3, 1))
    ready = node.after(TIMING.heartbeat_s)
    heartbeat = only(AppendRequest, messages_to(2, ready.send_now))
    assert heartbeat.previous_index == 5
    ready = node.hear(2, acknowledged(2, 5, round_=2))
    assert only(AppendRequest, messages_to(2, ready.send_now)).previous_index == 5


def test_a_snapshot_that_was_lost_is_sent_again_after_a_while() -> None:
    node = leader_with_snapshot()
    node.hear(2, rejected(2, 3, 1))
    sent = 0
    for _ in range(26):
        ready = node.after(TIMING.heartbeat_s)
        node.hear(3, acknowledged(2, 8, round_=node.round))
        sent += sum(isinstance(message, SnapshotRequest) for message in messages_to(2, ready.send_now))
    assert sent == 1


def test_a_leader_without_the_snapshots_bytes_waits_for_them() -> None:
    node = Node(restored((1, 1), base=SnapshotId(Index(5), Term(1))))
    node.lead(3)
    assert messages_to(2, node.hear(2, rejected(2, 3, 1)).send_now) == []
    node.step(Trimmed(snapshot(5, 1)))
    node.after(TIMING.heartbeat_s)
    ready = node.hear(2, rejected(2, 3, 1, round_=2))
    assert messages_to(2, ready.send_now) == [install(2, 5, 1, round_=2)]


def test_a_voter_that_was_away_comes_back_through_a_snapshot() -> None:
    quorum = Quorum(1, 2, 3)
    quorum.elect(1)
    quorum.cut_off(3)
    quorum.propose(1, b"a", b"b", b"c")
    quorum.step(1, Trimmed(snapshot(3, 1)))
    quorum.heal()
    quorum.run(2)
    assert quorum[3].snapshot == snapshot(3, 1)
    assert [entry.data for entry in quorum[3].applied] == [b"c"]
