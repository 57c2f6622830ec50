"""Voter changes are answered once they are committed, by a controller that leads (rules 39, 41)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.decision import Decision
from quorate.controller.quorum_administration import QuorumAdministration
from quorate.errors import ControllerMoved, NotController, UnsupportedFeatureLevel
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.v1 import admin_pb2, controller_pb2

T = TypeVar("T")


def _voters(*node_ids: int) -> Voters:
    return Voters(
        tuple(Voter(VoterKey(NodeId(each), DirectoryId(f"d{each}")), f"c{each}:1") for each in node_ids)
    )


_ME = VoterKey(NodeId(1), DirectoryId("d1"))


@dataclass
class _Status:
    voters: Voters
    committed_voters: Voters
    role: Role = Role.LEADER
    term: int = 1
    cluster_id: str = "c"
    key: VoterKey = _ME


@dataclass
class _Quorum:
    """Stands for the quorum and for the active controller on it."""

    status: _Status
    removed: list[VoterKey] = field(default_factory=list)
    is_leader: bool = True

    async def remove_voter(self, key: VoterKey) -> None:
        self.removed.append(key)
        self.status.voters = self.status.committed_voters = self.status.voters.without(key)

    async def change(self, decide: Callable[[MetadataImage, int], Decision[T]]) -> T:
        return decide(EMPTY_IMAGE, 1).response

    async def confirm(self) -> None:
        if not self.is_leader:
            raise NotController("not here")


def _administration(simulation: Simulation, quorum: Any) -> QuorumAdministration:
    nothing: Any = None
    return QuorumAdministration(
        quorum, quorum, nothing, transport=nothing, clock=simulation.clock, silence_s_max=1.0
    )


def test_a_removal_that_is_in_force_and_not_committed_is_not_answered_yet() -> None:
    async def scenario(simulation: Simulation) -> None:
        quorum = _Quorum(_Status(voters=_voters(1, 2), committed_voters=_voters(1, 2, 3)))
        request = admin_pb2.RemoveVoterRequest(node_id=3)
        answer = asyncio.create_task(_administration(simulation, quorum).remove_voter(request))
        await asyncio.sleep(5)
        assert not answer.done()
        quorum.status.committed_voters = quorum.status.voters
        await answer
        assert quorum.removed == []

    run_simulation(scenario, seed=1)


def test_a_removal_whose_leader_is_deposed_has_an_unknown_outcome() -> None:
    async def scenario(simulation: Simulation) -> None:
        quorum = _Quorum(_Status(voters=_voters(1, 2), committed_voters=_voters(1, 2, 3)))
        request = admin_pb2.RemoveVoterRequest(node_id=3)
        answer = asyncio.create_task(_administration(simulation, quorum).remove_voter(request))
        await asyncio.sleep(1)
        quorum.status.role = Role.FOLLOWER
        with pytest.raises(ControllerMoved):
            await answer

    run_simulation(scenario, seed=1)


def test_who_does_not_lead_answers_no_voter_change() -> None:
    async def scenario(simulation: Simulation) -> None:
        quorum = _Quorum(_Status(voters=_voters(1, 2), committed_voters=_voters(1, 2)), is_leader=False)
        administration = _administration(simulation, quorum)
        with pytest.raises(NotController):
            await administration.remove_voter(admin_pb2.RemoveVoterRequest(node_id=3))
        with pytest.raises(NotController):
            await administration.add_voter(admin_pb2.AddVoterRequest(node_id=2, address="c2:1"))

    run_simulation(scenario, seed=1)


@pytest.mark.parametrize("joined_meanwhile", [False, True])
def test_a_level_is_not_raised_for_voters_that_were_not_asked(
    monkeypatch: pytest.MonkeyPatch, joined_meanwhile: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        quorum = _Quorum(_Status(voters=_voters(1, 2), committed_voters=_voters(1, 2)))

        async def ask(_self: object, address: str, *_: object) -> controller_pb2.DescribeImageResponse:
            assert address == "c2:1"
            if joined_meanwhile:
                quorum.status.voters = quorum.status.committed_voters = _voters(1, 2, 3)
            return controller_pb2.DescribeImageResponse(feature_level_min=1, feature_level_max=1)

        monkeypatch.setattr(QuorumAdministration, "_ask", ask)
        update = _administration(simulation, quorum).update_feature_level(
            admin_pb2.UpdateFeatureLevelRequest(level=1)
        )
        if joined_meanwhile:
            with pytest.raises(UnsupportedFeatureLevel, match="ask again"):
                await update
        else:
            assert (await update).level == 1

    run_simulation(scenario, seed=1)
