"""Founding: never two founding sets in use, whatever is lost, late, crashed or wiped."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from quorate.metadata.raft.founding import (
    Begin,
    Decision,
    Founding,
    IdentifyResponse,
    StayOut,
    Wait,
    WriteFounding,
)
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from tests.raft.founding_model import (
    Node,
    World,
    act,
    check_safe,
    configured,
    explore,
    first_world,
    founding_of,
    hear,
    random_world,
)


def voters(*directories: str) -> Voters:
    """The n-th directory belongs to node n."""
    members = enumerate(directories, start=1)
    return Voters(
        tuple(Voter(VoterKey(NodeId(each), DirectoryId(name)), f"host{each}:1") for each, name in members)
    )


def answer(node_id: int, directory: str, **changes: object) -> IdentifyResponse:
    response = IdentifyResponse("c", NodeId(node_id), DirectoryId(directory), configured(3), None, False)
    return replace(response, **changes)  # type: ignore[arg-type]


def node_1(*heard: IdentifyResponse, cluster_id: str | None = "c") -> Founding:
    founding = Founding(
        VoterKey(NodeId(1), DirectoryId("a")),
        cluster_id=cluster_id,
        configured=configured(3),
        founding=None,
        is_confirmed=False,
    )
    for each in heard:
        founding.on_response(each.node_id, each)
    return founding


def reason_of(decision: Decision) -> str:
    assert isinstance(decision, Wait | StayOut)
    return decision.reason


# --- all that can happen ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "wipes", "crashes"), [(1, 2, 1), (2, 2, 1), (2, 3, 0), (3, 0, 0)])
def test_no_order_of_events_brings_two_founding_sets_into_use(count: int, wipes: int, crashes: int) -> None:
    assert explore(first_world(count, wipes=wipes, crashes=crashes)) > count


def test_random_walks_of_three_and_five_never_bring_two_founding_sets_into_use() -> None:
    begun = 0
    for seed in range(150):
        rng = random.Random(seed)
        world = random_world(rng, count=rng.choice((3, 3, 5)), steps=150, wipes=rng.randint(0, 4))
        begun += any(node.is_confirmed and node.founding for node in world.nodes)
    assert begun > 20


class OnePhase(Founding):
    """Takes part as soon as its own set is durable."""

    def _decide_founded(self, founding: Voters) -> Decision:
        return Begin(founding)


class AnyDirectory(Founding):
    """Takes the confirmation of a node, whichever directory it has now."""

    def _count_confirmation(self, asked: NodeId, response: IdentifyResponse) -> None:
        if self._founding is not None and response.founding is not None:
            self._confirmations.add(asked)


@pytest.mark.parametrize("broken", [OnePhase, AnyDirectory])
def test_the_search_finds_what_a_missing_rule_lets_happen(broken: type[Founding]) -> None:
    with pytest.raises(AssertionError, match="two founding sets"):
        explore(first_world(2, wipes=2), broken)


def test_without_wipes_all_begin_with_one_set_in_spite_of_lost_answers_and_crashes() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        world = random_world(rng, count=3, steps=100, wipes=0)
        for _ in range(4):
            world = ask_and_act_once(world)
        check_safe(world)
        assert all(node.is_confirmed for node in world.nodes)


def ask_and_act_once(world: World) -> World:
    """Everybody hears from everybody."""
    for number in range(3):
        node = world.nodes[number]
        for peer in world.nodes:
            if peer.node_id != node.node_id:
                node = hear(node, peer.node_id, founding_of(peer, 3).answer())
        world = world.with_node(act(node, founding_of(node, 3).decide()))
    return world


# --- one decision at a time ---------------------------------------------------------------------------------


def test_single_voter_founds_and_begins_at_once() -> None:
    node = Node(1, heard=(None,))
    founded = act(node, founding_of(node, 1).decide())
    assert founded.founding == voters("1-0")
    assert founding_of(founded, 1).decide() == Begin(voters("1-0"))


def test_founding_waits_for_the_last_of_the_configured_voters() -> None:
    decision = node_1(answer(2, "b")).decide()
    assert isinstance(decision, Wait)
    assert decision.ask == (3,)


def test_founding_set_names_every_voter_with_its_directory_and_address() -> None:
    decision = node_1(answer(2, "b"), answer(3, "c")).decide()
    assert decision == WriteFounding(voters("a", "b", "c"), "c")


def test_newer_answer_of_a_wiped_voter_counts_before_anything_is_written() -> None:
    decision = node_1(answer(2, "b"), answer(3, "c"), answer(3, "d")).decide()
    assert decision == WriteFounding(voters("a", "b", "d"), "c")


def test_set_of_a_peer_that_names_this_directory_is_taken_over() -> None:
    theirs = voters("a", "b", "x")
    decision = node_1(answer(2, "b", founding=theirs, cluster_id="c")).decide()
    assert decision == WriteFounding(theirs, "c")


def test_cluster_id_is_taken_over_with_the_set() -> None:
    theirs = voters("a", "b", "x")
    decision = node_1(answer(2, "b", founding=theirs), cluster_id=None).decide()
    assert decision == WriteFounding(theirs, "c")


def test_own_set_is_no_reason_to_begin_before_all_others_hold_it() -> None:
    founding = node_1(answer(2, "b"), answer(3, "c"))
    agreed = voters("a", "b", "c")
    founding.on_written(agreed, "c")
    founding.on_response(NodeId(2), answer(2, "b", founding=agreed))
    decision = founding.decide()
    assert isinstance(decision, Wait)
    assert decision.ask == (3,)
    founding.on_response(NodeId(3), answer(3, "c", founding=agreed))
    assert founding.decide() == Begin(agreed)


def test_one_that_has_begun_vouches_for_all() -> None:
    agreed = voters("a", "b", "c")
    founding = node_1(answer(2, "b", founding=agreed, is_confirmed=True))
    founding.on_written(agreed, "c")
    assert founding.decide() == Begin(agreed)


def test_directory_that_a_running_quorum_counts_on_and_that_is_empty_does_not_vote() -> None:
    """The others began only after it had said that it holds the set: it has lost votes and entries since."""
    decision = node_1(answer(2, "b", founding=voters("a", "b", "c"), is_confirmed=True)).decide()
    assert isinstance(decision, Wait)
    assert "lost all that it promised; remove it from the voters" in decision.reason


def test_confirmation_under_another_directory_does_not_count() -> None:
    agreed = voters("a", "b", "c")
    founding = node_1(answer(2, "b", founding=agreed), answer(3, "new", founding=agreed))
    founding.on_written(agreed, "c")
    decision = founding.decide()
    assert "disk of voter 3 was replaced" in reason_of(decision)
    assert "remove their quorum directories" in reason_of(decision)


def test_started_quorum_without_this_directory_keeps_it_out_and_says_what_to_do() -> None:
    decision = node_1(answer(2, "b", founding=voters("old", "b", "c"), is_confirmed=True)).decide()
    assert isinstance(decision, StayOut)
    assert decision.cluster_id == "c"
    assert "remove the node's old directory" in decision.reason


def test_set_without_this_directory_that_never_began_is_waited_out() -> None:
    """Whether it ever will is not known: to vote beside it would be wrong, to join it would be for ever."""
    decision = node_1(answer(2, "b", founding=voters("old", "b", "c")), answer(3, "c")).decide()
    assert isinstance(decision, Wait)
    assert "cannot agree" in decision.reason


def test_two_different_sets_are_never_chosen_between() -> None:
    heard = (answer(2, "b", founding=voters("a", "b", "x")), answer(3, "c", founding=voters("a", "y", "c")))
    assert "cannot agree" in reason_of(node_1(*heard).decide())


def test_quorum_whose_founders_were_all_replaced_is_stayed_out_of() -> None:
    joined = [
        answer(node_id, name, founding=Voters(()), is_confirmed=True)
        for node_id, name in ((2, "b"), (3, "c"))
    ]
    assert isinstance(node_1(*joined).decide(), StayOut)
    assert isinstance(node_1(joined[0]).decide(), Wait)


def test_node_that_is_not_configured_as_a_voter_stays_out() -> None:
    key = VoterKey(NodeId(9), DirectoryId("z"))
    founding = Founding(key, cluster_id=None, configured=configured(3), founding=None, is_confirmed=False)
    assert isinstance(founding.decide(), StayOut)


@pytest.mark.parametrize(
    ("stranger", "reason"),
    [
        (answer(3, "c", cluster_id="other"), "belongs to cluster other"),
        (answer(3, "c", cluster_id=None), "belongs to cluster None"),
        (answer(3, "c", configured=configured(4)), "other controller.voters"),
        (answer(3, "c", founding=Voters(()), is_confirmed=True), "joined another quorum"),
    ],
)
def test_stranger_is_not_founded_with(stranger: IdentifyResponse, reason: str) -> None:
    assert reason in reason_of(node_1(answer(2, "b"), stranger).decide())


def test_wrong_node_at_the_address_of_a_voter_is_not_founded_with() -> None:
    founding = node_1(answer(2, "b"))
    founding.on_response(NodeId(3), answer(2, "b"))
    assert "node 2 answers at the address of voter 3" in reason_of(founding.decide())


def test_restart_after_the_confirmation_needs_nobody() -> None:
    agreed = voters("a", "b", "c")
    key = VoterKey(NodeId(1), DirectoryId("a"))
    founding = Founding(key, cluster_id="c", configured=configured(3), founding=agreed, is_confirmed=True)
    assert founding.decide() == Begin(agreed)
    assert founding.answer().is_confirmed
