"""The manifests for Kubernetes: what no schema says, and what a cluster would say when it is too late."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.core.config import NodeConfig, NodeRole, load_node_config
from tests.unit.deploy.deploy_files import DEPLOY, ROOT
from tests.unit.deploy.manifests import StatefulSet, built, of_kind, stateful_sets

OVERLAYS = ["dev", "one-machine", "prod", "prod-outside"]
PROD = ["prod", "prod-outside"]


def configs(stateful_set: StatefulSet) -> list[NodeConfig]:
    return [
        load_node_config(None, environment=stateful_set.environment(ordinal))
        for ordinal in stateful_set.ordinals
    ]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_has_settings_that_its_node_accepts(overlay: str) -> None:
    everyone = [config for each in stateful_sets(overlay) for config in configs(each)]
    assert len({config.node_id for config in everyone}) == len(everyone)
    assert all("$(" not in str(config.advertised_address) for config in everyone)
    assert len({str(config.advertised_address) for config in everyone}) == len(everyone)
    voters = {
        (voter.node_id, str(voter.address)) for config in everyone for voter in config.controller_voters
    }
    assert voters == {
        (config.node_id, str(config.advertised_address))
        for config in everyone
        if NodeRole.CONTROLLER in config.node_roles
    }


@pytest.mark.parametrize("overlay", ["dev", "prod"])
def test_addresses_are_names_that_the_headless_service_gives(overlay: str) -> None:
    for each in stateful_sets(overlay):
        service = of_kind(overlay, "Service")[each.spec["serviceName"]]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= each.labels.items()
        namespace = each.document["metadata"]["namespace"]
        for ordinal, config in zip(each.ordinals, configs(each), strict=True):
            host = f"{each.name}-{ordinal}.{each.spec['serviceName']}.{namespace}.svc.cluster.local"
            assert str(config.advertised_address) == f"{host}:9092"


@pytest.fixture
def _overlay_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For another namespace, beside the others, in a copy."""
    copy = Path(shutil.copytree(DEPLOY / "k8s", tmp_path / "k8s"))
    [text] = re.findall(r"```yaml\n(.*?)```", (copy / "README.md").read_text(), re.DOTALL)
    (copy / "overlays" / "logs").mkdir()
    (copy / "overlays" / "logs" / "kustomization.yaml").write_text(text)
    monkeypatch.setattr("tools.check_manifests.OVERLAYS", copy / "overlays")


@pytest.mark.usefixtures("_overlay_of_the_readme")
def test_overlay_in_another_namespace_leaves_nothing_in_the_old_one() -> None:
    [namespace] = of_kind("logs", "Namespace")
    assert namespace == "logs"
    assert set(every("namespace", built("logs"))) == {"logs"}
    assert ".quorate.svc" not in yaml.safe_dump_all(built("logs"))
    for each in stateful_sets("logs"):
        for config in configs(each):
            addresses = [config.advertised_address, *(voter.address for voter in config.controller_voters)]
            assert all(".logs.svc.cluster.local:" in str(address) for address in addresses)
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        assert of_kind("logs", kind).keys().isdisjoint(of_kind("prod", kind)), "they are in no namespace"
    [binding] = of_kind("logs", "ClusterRoleBinding").values()
    assert binding["roleRef"]["name"] in of_kind("logs", "ClusterRole")


