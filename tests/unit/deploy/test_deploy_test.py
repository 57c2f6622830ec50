"""`make deploy-test` where it cannot run, and that it knows the containers that it is about."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.test import commands, containers, drills, engine
from deploy.test.commands import CannotTest
from quorate.chaos.drills.command_agent import CommandAgent
from tests.unit.deploy.deploy_files import ROOT, node_environment, node_services


def test_it_is_about_the_nodes_of_the_compose_file() -> None:
    services = node_services("compose.yaml")
    assert set(containers.NODES) == set(services)
    assert {containers.container(name) for name in services} == {
        service["container_name"] for service in services.values()
    }
    ports = [
        node_environment(service)["QUORATE_ADVERTISED_ADDRESS"].rpartition(":")[2]
        for name, service in services.items()
        if name.startswith("broker")
    ]
    assert containers.BOOTSTRAP.split(",") == [f"localhost:{port}" for port in ports]


def test_agent_restarts_the_same_containers() -> None:
    agent = CommandAgent.from_file(str(ROOT / "examples/drill-agents/docker-compose-apart.toml"))
    assert agent.facts["to stop"] == "docker stop quorate-{node}"
    assert agent.bootstrap == containers.BOOTSTRAP


def test_drills_take_the_containers_of_the_test_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(drills.attached_agent(drills.AGENT.read_text(), containers.PROJECT))
    agent = CommandAgent.from_file(str(path))
    theirs = CommandAgent.from_file(str(drills.AGENT))
    assert not agent.is_temporary, "nothing is brought up or taken down"
    assert agent.abilities == theirs.abilities
    assert [node.name for node in agent.nodes] == list(containers.NODES)
    assert f"{containers.PROJECT}_default" in agent.facts["to isolate"]
    assert "quorate-drill" not in "".join(agent.facts.values())


@pytest.mark.parametrize("name", ["docker-compose-apart", "docker-compose"])
def test_node_is_paused_and_not_the_tini_above_it(name: str) -> None:
    """Process 1 cannot pass on a signal that stops it."""
    agent = CommandAgent.from_file(str(ROOT / f"examples/drill-agents/{name}.toml"))
    assert all("/proc/1/task/1/children" in agent.facts[f"to {action}"] for action in ("pause", "resume"))


def test_without_an_engine_it_fails_and_says_so(tmp_path: Path) -> None:
    """No program at all can be found, so nothing can be installed either."""
    answer = subprocess.run(
        [sys.executable, "-m", "deploy.test"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert "deploy-test failed: no engine answers, and none can be installed here" in answer.stderr
    assert "Traceback" not in answer.stderr


async def test_daemon_that_does_not_start_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in {
        "docker": "exit 1",
        "docker-compose": "exit 0",
        "dockerd": "echo no cgroups; exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotTest, match="dockerd does not start; the end of its log:\nno cgroups"):
        async with engine.engine():
            pass
    assert "DOCKER_HOST" not in os.environ


async def test_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(CannotTest, match="exit status 3\nwhy"):
        await commands.run(sys.executable, "-c", "print('why'); raise SystemExit(3)")
    assert await commands.run(sys.executable, "-c", "raise SystemExit(3)", is_checked=False) == ""


def test_port_that_somebody_has_is_told_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("deploy.test.containers.BOOTSTRAP", f"localhost:{port}")
        with pytest.raises(CannotTest, match=f"publish 127.0.0.1:{port}: Address already in use"):
            containers.check_ports()
    containers.check_ports()
