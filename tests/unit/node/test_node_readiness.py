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
    known = {"key": KEY, "voters": VOTERS, "is_recovering": False, "is_running": True, **status}
    quorum = SimpleNamespace(status=SimpleNamespace(**known))
    controller = SimpleNamespace(hears_leader=hears_leader, _quorum=quorum)
    node = Node(CONFIG, SystemClock(), broker=None, controller=cast(Controller, controller), servers=[])
    return await node.missing()


async def test_voter_that_hears_the_leader_is_ready() -> None:
    assert await missing() == []


@pytest.mark.parametrize("is_running", [True, False])
async def test_controller_that_hears_nobody_says_only_that(is_running: bool) -> None:
    """At the founding of a quorum nobody has a vote yet; what is missing then is the others."""
    found = await missing(hears_leader=False, is_running=is_running, voters=Voters(()))
    assert found == ["no controller is known to be active"]


async def test_controller_whose_directory_has_no_vote_is_not_ready() -> None:
    """Its disk was wiped: the voter that the others count with is another one, and gone."""
    namesake = Voter(VoterKey(NodeId(101), DirectoryId("before")), "c:1")
    [told] = await missing(voters=Voters((namesake, *OTHERS)))
    assert told.startswith("this controller has no vote in the quorum")


async def test_voter_that_recovers_is_not_ready() -> None:
    [told] = await missing(is_recovering=True)
    assert "does not count" in told
