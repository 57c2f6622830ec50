"""How the voters of a new quorum find each other, without anybody handing out ids by hand.

Problem. Every node has a list of voters (node id and address) in its configuration, and formats its own
directory with a random id. A voter is a node id *and* a directory id (rule 41), so before anybody may vote,
all of them have to agree on who has which directory, over a network that loses messages, while nodes crash
and disks are replaced.

Whoever asks its peers once and begins is wrong: node 3 answers node 1, its disk is wiped, and it answers
node 2 under its new directory id. Node 1 would begin with one voter 3 and node 2 with another; each makes a
majority with its own voter 3, and node 3 has in effect voted twice. Hence two phases:

1. *Agree.* A node that has heard from every configured voter, none of which is founded, writes the founding
   set durably. A directory holds at most one founding set in its life. A node that hears from a peer whose
   set names this very directory takes that set over.
2. *Confirm.* It votes only when every other voter of the set, under the directory id that the set names, has
   said that it holds the identical set durably; or when one that has begun says so, which has heard it from
   all.

Why that is safe: two sets that are both in use have no directory in common, because each of their
directories holds its own set and no other. Both name every configured node id, so all disks of the first
were replaced before the second could be confirmed, and nobody is left to use the first.

What it costs: a disk that is wiped in the seconds between the phases leaves a set that can never be
confirmed. Nothing was stored yet, so the way out is to format again, and ``Wait`` says so. A ballot that
replaces such a set was rejected: it would have to be as careful as the consensus that it is there to found.

A node whose peers have begun under another directory id of its own, or without it, stays out: it joins
without a vote, and is removed and added by the operator (rule 41).

Sans-IO: the driver asks (``Identify``), hands answers to ``on_response``, and does what ``decide``
says. What ``answer`` says of this node is durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters

__all__ = [
    "Begin",
    "ConfiguredVoter",
    "Decision",
    "Founding",
    "IdentifyResponse",
    "StayOut",
    "Wait",
    "WriteFounding",
]

_FORMAT_AGAIN: Final = (
    "nothing has been stored yet: stop all voters, remove their quorum directories, and start them again"
)


@dataclass(frozen=True, slots=True, order=True)
class ConfiguredVoter:
    node_id: NodeId
    address: str


@dataclass(frozen=True, slots=True)
class IdentifyResponse:
    """All of it durable at the one who says it."""

    #: None: neither configured nor founded yet
    cluster_id: str | None
    node_id: NodeId
    directory_id: DirectoryId
    #: its configuration, sorted
    configured: tuple[ConfiguredVoter, ...]
    #: None: not founded. Empty: it joined a quorum that others had founded
    founding: Voters | None
    #: it takes part in elections: every voter of ``founding`` holds the same set
    is_confirmed: bool

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask these peers again, in a while."""

    ask: tuple[NodeId, ...]
    #: for people
    reason: str


@dataclass(frozen=True, slots=True)
class WriteFounding:
    """``QuorumDirectory.found``, then ``Founding.on_written``."""

    voters: Voters
    #: None: nobody has configured one, it follows from the voters
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class Begin:
    """``QuorumDirectory.confirm_founding``, then ``Founding.on_confirmed``; then the core may start."""

    voters: Voters


@dataclass(frozen=True, slots=True)
class StayOut:
    """``QuorumDirectory.join``: take entries, never vote, until the operator has added this directory."""

    cluster_id: str | None
    #: for people
    reason: str


Decision: TypeAlias = Wait | WriteFounding | Begin | StayOut


