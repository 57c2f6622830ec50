"""``quorate cluster rolling-restart``: the order, what is refused, and what is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quorate.chaos.drills.agent import AgentNode
from quorate.console.main import main
from quorate.console.rolling import roll as rolling
from quorate.console.rolling.roll import NotSettled, Restarted, Roll, UnsafeToRestart
from quorate.errors import Unavailable
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration

Capsys = pytest.CaptureFixture[str]

SAFE = admin_pb2.CheckBrokerRestartResponse(is_safe=True)
APART = [
    *(AgentNode(f"broker-{id_}", id_, ("broker",)) for id_ in (1, 2)),
    *(AgentNode(f"controller-{id_}", id_, ("controller",)) for id_ in (101, 102, 103)),
]
COMBINED = [AgentNode(f"node-{id_}", id_, ("controller", "broker")) for id_ in (1, 2, 3)]


def described(controller: int = 101, **fields: Any) -> admin_pb2.DescribeClusterResponse:
    return admin_pb2.DescribeClusterResponse(cluster_id="c", controller=controller, **fields)


def quorum(*states: str, first: int = 101) -> admin_pb2.DescribeQuorumResponse:
    voters = [
        admin_pb2.VoterDescription(node_id=first + index, state=state) for index, state in enumerate(states)
    ]
    return admin_pb2.DescribeQuorumResponse(leader=first, voters=voters)


SOUND = quorum("leader", "follower", "follower")


class FakeRestarter:
    bootstrap = "b:1"

    def __init__(self, nodes: Sequence[AgentNode]) -> None:
        self.nodes = nodes
        self.restarted: list[str] = []

    async def restart(self, name: str) -> None:
        self.restarted.append(name)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "_POLL_S", 0.0)
    monkeypatch.setattr(rolling, "_STEADY_S", 0.0)


async def roll(
    restarter: FakeRestarter, *, is_forced: bool = False, timeout_s: float = 60.0, **answers: Any
) -> tuple[list[Restarted], list[str]]:
    told: list[str] = []
    cluster = FakeAdministration(**answers)
    in_turn = Roll(
        restarter,
        timeout_s=timeout_s,
        is_forced=is_forced,
        tell=told.append,
        connected=lambda _bootstrap: cluster,  # type: ignore[arg-type,return-value]  # answers as it is told
    )
    return await in_turn.run(restarter.nodes), told


async def test_controllers_go_first_and_the_active_one_last_of_them() -> None:
    restarter = FakeRestarter(APART)
    done, told = await roll(
        restarter, describe_cluster=described(101), describe_quorum=SOUND, check_broker_restart=SAFE
    )
    assert restarter.restarted == [
        "controller-102",
        "controller-103",
        "controller-101",
        "broker-1",
        "broker-2",
    ]
    assert [each.name for each in done] == restarter.restarted
    assert told[0] == "1/5 controller-102: stopping and starting it"


async def test_office_moves_once_where_nodes_are_both() -> None:
    restarter = FakeRestarter(COMBINED)
    answers: dict[str, Any] = {"describe_quorum": quorum("follower", "leader", "follower", first=1)}
    await roll(restarter, describe_cluster=described(2), check_broker_restart=SAFE, **answers)
    assert restarter.restarted == ["node-1", "node-3", "node-2"]


@pytest.mark.parametrize(
    ("fields", "states", "told"),
    [
        ({"under_replicated_partition_count": 1}, ("leader", "follower", "follower"), "not in sync"),
        ({}, ("leader", "unreachable", "follower"), "unreachable"),
        ({}, ("leader", "recovering", "follower"), "voter 102 is recovering"),
    ],
)
async def test_nothing_begins_while_something_is_missing_already(
    fields: dict[str, Any], states: tuple[str, ...], told: str
) -> None:
    restarter = FakeRestarter(APART)
    with pytest.raises(UnsafeToRestart, match=told):
        await roll(restarter, describe_cluster=described(**fields), describe_quorum=quorum(*states))
    assert restarter.restarted == []


async def test_moves_that_copy_are_named_and_waited_for_as_what_they_are() -> None:
    """Health calls the cluster healthy then: replicas that are not in sync would contradict it."""
    moves = [
        admin_pb2.Reassignment(
            partition=admin_pb2.PartitionName(topic="t", partition=number),
            replicas=[1, 2, 4],
            adding_replicas=[4],
            isr=[1, 2],
        )
        for number in range(2)
    ]
    moving = described(under_replicated_partition_count=2, reassigning_partition_count=2)
    restarter = FakeRestarter(APART)
    with pytest.raises(UnsafeToRestart) as caught:
        await roll(restarter, describe_cluster=moving, describe_quorum=SOUND, list_reassignments=[moves])
    assert caught.value.message.startswith(
        "nothing was restarted: 2 partitions move, and new replicas are not in sync yet: t:0, t:1;"
    )
    assert "not healthy" not in caught.value.message
    assert "2 partitions with replicas that are not in sync" not in caught.value.message
    assert "`quorate partition reassign --cancel`" in (caught.value.what_to_do or "")
    assert restarter.restarted == []


async def test_partitions_that_were_recovered_hold_up_no_restart() -> None:
    """Only another leader ends it, and a restart is what brings one where there is one replica."""
    restarter = FakeRestarter(APART[:1])
    recovered = described(recovering_partition_count=2)
    await roll(restarter, describe_cluster=recovered, describe_quorum=SOUND, check_broker_restart=SAFE)
    assert restarter.restarted == ["broker-1"]


async def test_whoever_cannot_be_spared_is_known_before_the_first_node_is_touched() -> None:
    """Controllers go first: three of them were restarted before the first broker was refused."""

    class Structural(FakeAdministration):
        async def check_broker_restart(self, broker_id: int) -> admin_pb2.CheckBrokerRestartResponse:
            return admin_pb2.CheckBrokerRestartResponse(reasons=[f"29 partitions need broker {broker_id}."])

    restarter = FakeRestarter(APART)
    in_turn = Roll(
        restarter,
        timeout_s=60.0,
        is_forced=False,
        tell=lambda _line: None,
        connected=lambda _bootstrap: Structural(describe_cluster=described(), describe_quorum=SOUND),  # type: ignore[arg-type,return-value]  # as above
    )
    with pytest.raises(UnsafeToRestart) as caught:
        await in_turn.run(restarter.nodes)
    assert caught.value.message == ("broker-1: 29 partitions need broker 1. Not safe either: broker-2.")
    assert "a smaller min.insync.replicas (`quorate topic alter`" in (caught.value.what_to_do or "")
    assert restarter.restarted == []


async def test_cluster_that_does_not_answer_is_not_touched() -> None:
    restarter = FakeRestarter(APART)
    with pytest.raises(UnsafeToRestart, match="UNAVAILABLE: nobody"):
        await roll(restarter, describe_cluster=Unavailable("nobody"))
    assert restarter.restarted == []


async def test_broker_whose_partitions_would_be_away_is_left_alone_unless_forced() -> None:
    unsafe = admin_pb2.CheckBrokerRestartResponse(
        is_safe=False, reasons=["Partition t:0 would have no leader."]
    )
    answers: dict[str, Any] = {
        "describe_cluster": described(),
        "describe_quorum": SOUND,
        "check_broker_restart": unsafe,
    }
    restarter = FakeRestarter(APART[:1])
    with pytest.raises(UnsafeToRestart, match="broker-1: Partition t:0"):
        await roll(restarter, **answers)
    assert restarter.restarted == []
    _, told = await roll(restarter, is_forced=True, **answers)
    assert restarter.restarted == ["broker-1"]
    assert "  forced: Partition t:0 would have no leader." in told


async def test_voter_without_whom_there_is_no_majority_is_left_alone() -> None:
    restarter = FakeRestarter(APART[2:3])
    with pytest.raises(UnsafeToRestart, match="no majority is left without controller-101"):
        await roll(restarter, describe_cluster=described(), describe_quorum=quorum("leader"))


async def test_next_node_waits_until_the_last_one_is_in_sync_again() -> None:
    restarter = FakeRestarter(COMBINED[:2])
    behind = described(9, under_replicated_partition_count=3)
    seen: list[tuple[str, ...]] = []

    class Catching(FakeAdministration):
        async def describe_quorum(self) -> admin_pb2.DescribeQuorumResponse:
            seen.append(tuple(restarter.restarted))
            return quorum("leader", "follower", "follower", first=1)

    well = described(9)
    looks = [well, well, behind, behind, Unavailable("electing"), well, well, well, well, well]
    in_turn = Roll(
        restarter,
        timeout_s=60.0,
        is_forced=False,
        tell=lambda _line: None,
        connected=lambda _bootstrap: Catching(describe_cluster=looks, check_broker_restart=SAFE),  # type: ignore[arg-type,return-value]  # as above
    )
    await in_turn.run(restarter.nodes)
    assert restarter.restarted == ["node-1", "node-2"]
    assert len([names for names in seen if names == ("node-1",)]) >= 3


async def test_broker_of_which_nobody_has_noticed_yet_that_it_is_gone_is_waited_for() -> None:
    """It looks as before for a session: only a new epoch says that what is seen is the new process."""
    restarter = FakeRestarter(APART[:2])

    def registered(*epochs: int) -> admin_pb2.DescribeClusterResponse:
        brokers = [
            admin_pb2.BrokerDescription(broker_id=id_, broker_epoch=epoch)
            for id_, epoch in enumerate(epochs, 1)
        ]
        return described(brokers=brokers)

    seen: list[tuple[int, int]] = []

    class Registering(FakeAdministration):
        async def describe_cluster(self) -> admin_pb2.DescribeClusterResponse:
            looks = [(10, 11)] * 8 + [(20, 11)] * 8 + [(20, 21)] * 8
            seen.append((looks[len(seen)][0], len(restarter.restarted)))
            return registered(*looks[len(seen) - 1])

    in_turn = Roll(
        restarter,
        timeout_s=60.0,
        is_forced=False,
        tell=lambda _line: None,
        connected=lambda _bootstrap: Registering(describe_quorum=SOUND, check_broker_restart=SAFE),  # type: ignore[arg-type,return-value]  # as above
    )
    await in_turn.run(restarter.nodes)
    assert restarter.restarted == ["broker-1", "broker-2"]
    assert {restarted for epoch, restarted in seen if epoch == 10} == {0, 1}


async def test_broker_that_does_not_register_again_stops_the_roll() -> None:
    same = described(brokers=[admin_pb2.BrokerDescription(broker_id=1, broker_epoch=10)])
    with pytest.raises(NotSettled, match="broker-1 has not registered again"):
        await roll(
            FakeRestarter(APART[:2]),
            timeout_s=0.01,
            describe_cluster=same,
            describe_quorum=SOUND,
            check_broker_restart=SAFE,
        )


async def test_node_that_does_not_come_back_stops_the_roll_and_the_rest_is_named() -> None:
    restarter = FakeRestarter(COMBINED)
    gone = described(9, brokers=[admin_pb2.BrokerDescription(broker_id=1, address="b1", is_fenced=True)])
    looks = [described(9), described(9), *([gone] * 100_000)]
    with pytest.raises(NotSettled, match="broker 1 at b1 is fenced") as caught:
        await roll(
            restarter,
            timeout_s=0.01,
            describe_cluster=looks,
            describe_quorum=quorum("leader", "follower", "follower", first=1),
            check_broker_restart=SAFE,
        )
    assert restarter.restarted == ["node-1"]
    assert "node-2, node-3" in (caught.value.what_to_do or "")


@pytest.mark.parametrize("options", [(), ("--dir", ".", "--agent", __file__)])
def test_where_the_nodes_are_has_to_be_said_once(capsys: Capsys, options: tuple[str, ...]) -> None:
    assert main(["cluster", "rolling-restart", *options]) == 2
    assert "either --dir, or --agent" in capsys.readouterr().err


def test_agent_that_cannot_stop_a_node_is_refused(tmp_path: Path, capsys: Capsys) -> None:
    agent = tmp_path / "agent.toml"
    agent.write_text(
        'bootstrap = "b:1"\n[[nodes]]\nname = "a"\nid = 1\nroles = ["broker"]\n[commands]\nstart = "true"\n'
    )
    assert main(["cluster", "rolling-restart", "--agent", str(agent)]) == 1
    assert "no command to stop a node" in capsys.readouterr().err