def every(key: str, document: Any) -> Iterator[Any]:
    """What stands under this key, at whatever depth."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key:
                yield value
            yield from every(key, value)
    elif isinstance(document, list):
        for each in document:
            yield from every(key, each)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_cluster_whose_pods_were_all_deleted_comes_back_by_itself(overlay: str) -> None:
    for each in stateful_sets(overlay):
        assert each.spec["podManagementPolicy"] == "Parallel"
        assert (
            of_kind(overlay, "Service")[each.spec["serviceName"]]["spec"]["publishNotReadyAddresses"] is True
        )
        assert each.spec["persistentVolumeClaimRetentionPolicy"] == {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
        }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_update_waits_for_sync_and_a_busy_node_is_not_taken_for_a_dead_one(overlay: str) -> None:
    for each in stateful_sets(overlay):
        assert each.spec["updateStrategy"] == {"type": "RollingUpdate"}
        probes = {
            name: each.container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
        }
        assert probes["readiness"]["path"] == "/readyz"
        assert probes["liveness"]["path"] == probes["startup"]["path"] == "/livez"
        assert {probe["port"] for probe in probes.values()} == {"metrics"}
        patience_s = (
            each.container["livenessProbe"]["periodSeconds"]
            * each.container["livenessProbe"]["failureThreshold"]
        )
        assert patience_s >= 60


@pytest.mark.parametrize("overlay", PROD)
def test_controllers_can_be_updated_before_brokers(overlay: str) -> None:
    """By the selector of docs/operations/upgrade.md, which has to choose all that they use."""
    upgrade = (ROOT / "docs" / "operations" / "upgrade.md").read_text()
    [(key, value)] = re.findall(r"kubectl apply .* --selector (\S+)=(\S+)", upgrade)
    chosen = {
        (each["kind"], each["metadata"]["name"])
        for each in built(overlay)
        if each["metadata"].get("labels", {}).get(key) == value
    }
    [controllers] = [each for each in stateful_sets(overlay) if ("StatefulSet", each.name) in chosen]
    assert f"statefulset/{controllers.name}" in upgrade
    settings = {
        each["configMapRef"]["name"] for each in controllers.container["envFrom"] if "configMapRef" in each
    }
    assert {
        ("Service", controllers.spec["serviceName"]),
        ("ServiceAccount", controllers.pod["serviceAccountName"]),
        *(("ConfigMap", name) for name in settings),
    } <= chosen


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_node_has_the_time_to_stop_cleanly(overlay: str) -> None:
    for each in stateful_sets(overlay):
        waits_s = 0
        if "lifecycle" in each.container:
            command = each.container["lifecycle"]["preStop"]["exec"]["command"]
            assert command[:3] == ["quorate", "node", "safe-to-stop"]
            waits_s = int(command[-1])
        for config in configs(each):
            stop_s = (config.controlled_shutdown_timeout_ms + config.shutdown_grace_ms) / 1000
            assert each.pod["terminationGracePeriodSeconds"] > waits_s + stop_s


@pytest.mark.parametrize("overlay", PROD)
def test_node_that_is_not_alone_asks_before_it_stops(overlay: str) -> None:
    assert all("preStop" in each.container["lifecycle"] for each in stateful_sets(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_may_do_no_more_than_they_need(overlay: str) -> None:
    [namespace] = of_kind(overlay, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for each in stateful_sets(overlay):
        assert each.pod["automountServiceAccountToken"] is False
        assert each.pod["enableServiceLinks"] is False
        assert each.pod["securityContext"]["runAsNonRoot"] is True
        assert each.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*each.pod["containers"], *each.pod.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert "cpu" in container["resources"]["requests"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_node_is_started_without_a_shell(overlay: str) -> None:
    for each in stateful_sets(overlay):
        assert "command" not in each.container, (
            "the image's entry point begins with tini, which hears signals"
        )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_can_be_given_in_a_secret(overlay: str) -> None:
    """As the page says; a node without one starts all the same."""
    readme = (DEPLOY / "k8s" / "README.md").read_text()
    [made] = re.findall(r"create secret generic (\S+) --from-env-file=", readme)
    assert len(stateful_sets(overlay)) == (1 if overlay == "dev" else 2)
    for each in stateful_sets(overlay):
        secrets = [source["secretRef"] for source in each.container["envFrom"] if "secretRef" in source]
        assert secrets == [{"name": made, "optional": True}]
        assert "secretRef" in each.container["envFrom"][-1], "the last one wins"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_mount_has_its_volume(overlay: str) -> None:
    for each in stateful_sets(overlay):
        volumes = {volume["name"] for volume in each.pod["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in each.spec["volumeClaimTemplates"]}
        containers = [*each.pod["containers"], *each.pod.get("initContainers", [])]
        mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
        assert mounted == volumes


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_claims_are_whole(overlay: str) -> None:
    """The API takes a set with a claim that it would refuse: its pods then never start."""
    for each in stateful_sets(overlay):
        [claim] = each.spec["volumeClaimTemplates"]
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert claim["spec"]["resources"]["requests"]["storage"]


@pytest.mark.parametrize("overlay", PROD)
def test_one_node_of_a_kind_may_be_away_and_no_two_share_a_machine(overlay: str) -> None:
    budgets = of_kind(overlay, "PodDisruptionBudget")
    for each in stateful_sets(overlay):
        assert budgets[each.name]["spec"]["maxUnavailable"] == 1
        assert budgets[each.name]["spec"]["selector"]["matchLabels"] == each.spec["selector"]["matchLabels"]
        [rule] = each.pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert rule["topologyKey"] == "kubernetes.io/hostname"
        [spread] = each.pod["topologySpreadConstraints"]
        assert spread["topologyKey"] == "topology.kubernetes.io/zone"
        for selector in (rule["labelSelector"], spread["labelSelector"]):
            assert selector["matchLabels"].items() <= each.labels.items()
        others = [other for other in stateful_sets(overlay) if other.name != each.name]
        assert all(
            not (rule["labelSelector"]["matchLabels"].items() <= other.labels.items()) for other in others
        )


@pytest.mark.parametrize("overlay", PROD)
def test_replicas_go_to_different_zones(overlay: str) -> None:
    [brokers] = [each for each in stateful_sets(overlay) if "broker" in each.name]
    [init] = brokers.pod["initContainers"]
    assert init["image"] == brokers.container["image"]
    assert brokers.container["args"] == ["node", "run", "--config", init["command"][-1]]
    assert all(config.node_rack is None for config in configs(brokers)), "the environment would win"
    [binding] = of_kind(overlay, "ClusterRoleBinding").values()
    [subject] = binding["subjects"]
    assert subject["name"] == brokers.pod["serviceAccountName"]
    assert subject["namespace"] == brokers.document["metadata"]["namespace"]
    [role] = of_kind(overlay, "ClusterRole").values()
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]


@pytest.mark.parametrize("overlay", PROD)
def test_nobody_but_clients_nodes_and_prometheus_is_let_in(overlay: str) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    nodes = policies["quorate-nodes"]["spec"]
    assert all(
        nodes["podSelector"]["matchLabels"].items() <= each.labels.items() for each in stateful_sets(overlay)
    )
    container_ports = {port["name"] for each in stateful_sets(overlay) for port in each.container["ports"]}
    named = {
        port["port"]
        for policy in policies.values()
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert named == container_ports


def test_bootstrap_leads_to_brokers_that_are_ready() -> None:
    service = of_kind("prod", "Service")["quorate"]["spec"]
    [brokers] = [each for each in stateful_sets("prod") if "broker" in each.name]
    [controllers] = [each for each in stateful_sets("prod") if "controller" in each.name]
    assert service["selector"].items() <= brokers.labels.items()
    assert not service["selector"].items() <= controllers.labels.items()
    assert not service.get("publishNotReadyAddresses")


def test_every_broker_has_a_way_in_from_outside_under_the_name_that_it_advertises() -> None:
    [brokers] = [each for each in stateful_sets("prod-outside") if "broker" in each.name]
    services = of_kind("prod-outside", "Service")
    for ordinal, config in zip(brokers.ordinals, configs(brokers), strict=True):
        pod = f"{brokers.name}-{ordinal}"
        service = services[pod]
        assert service["spec"]["type"] == "LoadBalancer"
        assert service["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] == pod
        assert service["spec"]["publishNotReadyAddresses"] is True, (
            "it may lead while it catches up elsewhere"
        )
        host = service["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"]
        assert str(config.advertised_address) == f"{host}:{service['spec']['ports'][0]['port']}"


def test_operator_is_given_the_rules_that_are_tested() -> None:
    [made] = of_kind("prod-outside", "PrometheusRule").values()
    [rules] = (DEPLOY / "observability" / "prometheus" / "rules").glob("*.yaml")
    assert made["spec"] == yaml.safe_load(rules.read_text())
    assert made["metadata"]["namespace"] == "quorate"


def test_grafana_is_given_every_dashboard() -> None:
    """By the label that its sidecar looks for; kubectl refuses what does not fit into its own note of it."""
    maps = [
        each
        for each in of_kind("prod-outside", "ConfigMap").values()
        if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]
    given = {name: text for each in maps for name, text in each["data"].items()}
    folder = DEPLOY / "observability" / "grafana" / "dashboards"
    assert given == {path.name: path.read_text() for path in folder.iterdir()}
    assert all(len(json.dumps(each)) < 200_000 for each in maps)
    assert len({each["metadata"]["name"] for each in maps}) == len(given)


def test_operator_finds_every_node() -> None:
    [monitor] = of_kind("prod-outside", "ServiceMonitor").values()
    services = of_kind("prod-outside", "Service")
    for each in stateful_sets("prod-outside"):
        service = services[each.spec["serviceName"]]
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        assert wanted <= service["metadata"]["labels"].items()
        assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
        # What the alerts ask for, and what they are told apart by.
        assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "quorate"
    [endpoint] = monitor["spec"]["endpoints"]
    assert "cluster" in {each["targetLabel"] for each in endpoint["relabelings"]}


def test_operator_finds_no_node_twice() -> None:
    [monitor] = of_kind("prod-outside", "ServiceMonitor").values()
    [endpoint] = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    scraped = {
        name
        for name, service in of_kind("prod-outside", "Service").items()
        if wanted <= service["metadata"].get("labels", {}).items()
        and endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    }
    # Sums over nodes would be wrong otherwise, as that of active controllers.
    assert scraped == {each.spec["serviceName"] for each in stateful_sets("prod-outside")}


@pytest.mark.parametrize(
    ("machine", "rack"),
    [
        ({"metadata": {"labels": {"topology.kubernetes.io/zone": "eu-1a"}}}, "eu-1a"),
        ({"metadata": {"labels": {"topology.kubernetes.io/zone": "eu/1 a"}}}, "eu-1-a"),
        ({"metadata": {"labels": {}}}, ""),
        ({"metadata": {}}, ""),
    ],
)
def test_zone_of_a_machine_becomes_a_rack(machine: dict[str, Any], rack: str, tmp_path: Path) -> None:
    script = runpy.run_path(str(DEPLOY / "k8s" / "components" / "racks" / "rack.py"))
    assert script["rack_of"](machine) == rack
    settings = {"QUORATE_NODE_ID": "1", "QUORATE_DATA_DIR": "/d"}
    file = tmp_path / "node.toml"
    file.write_text(script["configuration"](rack))
    assert (load_node_config(str(file), environment=settings).node_rack or "") == rack
