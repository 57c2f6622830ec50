"""What keeps a controller from being ready: whoever replaces nodes one by one goes by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.controller.controller import Controller
from quorate.core.clock import SystemClock
from quorate.core.config import HostPort, NodeConfig
from quorate.core.ids import BrokerId
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.node.node import Node

CONFIG = NodeConfig(node_id=BrokerId(101), data_dir="/data", listeners=(HostPort("node", 9092),))
KEY = VoterKey(NodeId(101), DirectoryId("own"))
OTHERS = tuple(Voter(VoterKey(NodeId(number), DirectoryId("d")), "c:1") for number in (102, 103))
VOTERS = Voters((Voter(KEY, "c:1"), *OTHERS))


async def missing(*, hears_leader: bool = True, **status: Any) -> list[str]:
    known = {"key": KEY, "voters": VOTERS, "is_recovering": False, "is_running": True, "waiting_for": ""}
    known |= status
    quorum = SimpleNamespace(status=SimpleNamespace(**known))
    controller = SimpleNamespace(hears_leader=hears_leader, _quorum=quorum)
    node = Node(CONFIG, SystemClock(), broker=None, controller=cast(Controller, controller), servers=[])
    return await node.missing()


async def test_voter_that_hears_the_leader_is_ready() -> None:
    assert await missing() == []


async def test_voter_that_hears_nobody_is_not_ready() -> None:
    assert await missing(hears_leader=False) == ["no controller is known to be active"]


@pytest.mark.parametrize("waiting_for", ["", "no answer yet from voters [103]"])
async def test_controller_that_founds_a_quorum_says_for_whom_it_waits(waiting_for: str) -> None:
    """Nobody has a vote yet; what is missing is the others."""
    status = {"is_running": False, "voters": Voters(()), "waiting_for": waiting_for}
    [told] = await missing(hears_leader=False, **status)
    assert told == f"this controller takes no part in a quorum yet: {waiting_for or 'it is starting'}"


@pytest.mark.parametrize("hears_leader", [True, False])
async def test_controller_whose_directory_has_no_vote_is_not_ready(hears_leader: bool) -> None:
    """Its disk was wiped: the voter that the others count with is another one, and gone.

    They do not talk to this one. To look for an active controller would be to look in the wrong place.
    """
    namesake = Voter(VoterKey(NodeId(101), DirectoryId("before")), "c:1")
    for voters in (Voters((namesake, *OTHERS)), Voters(())):
        [told] = await missing(hears_leader=hears_leader, voters=voters)
        assert told.startswith("this controller has no vote in the quorum")


async def test_voter_that_recovers_is_not_ready() -> None:
    [told] = await missing(is_recovering=True)
    assert "does not count" in told
