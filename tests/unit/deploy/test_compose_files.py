"""The compose files: what a container may do, where its data is, and that its node accepts its settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.command_agent import CommandAgent
from quorate.core.config import NodeConfig, NodeRole, load_node_config
from tests.unit.deploy.deploy_files import DEPLOY, ROOT, node_environment, node_services, read

FILES = ["compose.yaml", "compose.combined.yaml"]
NODES = [(file, name) for file in FILES for name in node_services(file)]


def config_of(service: dict[str, Any]) -> NodeConfig:
    return load_node_config(None, environment=node_environment(service))


@pytest.mark.parametrize(("file", "name"), NODES)
def test_every_node_accepts_its_settings(file: str, name: str) -> None:
    config = config_of(node_services(file)[name])
    assert config.advertised_address is not None
    assert config.metrics.address is not None


@pytest.mark.parametrize(("file", "name"), NODES)
def test_containers_may_do_no_more_than_they_need(file: str, name: str) -> None:
    service = node_services(file)[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")


@pytest.mark.parametrize(("file", "name"), NODES)
def test_data_outlives_the_container(file: str, name: str) -> None:
    service = node_services(file)[name]
    [mount] = service["volumes"]
    volume, _, where = mount.partition(":")
    assert where == node_environment(service)["QUORATE_DATA_DIR"]
    assert volume in read(file)["volumes"], "a named one: docker would delete another with the container"
    sharing = [other for other in node_services(file).values() if mount in other["volumes"]]
    assert sharing == [service], "a data directory belongs to one node"


@pytest.mark.parametrize(("file", "name"), NODES)
def test_node_has_the_time_to_stop_cleanly(file: str, name: str) -> None:
    service = node_services(file)[name]
    config = config_of(service)
    grace_s = int(service["stop_grace_period"].removesuffix("s"))
    assert grace_s * 1000 > config.controlled_shutdown_timeout_ms + config.shutdown_grace_ms


@pytest.mark.parametrize(("file", "name"), NODES)
def test_node_comes_back_by_itself_and_is_watched(file: str, name: str) -> None:
    service = node_services(file)[name]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][-1] == "/opt/quorate/healthcheck.py"


@pytest.mark.parametrize(("file", "name"), NODES)
def test_what_a_node_says_does_not_fill_the_disk(file: str, name: str) -> None:
    options = node_services(file)[name]["logging"]["options"]
    assert options.keys() == {"max-size", "max-file"}


@pytest.mark.parametrize(("file", "name"), NODES)
def test_broker_has_the_same_address_inside_and_outside(file: str, name: str) -> None:
    service = node_services(file)[name]
    config = config_of(service)
    address = config.advertised_address
    assert address is not None
    assert config.listeners[0].port == address.port
    if NodeRole.BROKER not in config.node_roles:
        assert address.host == name
        assert "ports" not in service, "nobody outside talks to a controller"
        return
    assert service["ports"] == [f"127.0.0.1:{address.port}:{address.port}"], "there is no authentication yet"
    assert address.host in service["networks"]["default"]["aliases"]
    assert address.host.endswith(".localhost"), "which is this machine to whoever is outside"


@pytest.mark.parametrize("file", FILES)
def test_nodes_are_one_cluster(file: str) -> None:
    configs = [config_of(service) for service in node_services(file).values()]
    assert len({config.node_id for config in configs}) == len(configs)
    assert len({config.controller_voters for config in configs}) == 1
    voters = {(voter.node_id, str(voter.address)) for voter in configs[0].controller_voters}
    controllers = {
        (config.node_id, str(config.advertised_address))
        for config in configs
        if NodeRole.CONTROLLER in config.node_roles
    }
    assert voters == controllers
    assert len(voters) == 3
    assert sum(NodeRole.BROKER in config.node_roles for config in configs) == 3


def test_brokers_start_after_controllers_and_need_no_more_than_that() -> None:
    for service in node_services("compose.yaml").values():
        if NodeRole.BROKER in config_of(service).node_roles:
            assert set(service["depends_on"]) == {"controller-101", "controller-102", "controller-103"}
            assert {each["condition"] for each in service["depends_on"].values()} == {"service_started"}


@pytest.mark.parametrize(
    ("file", "targets"),
    [("compose.yaml", "targets.yaml"), ("compose.combined.yaml", "targets.combined.yaml")],
)
def test_prometheus_scrapes_every_node(file: str, targets: str) -> None:
    [group] = read(f"observability/prometheus/{targets}")
    expected = {
        f"{name}:{node_environment(service)['QUORATE_METRICS_ADDRESS'].rpartition(':')[2]}"
        for name, service in node_services(file).items()
    }
    assert set(group["targets"]) == expected
    mounts = read(file)["services"]["prometheus"]["volumes"]
    assert f"./observability/prometheus/{targets}:/etc/prometheus/targets.yaml:ro" in mounts


@pytest.mark.parametrize("file", FILES)
def test_what_watches_runs_only_when_it_is_asked_for_and_finds_its_files(file: str) -> None:
    shared = read("observability/services.yaml")["services"]
    for name, service in read(file)["services"].items():
        if "extends" not in service:
            continue
        assert service["extends"]["service"] == name
        assert shared[name]["profiles"] == ["observability"]
        assert all(port.startswith("127.0.0.1:") for port in shared[name]["ports"])
        sources = [mount.partition(":")[0] for mount in shared[name]["volumes"]]
        assert all((DEPLOY / "observability" / source).exists() for source in sources)


@pytest.mark.parametrize(("file", "name"), NODES)
def test_labels_of_an_image_that_compose_builds_say_what_they_are_told(file: str, name: str) -> None:
    arguments = node_services(file)[name]["build"]["args"]
    assert arguments["VERSION"].startswith("${IMAGE_VERSION:-")
    assert arguments["REVISION"].startswith("${IMAGE_REVISION:-")


def test_every_variable_has_its_default_in_one_place() -> None:
    lines = (DEPLOY / ".env").read_text().splitlines()
    defaults = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    texts = [(DEPLOY / file).read_text() for file in [*FILES, "observability/services.yaml"]]
    used = {pair for text in texts for pair in re.findall(r"\$\{(\w+):-([^}]+)\}", text)}
    assert used == {(name, default) for name, default in defaults.items() if name != "COMPOSE_PROJECT_NAME"}


@pytest.mark.parametrize(
    ("agent", "file"),
    [("docker-compose.toml", "compose.combined.yaml"), ("docker-compose-apart.toml", "compose.yaml")],
)
def test_drills_know_the_containers(agent: str, file: str) -> None:
    found = CommandAgent.from_file(str(ROOT / "examples" / "drill-agents" / agent))
    described = {node.name: (node.id, set(node.roles)) for node in found.nodes}
    configs = {name: config_of(service) for name, service in node_services(file).items()}
    assert described == {
        name: (config.node_id, {role.value for role in config.node_roles}) for name, config in configs.items()
    }
    assert {Ability.KILL, Ability.STOP, Ability.PAUSE, Ability.ISOLATE} <= found.abilities
    assert f"deploy/{file}" in found.facts["to up"]


@pytest.mark.parametrize("file", FILES)
def test_compose_itself_accepts_the_file(file: str) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    command = [
        docker,
        "compose",
        "--file",
        str(DEPLOY / file),
        "--profile",
        "observability",
        "config",
        "--quiet",
    ]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