class Founding:
    """``founding`` and ``is_confirmed`` are what the directory holds from an earlier start."""

    def __init__(
        self,
        key: VoterKey,
        *,
        cluster_id: str | None,
        configured: Iterable[ConfiguredVoter],
        founding: Voters | None,
        is_confirmed: bool,
    ) -> None:
        self._key = key
        self._cluster_id = cluster_id
        self._configured = tuple(sorted(configured))
        self._founding = founding
        self._is_confirmed = is_confirmed
        #: the latest from each peer
        self._responses: dict[NodeId, IdentifyResponse] = {}
        #: hold the founding set durably
        self._confirmations: set[NodeId] = set()

    def answer(self) -> IdentifyResponse:
        return IdentifyResponse(
            self._cluster_id,
            self._key.node_id,
            self._key.directory_id,
            self._configured,
            self._founding,
            self._is_confirmed,
        )

    def on_response(self, asked: NodeId, response: IdentifyResponse) -> None:
        """``asked`` is the configured voter at whose address the question was asked."""
        self._responses[asked] = response
        self._count_confirmation(asked, response)

    def on_written(self, voters: Voters, cluster_id: str | None) -> None:
        """The set is durable in this directory."""
        assert self._founding is None, "a directory holds one founding set in its life"
        self._founding = voters
        self._cluster_id = cluster_id
        for asked, response in self._responses.items():
            self._count_confirmation(asked, response)

    def on_confirmed(self) -> None:
        assert self._founding is not None
        self._is_confirmed = True

    def address_of(self, node_id: NodeId) -> str:
        """Where to ask a peer that ``Wait`` names."""
        if self._founding is not None and (voter := self._founding.by_node_id(node_id)) is not None:
            return voter.address
        return next(voter.address for voter in self._configured if voter.node_id == node_id)

    def decide(self) -> Decision:
        if self._founding is not None:
            return self._decide_founded(self._founding)
        if self._key.node_id not in self._node_ids():
            return StayOut(self._cluster_id, "not among the configured voters")
        return self._decide_unfounded(self._peers())

    # --- phase 1: agree ---------------------------------------------------------------------------------

    def _decide_unfounded(self, peers: Sequence[NodeId]) -> Decision:
        stranger = self._first_stranger(peers)
        if stranger is not None:
            return Wait(tuple(peers), stranger)
        # Who has joined was not there when the quorum was founded, and can say nothing about it.
        sets = {response.founding for response in self._responses.values() if response.founding}
        if sets:
            return self._decide_among(sets, peers)
        return self._stay_out_of_a_replaced_quorum() or self._agree(peers)

    def _decide_among(self, sets: set[Voters], peers: Sequence[NodeId]) -> Decision:
        """Some peers are founded."""
        founded = [each for each in self._in_order() if each.founding]
        begun = next((each for each in founded if each.is_confirmed), founded[0])
        assert begun.founding is not None
        if begun.is_confirmed and self._key not in begun.founding:
            return StayOut(
                begun.cluster_id,
                f"voter {begun.node_id} runs a quorum, and directory {self._key.directory_id} of node "
                f"{self._key.node_id} is not one of its voters; for it to vote, remove the node's old "
                "directory from the voters, if there was one, and add this one",
            )
        if begun.is_confirmed:
            # It began only after this very directory had said that it holds the set.
            return Wait(
                tuple(peers),
                f"directory {self._key.directory_id} of node {self._key.node_id} is a voter, and has lost "
                "all that it promised; remove it from the voters, format it anew, and add it",
            )
        if len(sets) == 1 and self._key in begun.founding:
            return WriteFounding(begun.founding, begun.cluster_id)
        return Wait(tuple(peers), f"the voters cannot agree any more, a disk was replaced; {_FORMAT_AGAIN}")

    def _stay_out_of_a_replaced_quorum(self) -> StayOut | None:
        """All who founded the quorum were replaced in the course of time, and it runs.

        A majority has to say so: one that joined elsewhere, and was put here by mistake, must not make the
        others give up founding for ever.
        """
        joined = [each for each in self._in_order() if each.founding is not None]
        if len(joined) <= len(self._configured) // 2:
            return None
        return StayOut(
            joined[0].cluster_id,
            f"voters {[each.node_id for each in joined]} are members of a quorum; for directory "
            f"{self._key.directory_id} of node {self._key.node_id} to vote, remove the node's old directory "
            "from the voters and add this one",
        )

    def _agree(self, peers: Sequence[NodeId]) -> Decision:
        missing = tuple(peer for peer in peers if peer not in self._responses)
        if missing:
            return Wait(missing, f"no answer yet from voters {list(missing)}")
        joined = [each.node_id for each in self._in_order() if each.founding is not None]
        if joined:
            return Wait(tuple(peers), f"voters {joined} have joined another quorum")
        directories = {self._key.node_id: self._key}
        directories |= {each.node_id: each.key for each in self._in_order()}
        members = (Voter(directories[each.node_id], each.address) for each in self._configured)
        return WriteFounding(Voters(tuple(members)), self._cluster_id)

    def _first_stranger(self, peers: Sequence[NodeId]) -> str | None:
        """Why somebody who answered cannot be a voter of the same quorum."""
        for asked in peers:
            response = self._responses.get(asked)
            if response is None:
                continue
            if response.node_id != asked:
                return f"node {response.node_id} answers at the address of voter {asked}"
            ours, theirs = self._cluster_id, response.cluster_id
            # Who is founded has a cluster id, configured or not.
            is_known = response.founding is None or ours is not None
            if is_known and ours != theirs:
                return f"voter {asked} belongs to cluster {theirs}, this node to {ours}"
            if response.founding is None and response.configured != self._configured:
                return f"voter {asked} has other controller.voters in its configuration"
        return None

    # --- phase 2: confirm -------------------------------------------------------------------------------

    def _decide_founded(self, founding: Voters) -> Decision:
        if self._is_confirmed:
            return Begin(founding)
        others = [voter.key.node_id for voter in founding if voter.key != self._key]
        missing = tuple(node_id for node_id in others if node_id not in self._confirmations)
        if not missing:
            return Begin(founding)
        for node_id in missing:
            response = self._responses.get(node_id)
            if response is not None and response.key not in founding:
                reason = f"the disk of voter {node_id} was replaced before all had agreed; {_FORMAT_AGAIN}"
                return Wait(missing, reason)
        return Wait(missing, f"voters {list(missing)} have not confirmed the founding set yet")

    def _count_confirmation(self, asked: NodeId, response: IdentifyResponse) -> None:
        founding = self._founding
        if founding is None or response.founding != founding or response.key not in founding:
            return
        if response.node_id != asked:
            return
        self._confirmations.add(asked)
        if response.is_confirmed:
            # It has heard it from all.
            self._confirmations |= {voter.key.node_id for voter in founding}

    # --- the configuration ----------------------------------------------------------------------------

    def _node_ids(self) -> tuple[NodeId, ...]:
        return tuple(voter.node_id for voter in self._configured)

    def _peers(self) -> tuple[NodeId, ...]:
        return tuple(node_id for node_id in self._node_ids() if node_id != self._key.node_id)

    def _in_order(self) -> list[IdentifyResponse]:
        return [self._responses[asked] for asked in sorted(self._responses)]
