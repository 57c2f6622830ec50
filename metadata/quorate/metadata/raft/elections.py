"""Elections: who may lead, and who may not even ask.

**Problem.** At most one voter may win a term, and only one whose log holds every committed entry. And an
election must not be held without need: it interrupts everybody.

**Safety** rests on three decisions, each in a method of its own:

- one vote per term and voter, durable before it is told (``_may_grant_vote``; rule 38);
- no vote for a log that is behind (``_is_log_up_to_date``): a majority holds each committed entry, a
  majority elects, so one of the electors knows better;
- a candidate counts only voters in force, in full identity, and itself only once its own vote is durable
  (``_counts_vote_of``, ``on_persisted``; rule 41).

**Calm** rests on the others (rule 40). A voter first asks whether it *would* be elected (pre-vote), which
changes nothing for those who are asked. A follower that hears from its leader ignores both kinds of request
(``_protects_leader``), so a voter that is cut off, or removed without knowing it, cannot depose a leader
that works. Two ways to get stuck are left, and closed elsewhere: a follower that rejects its leader's
entries still restarts its timer (``RaftState.heard_from_leader``), and a voter that came into a higher term
than its leader says so when it rejects an append, which ends the old leadership, since nobody would hear its
request for votes (``Following``).

**Haste.** A leader whose process ended is seen to be gone: its machine refuses connections. Then the voters
do not wait for a time-out that is meant for silence (``on_peer_gone``). A false alarm costs an election.

A pre-vote is refused with the refuser's term, and a lower-term asker adopts it: otherwise the one with the
best log and a low term would be refused for ever by one with a bad log and a high term.

**Rejected:** leases in place of rounds for reads (they rest on clocks), and priorities among voters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.leadership import Leadership
from quorate.metadata.raft.messages import TimeoutNow, VoteRequest, VoteResponse
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey

__all__ = ["Campaign", "Elections"]


@dataclass(slots=True)
class Campaign:
    """One question to all voters, and their answers."""

    is_pre_vote: bool
    #: False: it waits for the candidate's own disk
    is_asked: bool
    granted: set[VoterKey] = field(default_factory=set)
    refused: set[VoterKey] = field(default_factory=set)


class Elections:
    def __init__(self, state: RaftState) -> None:
        self._state = state

    # --- asking -----------------------------------------------------------------------------------

    def on_timeout(self) -> None:
        """No leader was heard of for an election time-out."""
        state = self._state
        state.arm_election_timer()
        if self._is_question_held_back():
            return
        state.become_follower(None)
        if self._may_campaign():
            self._ask_for_pre_votes()

    def on_peer_gone(self, peer: VoterKey) -> None:
        """There is no leader to protect any more, and no reason to wait for a whole time-out."""
        state = self._state
        if state.role is Role.FOLLOWER and state.leader == peer:
            state.become_follower(None)
            state.hasten_election()

    def on_timeout_now(self, message: TimeoutNow) -> None:
        """The leader wants this voter to take over."""
        state = self._state
        if message.term == state.term and state.role is Role.FOLLOWER and self._may_campaign():
            state.arm_election_timer()
            self._ask_for_votes(is_transfer=True)

    def on_vote_response(self, sender: VoterKey, response: VoteResponse) -> None:
        state = self._state
        campaign = state.campaign
        if campaign is None or campaign.is_pre_vote is not response.is_pre_vote:
            return
        if not self._answers_this_campaign(response) or not self._counts_vote_of(sender):
            return
        (campaign.granted if response.is_granted else campaign.refused).add(sender)
        self._conclude(campaign)

    def on_persisted(self) -> None:
        """The candidate's vote for itself counts once it can no longer be forgotten (rule 38)."""
        state = self._state
        campaign = state.campaign
        if campaign is None or campaign.is_asked or not self._is_own_vote_durable():
            return
        campaign.is_asked = True
        state.arm_election_timer()  # the others hear of it only now
        self._grant_itself(campaign)

    def _ask_for_pre_votes(self) -> None:
        state = self._state
        state.role = Role.PRE_CANDIDATE
        state.campaign = Campaign(is_pre_vote=True, is_asked=True)
        self._ask(Term(state.term + 1), is_pre_vote=True, is_transfer=False)
        self._grant_itself(state.campaign)

    def _ask_for_votes(self, *, is_transfer: bool) -> None:
        state = self._state
        state.enter_term(self._next_term())
        state.vote = state.key
        state.role = Role.CANDIDATE
        state.campaign = Campaign(is_pre_vote=False, is_asked=False)
        self._ask(state.term, is_pre_vote=False, is_transfer=is_transfer)

    def _ask(self, term: Term, *, is_pre_vote: bool, is_transfer: bool) -> None:
        state = self._state
        request = VoteRequest(
            term=term,
            last_index=state.log.last_index,
            last_term=state.log.last_term,
            is_pre_vote=is_pre_vote,
            is_transfer=is_transfer,
        )
        # A candidate that forgot that it has asked would be free to vote for another in the same term.
        send = state.send_once_hard_state_durable if is_pre_vote else state.send_once_durable
        for voter in state.log.voters:
            if voter.key != state.key:
                send(voter.key, request)

    def _is_question_held_back(self) -> bool:
        """A candidate whose disk is slow has not asked anybody yet: to start over would only take longer."""
        campaign = self._state.campaign
        return campaign is not None and not campaign.is_asked

    def _grant_itself(self, campaign: Campaign) -> None:
        """Its own vote, if it has one: it may be about to leave the voters."""
        if self._counts_vote_of(self._state.key):
            campaign.granted.add(self._state.key)
        self._conclude(campaign)

    def _conclude(self, campaign: Campaign) -> None:
        state = self._state
        if self._is_majority(len(campaign.granted)):
            if campaign.is_pre_vote:
                state.arm_election_timer()
                self._ask_for_votes(is_transfer=False)
            else:
                self._become_leader()
        elif self._is_majority(len(campaign.refused)):
            state.become_follower(None)

    def _become_leader(self) -> None:
        state = self._state
        state.campaign = None
        state.role = Role.LEADER
        state.leader = state.key
        state.leadership = Leadership(state)
        state.leadership.start()

    # --- being asked ------------------------------------------------------------------------------

    def on_vote_request(self, sender: VoterKey, request: VoteRequest) -> None:
        if self._protects_leader(request):
            return
        if request.is_pre_vote:
            self._answer_pre_vote(sender, request)
        else:
            self._answer_vote(sender, request)

    def _answer_pre_vote(self, sender: VoterKey, request: VoteRequest) -> None:
        state = self._state
        is_granted = self._may_grant_pre_vote(sender, request)
        term = request.term if is_granted else state.term
        state.send_once_hard_state_durable(sender, VoteResponse(term, is_granted, is_pre_vote=True))

    def _answer_vote(self, sender: VoterKey, request: VoteRequest) -> None:
        state = self._state
        if request.term > state.term:
            state.enter_term(request.term)
        is_granted = self._may_grant_vote(sender, request)
        if is_granted:
            # A pre-candidate gives up its own question: going on would disturb the one it has just elected.
            state.become_follower(None)
            state.vote = sender
            state.arm_election_timer()
        state.send_once_durable(sender, VoteResponse(state.term, is_granted, is_pre_vote=False))

    # --- the rules --------------------------------------------------------------------------------

    def _may_campaign(self) -> bool:
        """Neither one that is no voter, nor one that may have lost what it acknowledged.

        One whose removal is in its log and not known to be committed is needed still: where two voters were
        and it has the longer log, the other cannot be elected, and only this one can bring it the removal.
        """
        state = self._state
        is_voter = state.key in state.log.voters or state.key in state.log.committed_voters
        return is_voter and not state.is_recovering

    def _next_term(self) -> Term:
        return Term(self._state.term + 1)

    def _protects_leader(self, request: VoteRequest) -> bool:
        """Somebody wants to depose a leader that this voter has just heard from."""
        state = self._state
        if request.is_transfer:
            return False
        if state.role is Role.LEADER:
            return True
        heard_s_ago = state.now - state.leader_heard_at
        return state.leader is not None and heard_s_ago < state.timing.election_timeout_min_s

    def _may_grant_pre_vote(self, sender: VoterKey, request: VoteRequest) -> bool:
        state = self._state
        could_vote = request.term > state.term or self._has_vote_for(sender, request.term)
        return could_vote and self._may_vote() and self._is_log_up_to_date(request)

    def _may_grant_vote(self, sender: VoterKey, request: VoteRequest) -> bool:
        return (
            self._has_vote_for(sender, request.term) and self._may_vote() and self._is_log_up_to_date(request)
        )

    def _has_vote_for(self, sender: VoterKey, term: Term) -> bool:
        """One vote per term; the same candidate may be told again."""
        state = self._state
        if term != state.term or state.leader is not None:
            return False
        return state.vote is None or state.vote == sender

    def _may_vote(self) -> bool:
        """One that lost part of its log would vote for logs that lack what it has acknowledged (rule 38)."""
        return not self._state.is_recovering

    def _is_log_up_to_date(self, request: VoteRequest) -> bool:
        """The election restriction: the candidate's log ends in a later term, or is as long in the same."""
        return (request.last_term, request.last_index) >= self._state.last_log_position

    def _answers_this_campaign(self, response: VoteResponse) -> bool:
        """A vote names the term that was asked for; a refused pre-vote names the term of the refuser."""
        term = self._state.term
        if response.is_pre_vote:
            return not response.is_granted or response.term == term + 1
        return response.term == term

    def _counts_vote_of(self, sender: VoterKey) -> bool:
        return sender in self._state.log.voters

    def _is_own_vote_durable(self) -> bool:
        return self._state.is_hard_state_durable

    def _is_majority(self, count: int) -> bool:
        return count >= self._state.log.voters.majority
