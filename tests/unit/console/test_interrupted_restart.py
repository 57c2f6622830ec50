"""Whoever interrupts a restart finds the node started, and hears which are left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from quorate.chaos.drills.agent import AgentNode
from quorate.console.main import main
from quorate.console.rolling.restarters import AgentRestarter
from quorate.console.rolling.roll import Roll
from quorate.node.interruption import Terminated, run_interruptible
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration

Capsys = pytest.CaptureFixture[str]

NODES = [AgentNode(f"node-{id_}", id_, ("controller", "broker")) for id_ in (1, 2, 3)]


class Stopping:
    """A cluster in which a node takes its time to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, while_it_stops: Callable[[], None]) -> None:
        self.steps: list[str] = []
        self._while_it_stops = while_it_stops
        monkeypatch.setattr(LocalCluster, "stop", self._stop)
        monkeypatch.setattr(LocalCluster, "spawn", self._spawn)
        monkeypatch.setattr(LocalCluster, "_is_ready", self._never_ready)

    async def _stop(self, names: Iterable[str]) -> list[str]:
        self._while_it_stops()
        await asyncio.sleep(0.05)
        self.steps += [f"stopped {name}" for name in names]
        return []

    def _spawn(self, names: Iterable[str]) -> dict[str, int]:
        chosen = list(names)
        self.steps += [f"started {name}" for name in chosen]
        return dict.fromkeys(chosen, 0)

    async def _never_ready(self, *_: object) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_node_that_was_being_stopped_is_started_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys, number: signal.Signals, status: int
) -> None:
    LocalCluster.create(str(tmp_path), brokers=3, is_combined=True)
    stopping = Stopping(monkeypatch, lambda: os.kill(os.getpid(), number))
    assert main(["restart", "--dir", str(tmp_path), "node-2"]) == status
    assert stopping.steps == ["stopped node-2", "started node-2"]
    assert "interrupted; node-2 is not left stopped" in capsys.readouterr().err


class Interrupted:
    """A restarter during whose restart somebody presses Ctrl-C."""

    bootstrap = "b:1"
    nodes = NODES

    def __init__(self, when: str) -> None:
        self.when = when

    async def restart(self, name: str) -> None:
        if name == self.when:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)


def test_rolling_restart_tells_who_is_left_when_it_is_interrupted() -> None:
    told: list[str] = []
    voters = [
        admin_pb2.VoterDescription(node_id=id_, state="leader" if id_ == 1 else "follower")
        for id_ in (1, 2, 3)
    ]
    cluster = FakeAdministration(
        describe_cluster=admin_pb2.DescribeClusterResponse(controller=1),
        describe_quorum=admin_pb2.DescribeQuorumResponse(leader=1, voters=voters),
        check_broker_restart=admin_pb2.CheckBrokerRestartResponse(is_safe=True),
    )
    roll = Roll(
        Interrupted("node-2"),
        timeout_s=60.0,
        is_forced=False,
        tell=told.append,
        connected=lambda _bootstrap: cluster,  # type: ignore[arg-type,return-value]  # answers as it is told
    )
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(roll.run(NODES))
    assert told[1] == "interrupted; node-2 is not left stopped"
    assert told[2].startswith("node-2 was started, and not waited for; not restarted: node-1, node-3;")


def test_commands_of_an_agent_are_not_left_between_stop_and_start(tmp_path: Path) -> None:
    done = tmp_path / "done"
    agent = tmp_path / "agent.toml"
    agent.write_text(
        'bootstrap = "b:1"\n[[nodes]]\nname = "a"\nid = 1\nroles = ["broker"]\n[commands]\n'
        f'stop = "sleep 0.1; echo stop >> {done}"\nstart = "echo start >> {done}"\n'
    )

    async def interrupted() -> None:
        asyncio.get_running_loop().call_later(0.03, os.kill, os.getpid(), signal.SIGTERM)
        await AgentRestarter(str(agent)).restart("a")

    with pytest.raises(KeyboardInterrupt) as caught:
        run_interruptible(interrupted())
    assert done.read_text().split() == ["stop", "start"]
    assert isinstance(caught.value, Terminated)
