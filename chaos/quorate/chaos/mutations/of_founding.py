"""Mutations of how a quorum is founded, and of who may belong to it (rules 32 and 41).

That nobody chooses between two sets is covered by the second phase as long as only one of both is switched
off: in no order of events is either of the two confirmed then.
"""

from __future__ import annotations

from typing import Any, Final

from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.founding_stories import (
    a_directory_of_another_cluster_is_not_registered,
    a_voter_with_an_empty_disk_is_removed_and_added,
    a_voter_with_the_directory_of_another_refuses_to_start,
    before_there_is_a_cluster,
    voters_of_two_clusters_found_none,
)
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.promise_hunts import PromiseHunt
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, controller_service
from quorate.metadata.raft import quorum_directory
from quorate.metadata.raft.founding import (
    Begin,
    Decision,
    Founding,
    IdentifyResponse,
    StayOut,
    Wait,
    WriteFounding,
)
from quorate.metadata.raft.voters import NodeId, Voters
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["MUTATIONS"]

#: of two nodes, whatever crashes and whichever disks are replaced meanwhile
_EVERY_ORDER: Final = PromiseHunt(
    "every order of events in a founding",
    "tests.raft.test_founding",
    "test_no_order_of_events_brings_two_founding_sets_into_use",
    ((2, 2, 1),),
)


@mutation(41, hunt=_EVERY_ORDER)
def a_founder_votes_before_the_others_hold_its_set(patch: Patch) -> None:
    """It takes part as soon as its own set is durable: one phase in place of two."""
    patch.setattr(Founding, "_decide_founded", lambda _, founding: Begin(founding))


@mutation(41, hunt=_EVERY_ORDER)
def a_founding_set_is_confirmed_by_any_directory(patch: Patch) -> None:
    """Who answers for a node counts, whichever disk and whichever set it has by now."""

    def count_confirmation(self: Founding, asked: NodeId, response: IdentifyResponse) -> None:
        if self._founding is not None and response.founding is not None:
            self._confirmations.add(asked)

    patch.setattr(Founding, "_count_confirmation", count_confirmation)


@mutation(41, hunt=_EVERY_ORDER)
def a_founding_set_is_taken_over_that_names_another_directory(patch: Patch) -> None:
    """A node whose disk was replaced believes whoever is founded."""
    original = Founding._decide_among

    def decide_among(self: Founding, sets: set[Voters], peers: Any) -> Decision:
        decision = original(self, sets, peers)
        if isinstance(decision, StayOut | Wait) and len(sets) == 1:
            return WriteFounding(next(iter(sets)), self._cluster_id)
        return decision

    patch.setattr(Founding, "_decide_among", decide_among)


@mutation(41, hunt=before_there_is_a_cluster(voters_of_two_clusters_found_none))
def voters_of_two_clusters_found_one(patch: Patch) -> None:
    """Nobody compares cluster ids, or who else is configured."""
    patch.setattr(Founding, "_first_stranger", lambda *_: None)


@mutation(41, hunt=cluster_story(a_voter_with_an_empty_disk_is_removed_and_added))
def a_voter_with_an_empty_disk_waits_to_found(patch: Patch) -> None:
    """It never joins the quorum that runs without it, so nobody can add it."""
    original = Founding.decide

    def decide(self: Founding) -> Decision:
        decision = original(self)
        return Wait(self._peers(), decision.reason) if isinstance(decision, StayOut) else decision

    patch.setattr(Founding, "decide", decide)


@mutation(41, hunt=cluster_story(a_voter_with_the_directory_of_another_refuses_to_start))
def a_voter_takes_any_directory(patch: Patch) -> None:
    """It does not look whose it is: of which node, and of which cluster."""
    patch.setattr(quorum_directory, "_check_owner", lambda *_: None)


@mutation(32, hunt=cluster_story(a_directory_of_another_cluster_is_not_registered))
def a_directory_of_another_cluster_is_registered(patch: Patch) -> None:
    original = brokers.register_broker

    def register(image: Any, request: RegisterBrokerRequest, *arguments: Any, **more: Any) -> Any:
        copied = RegisterBrokerRequest()
        copied.CopyFrom(request)
        copied.cluster_id = ""
        return original(image, copied, *arguments, **more)

    patch.setattr(controller_service, "register_broker", register)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
