"""Voters in numbers: what the active controller knows of those who vote with it."""

from __future__ import annotations

import pytest

from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.progress import FollowerProgress, ProgressState
from quorate.metadata.raft.quorum import QuorumStatus
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.node.metrics.controller import unsettled_voters

NOW = 100.0
SILENCE_S = 1.0
KEYS = [VoterKey(NodeId(100 + number), DirectoryId(f"d{number}")) for number in (1, 2, 3)]
VOTERS = Voters(tuple(Voter(key, f"c{key.node_id}:1") for key in KEYS))


def follower(
    *, state: ProgressState = ProgressState.REPLICATE, heard_s_ago: float = 0.1, counts: bool = True
) -> FollowerProgress:
    return FollowerProgress(Index(9), Index(10), state, NOW - heard_s_ago, is_voter=True, is_counted=counts)


def quorum(*others: FollowerProgress) -> QuorumStatus:
    """Led by the first voter."""
    return QuorumStatus(
        cluster_id="c",
        key=KEYS[0],
        role=Role.LEADER,
        term=Term(1),
        leader=VOTERS.members[0],
        commit_index=Index(9),
        applied_index=Index(9),
        last_index=Index(9),
        voters=VOTERS,
        committed_voters=VOTERS,
        progress=dict(zip(KEYS[1:], others, strict=False)),
        is_recovering=False,
        is_running=True,
        waiting_for="",
    )


def test_leader_and_those_who_follow_it_are_settled() -> None:
    probed = follower(state=ProgressState.PROBE)
    assert unsettled_voters(quorum(follower(), probed), now=NOW, silence_s_max=SILENCE_S) == 0


@pytest.mark.parametrize(
    "other",
    [
        follower(heard_s_ago=1.5),
        follower(state=ProgressState.SNAPSHOT),
        follower(state=ProgressState.DISTRUSTED, counts=False),
        follower(counts=False),
    ],
    ids=["silent", "catching up", "refused", "recovering"],
)
def test_voter_that_does_not_follow_is_unsettled(other: FollowerProgress) -> None:
    assert unsettled_voters(quorum(follower(), other), now=NOW, silence_s_max=SILENCE_S) == 1


def test_voter_of_whom_the_leader_knows_nothing_is_unsettled() -> None:
    assert unsettled_voters(quorum(follower()), now=NOW, silence_s_max=SILENCE_S) == 1
