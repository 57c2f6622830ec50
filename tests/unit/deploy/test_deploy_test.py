"""`make deploy-test` where it cannot run, and that it knows the containers that it is about."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.test import __main__ as program
from deploy.test import commands, containers, drills, engine
from deploy.test.commands import CannotTest
from deploy.test.containers import Containers
from deploy.test.evidence import EVIDENCE, ContainersRun
from deploy.test.story import Story
from quorate.chaos.drills.command_agent import CommandAgent
from quorate.errors import BrokerNotAvailable
from tests.unit.deploy.deploy_files import DEPLOY, ROOT, node_environment, node_services


@pytest.mark.parametrize("file", [containers.APART, containers.COMBINED], ids=lambda file: file.name)
def test_it_is_about_the_nodes_of_the_compose_file(file: containers.ComposeFile) -> None:
    services = node_services(file.name).values()
    assert set(file.containers) == {service["container_name"] for service in services}
    environments = {service["container_name"]: node_environment(service) for service in services}
    assert set(file.brokers.values()) == {
        name for name, each in environments.items() if "broker" in each["QUORATE_NODE_ROLES"]
    }
    for broker_id, name in file.brokers.items():
        assert environments[name]["QUORATE_NODE_ID"] == str(broker_id)
    advertised = [environments[name]["QUORATE_ADVERTISED_ADDRESS"] for name in file.brokers.values()]
    ports = [address.rpartition(":")[2] for address in advertised]
    assert containers.BOOTSTRAP.split(",") == [f"localhost:{port}" for port in ports]


def test_every_compose_file_is_brought_up() -> None:
    files = {path.name for path in DEPLOY.glob("compose*.yaml")}
    assert files == {containers.APART.name, containers.COMBINED.name}


@pytest.fixture
def _no_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of which nothing is asked, and an image that is there."""

    async def answer(*command: str, **_: Any) -> str:
        return f"{command[0]} 1.2"

    async def compose() -> list[str]:
        return ["compose"]

    async def nothing() -> str:
        return "nothing"

    monkeypatch.setattr(program, "engine", contextlib.nullcontext)
    for name in (
        "build_image",
        "check_image",
        "make_prometheus_image",
        "remove_prometheus_image",
        "remove_images",
    ):
        monkeypatch.setattr(program, name, nothing)
    monkeypatch.setattr(program, "check_ports", lambda: None)
    monkeypatch.setattr(program, "compose_command", compose)
    for module in (program, containers):
        monkeypatch.setattr(module, "run", answer)


def record_into(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[ContainersRun]:
    """What a run with --record adds."""
    monkeypatch.setattr(program, "ROOT", directory)
    before = signal.getsignal(signal.SIGTERM)
    try:
        status = program.main(["--record"])
    finally:
        signal.signal(signal.SIGTERM, before)
    runs = EVIDENCE.read(directory)
    assert (status == 0) == (not runs[-1].failed)
    return runs


@pytest.mark.usefixtures("_no_containers")
def test_both_files_are_told_of_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(story: Story) -> None:
        await story._begin()

    async def until_healthy(_: Containers) -> None: ...

    async def confined(_: Containers) -> str:
        return "confined"

    monkeypatch.setattr(Story, "tell", told)
    monkeypatch.setattr(Story, "tell_in_short", told)
    monkeypatch.setattr(Containers, "until_healthy", until_healthy)
    monkeypatch.setattr(Containers, "check_confinement", confined)
    [run] = record_into(tmp_path, monkeypatch)
    assert [each.step for each in run.steps] == ["image", "up", "combined-up"]
    assert run.steps[1].told.startswith("6 containers, healthy after")
    assert run.steps[2].told.startswith("3 containers, healthy after")
    assert "bring up compose.combined.yaml" in run.steps[2].what
    page = (tmp_path / EVIDENCE.page).read_text()
    assert "| engine | docker 1.2 |\n| compose | compose 1.2 |" in page
    assert f"| {run.began} |" in page
    assert "| 3 of 3 | - |" in page


@pytest.mark.usefixtures("_no_containers")
@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (CannotTest("unhealthy"), "between"),
        (BrokerNotAvailable("nobody is there"), "between"),
        (None, "kill"),
    ],
    ids=["of a command", "of the cluster", "in a step"],
)
def test_run_that_failed_is_recorded_with_what_was_done_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None, failed: str
) -> None:
    async def told(story: Story) -> None:
        if error is not None:
            raise error
        async with story._step("kill", "kill it"):
            raise CannotTest("it lives")

    monkeypatch.setattr(Story, "tell", told)
    [run] = record_into(tmp_path, monkeypatch)
    assert run.failed == [failed]
    assert [each.step for each in run.steps] == ["image", failed], "and nothing after it"


def test_page_of_deployments_is_what_the_records_amount_to() -> None:
    assert (ROOT / EVIDENCE.page).read_text() == EVIDENCE.text(EVIDENCE.read(ROOT))


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
    assert [f"quorate-{node.name}" for node in agent.nodes] == list(containers.APART.containers)
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
    # Any port that is free, and not those of the files, which somebody may have here.
    monkeypatch.setattr("deploy.test.containers.PROMETHEUS_PORT", 0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("deploy.test.containers.BOOTSTRAP", f"localhost:{port}")
        with pytest.raises(CannotTest, match=f"publish 127.0.0.1:{port}: Address already in use"):
            containers.check_ports()
    monkeypatch.setattr("deploy.test.containers.BOOTSTRAP", "localhost:0")
    containers.check_ports()
