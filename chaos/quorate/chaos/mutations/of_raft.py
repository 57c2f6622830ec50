"""Mutations of the metadata quorum: its core, and how it is driven (rules 38 to 42).

Each patches one small method. Some rules of the core have none here, since another rule covers for them as
long as only one is switched off:

- A candidate counts its own vote once it is durable. Its requests leave no earlier, so no answer can come.
- A candidate counts only voters in force. It asks only them, and a change of voters ends its campaign.
- One that is no voter does not stand for election. It would ask in vain, and count only those who vote.
- What an earlier process of a voter said is dropped. Whatever it acknowledged was durable, and if damage took
  it since then, the voter does not count until it has caught up with all that may have been counted.
- Followers protect a leader that they hear (no vote while it is heard). This keeps the peace, not the data.
- A voter that has less than it acknowledged, without saying so, is distrusted. Its directory was put back
  from an old copy; the simulator does not do that, because no quorum survives it in general.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from quorate.chaos.mutations.model_hunts import RAFT
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.raft.node import SimulatedNode
from quorate.chaos.raft.voter_disk import VoterDisk
from quorate.chaos.sim.patch import Patch
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.elections import Elections
from quorate.metadata.raft.entries import Entry, Index
from quorate.metadata.raft.following import Following
from quorate.metadata.raft.leadership import Leadership
from quorate.metadata.raft.membership import Membership
from quorate.metadata.raft.messages import AppendRequest, CatchUpResponse, Envelope
from quorate.metadata.raft.progress import Progress
from quorate.metadata.raft.raft_log import RaftLog
from quorate.metadata.raft.reads import ReadBarriers
from quorate.metadata.raft.ready import Ready, Refusal
from quorate.metadata.raft.replication import Replication
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey

__all__ = ["MUTATIONS"]


def always(*, answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


# -- the driver


@mutation(38, hunt=RAFT)
def votes_are_not_durable(patch: Patch) -> None:
    patch.setattr(VoterDisk, "_write_hard_state", lambda self, hard_state: None)


@mutation(38, hunt=RAFT)
def messages_do_not_wait_for_the_sync(patch: Patch) -> None:
    original = SimulatedNode._persist

    def persist(self: SimulatedNode, ready: Ready) -> None:
        for envelope in ready.send_after_persist:
            self._send(envelope)
        original(self, dataclasses.replace(ready, send_after_persist=()))

    patch.setattr(SimulatedNode, "_persist", persist)


@mutation(38, hunt=RAFT)
def incarnations_are_not_durable(patch: Patch) -> None:
    def start(self: VoterDisk) -> None:
        self.incarnation = 1 + self.incarnation % 2

    patch.setattr(VoterDisk, "start", start)


@mutation(39, hunt=RAFT)
def an_installed_snapshot_is_not_given_to_the_state_machine(patch: Patch) -> None:
    patch.setattr(SimulatedNode, "_install", lambda self, snapshot: None)


# -- elections


@mutation(38, hunt=RAFT)
def a_voter_votes_twice_in_a_term(patch: Patch) -> None:
    patch.setattr(Elections, "_has_vote_for", lambda self, sender, term: term == self._state.term)


@mutation(38, hunt=RAFT)
def the_log_of_a_candidate_is_not_compared(patch: Patch) -> None:
    patch.setattr(Elections, "_is_log_up_to_date", always(answer=True))


@mutation(38, hunt=RAFT)
def less_than_a_majority_elects(patch: Patch) -> None:
    def is_majority(self: Elections, count: int) -> bool:
        return count >= max(1, self._state.log.voters.majority - 1)

    patch.setattr(Elections, "_is_majority", is_majority)


@mutation(40, hunt=RAFT)
def pre_votes_count_as_votes(patch: Patch) -> None:
    original = Elections._ask_for_votes

    def ask_for_votes(self: Elections, *, is_transfer: bool) -> None:
        before = self._state.campaign
        original(self, is_transfer=is_transfer)
        if before is not None and self._state.campaign is not None:
            self._state.campaign.granted |= before.granted

    patch.setattr(Elections, "_ask_for_votes", ask_for_votes)


@mutation(42, hunt=RAFT)
def a_recovering_voter_votes(patch: Patch) -> None:
    patch.setattr(Elections, "_may_vote", always(answer=True))


@mutation(42, hunt=RAFT)
def a_recovering_voter_stands_for_election(patch: Patch) -> None:
    patch.setattr(Elections, "_may_campaign", lambda self: self._state.key in self._state.log.voters)


@mutation(38, hunt=RAFT)
def a_candidate_does_not_raise_its_term(patch: Patch) -> None:
    patch.setattr(Elections, "_next_term", lambda self: self._state.term)


@mutation(38, hunt=RAFT)
def votes_of_earlier_campaigns_count(patch: Patch) -> None:
    patch.setattr(Elections, "_answers_this_campaign", always(answer=True))


# -- following


@mutation(38, hunt=RAFT)
def an_old_leader_is_followed(patch: Patch) -> None:
    patch.setattr(Following, "_is_term_current", always(answer=True))


@mutation(38, hunt=RAFT)
def the_previous_entry_is_not_compared(patch: Patch) -> None:
    def matches_previous(self: Following, request: AppendRequest) -> bool:
        return request.previous_index <= self._state.log.last_index

    patch.setattr(Following, "_matches_previous", matches_previous)


@mutation(38, hunt=RAFT)
def entries_that_match_are_truncated(patch: Patch) -> None:
    def find_conflict(self: RaftLog, entries: Sequence[Entry]) -> Index | None:
        return entries[0].index if entries else None

    patch.setattr(RaftLog, "find_conflict", find_conflict)


@mutation(38, hunt=RAFT)
def what_follows_a_request_is_truncated(patch: Patch) -> None:
    original = Following._take_entries

    def take_entries(self: Following, request: AppendRequest) -> None:
        original(self, request)
        log = self._state.log
        end = Index(max(request.previous_index + len(request.entries), log.commit_index))
        if request.entries and end < log.last_index:
            log.truncate_from(end)
            log.append(request.entries[-1])

    patch.setattr(Following, "_take_entries", take_entries)


@mutation(38, hunt=RAFT)
def entries_that_conflict_are_kept(patch: Patch) -> None:
    def find_conflict(self: RaftLog, entries: Sequence[Entry]) -> Index | None:
        return next((entry.index for entry in entries if entry.index > self.last_index), None)

    patch.setattr(RaftLog, "find_conflict", find_conflict)


@mutation(38, hunt=RAFT)
def truncated_entries_still_count_as_durable(patch: Patch) -> None:
    def take_back(self: RaftLog, index: Index) -> None:
        self.durable_index = min(self.durable_index, index)

    patch.setattr(RaftLog, "_take_back_durable", take_back)


@mutation(38, hunt=RAFT)
def the_commit_index_passes_what_matches(patch: Patch) -> None:
    def known_committed(self: Following, leader_commit: Index) -> Index:
        return min(leader_commit, self._state.log.last_index)

    patch.setattr(Following, "_known_committed", known_committed)


@mutation(38, hunt=RAFT)
def entries_are_acknowledged_before_they_are_durable(patch: Patch) -> None:
    def acknowledge(self: Following, sender: VoterKey, request: AppendRequest) -> None:
        self._state.send(sender, self._success(self._matched, request.round))

    patch.setattr(Following, "_acknowledge", acknowledge)


@mutation(38, hunt=RAFT)
def the_whole_log_is_acknowledged_not_what_matched(patch: Patch) -> None:
    def acknowledge(self: Following, sender: VoterKey, request: AppendRequest) -> None:
        self._state.send_once_durable(sender, self._success(self._state.log.last_index, request.round))

    patch.setattr(Following, "_acknowledge", acknowledge)


# -- snapshots


@mutation(38, hunt=RAFT)
def an_old_snapshot_is_installed(patch: Patch) -> None:
    patch.setattr(Following, "_is_snapshot_old", always(answer=False))


@mutation(38, hunt=RAFT)
def a_snapshot_takes_the_entries_after_it(patch: Patch) -> None:
    patch.setattr(Following, "_holds_snapshot_entry", always(answer=False))


@mutation(38, hunt=RAFT)
def a_snapshot_moves_the_commit_index_unchecked(patch: Patch) -> None:
    def holds_snapshot_entry(self: Following, snapshot: object) -> bool:
        return snapshot.id.index <= self._state.log.last_index  # type: ignore[attr-defined, no-any-return]

    patch.setattr(Following, "_holds_snapshot_entry", holds_snapshot_entry)


# -- recovering


@mutation(42, hunt=RAFT)
def a_recovering_voter_wants_to_be_counted(patch: Patch) -> None:
    patch.setattr(Following, "_is_counted", always(answer=True))


@mutation(42, hunt=RAFT)
def a_recovering_voter_need_not_catch_up(patch: Patch) -> None:
    patch.setattr(Following, "_has_caught_up", lambda self: self._state.leader is not None)


@mutation(42, hunt=RAFT)
def a_recovering_voter_catches_up_to_the_commit_index(patch: Patch) -> None:
    patch.setattr(Leadership, "_catch_up_index", lambda self: self._state.log.commit_index)


@mutation(42, hunt=RAFT)
def answers_to_earlier_questions_are_taken(patch: Patch) -> None:
    original = Following.on_catch_up_response

    def on_catch_up_response(self: Following, response: CatchUpResponse) -> None:
        original(self, dataclasses.replace(response, nonce=self._nonce))

    patch.setattr(Following, "on_catch_up_response", on_catch_up_response)


@mutation(42, hunt=RAFT)
def a_leader_counts_recovering_voters(patch: Patch) -> None:
    patch.setattr(Replication, "_counts", always(answer=True))


@mutation(42, hunt=RAFT)
def a_leader_counts_what_a_voter_had_before_it_lost_it(patch: Patch) -> None:
    def note_lost_log(self: Progress, incarnation: int) -> None:
        pass

    patch.setattr(Progress, "note_lost_log", note_lost_log)


# -- leading


@mutation(38, hunt=RAFT)
def entries_of_earlier_terms_are_committed_by_count(patch: Patch) -> None:
    patch.setattr(Leadership, "_may_commit", always(answer=True))


@mutation(38, hunt=RAFT)
def a_leader_counts_itself_before_it_is_durable(patch: Patch) -> None:
    patch.setattr(Replication, "_own_match_index", lambda self: self._state.log.last_index)


@mutation(38, hunt=RAFT)
def less_than_a_majority_commits(patch: Patch) -> None:
    original = Replication.follow

    def follow(self: Replication, learner: VoterKey | None) -> None:
        original(self, learner)
        self._majority = max(1, self._majority - 1)

    patch.setattr(Replication, "follow", follow)


@mutation(40, hunt=RAFT)
def a_leader_without_a_majority_stays(patch: Patch) -> None:
    patch.setattr(Leadership, "_hears_quorum", always(answer=True))


@mutation(39, hunt=RAFT)
def answers_come_before_the_commit(patch: Patch) -> None:
    def answer_handed_out(self: RaftState) -> None:
        while self.waiting:
            index, request_id, size = self.waiting.popleft()
            self.waiting_bytes -= size
            self.answer(request_id, index)

    patch.setattr(RaftState, "answer_handed_out", answer_handed_out)


@mutation(39, hunt=RAFT)
def a_lost_leadership_refuses_what_it_has_appended(patch: Patch) -> None:
    def disown_uncommitted(self: RaftState) -> None:
        while self.waiting and self.waiting[-1][0] > self.log.commit_index:
            _, request_id, size = self.waiting.pop()
            self.waiting_bytes -= size
            self.refuse(request_id, Refusal("leadership was lost"))

    patch.setattr(RaftState, "disown_uncommitted", disown_uncommitted)


# -- reading


@mutation(39, hunt=RAFT)
def a_read_needs_no_commit_of_the_own_term(patch: Patch) -> None:
    patch.setattr(ReadBarriers, "_may_ask", always(answer=True))


@mutation(39, hunt=RAFT)
def a_read_needs_no_majority(patch: Patch) -> None:
    patch.setattr(ReadBarriers, "_is_round_confirmed", always(answer=True))


# -- voters


@mutation(41, hunt=RAFT)
def two_voter_changes_at_once(patch: Patch) -> None:
    patch.setattr(Membership, "_is_change_uncommitted", always(answer=False))


@mutation(41, hunt=RAFT)
def voters_change_before_the_term_has_committed(patch: Patch) -> None:
    patch.setattr(Membership, "_has_committed_in_term", always(answer=True))


@mutation(41, hunt=RAFT)
def a_wiped_disk_speaks_for_the_old_one(patch: Patch) -> None:
    """Only node ids are compared: what the new directory says counts as the word of the old one."""

    def is_addressed(self: RaftCore, envelope: Envelope) -> bool:
        return envelope.to.node_id == self.key.node_id

    original = RaftCore._on_received

    def on_received(self: RaftCore, envelope: Envelope) -> None:
        known = self.voters.by_node_id(envelope.sender.node_id)
        sender = envelope.sender if known is None else known.key
        original(self, dataclasses.replace(envelope, sender=sender))

    patch.setattr(RaftCore, "_is_addressed", is_addressed)
    patch.setattr(RaftCore, "_on_received", on_received)


# -- liveness


@mutation(40, hunt=RAFT)
def an_old_leader_is_not_told_that_it_is_old(patch: Patch) -> None:
    patch.setattr(Following, "_reject_old_leader", lambda *_: None)


@mutation(40, hunt=RAFT)
def a_few_entries_wait_although_nothing_is_on_its_way(patch: Patch) -> None:
    def waits_for_more(self: Replication, progress: Progress) -> bool:
        waiting = self._state.log.last_index - progress.next_index + 1
        return waiting < self._state.limits.pipelined_entries_min

    patch.setattr(Replication, "_waits_for_more", waits_for_more)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
