"""Which ports the nodes of a local cluster get, for clients and for metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorate.core.config import NodeConfig, load_node_config
from quorate.errors import CannotListen
from quorate.node import cluster_layout
from quorate.node.cluster_file import ClusterNode
from quorate.node.local_cluster import LocalCluster, _settings

FIRST = 20_000


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ports that others have; what the machine really has does not matter here."""
    ports: set[int] = set()
    monkeypatch.setattr(cluster_layout, "_is_free", lambda port: port not in ports)
    return ports


def ports_of(cluster: LocalCluster) -> list[tuple[int, int]]:
    return [(port(node.address), port(node.metrics_address)) for node in cluster.nodes]


def port(address: str | None) -> int:
    assert address is not None
    return int(address.rpartition(":")[2])


def config_of(cluster: LocalCluster, node: ClusterNode) -> NodeConfig:
    options = [f"{key}={value}" for key, value in _settings(node, cluster.state).items()]
    return load_node_config(None, set_options=options, environment={})


def test_metrics_are_behind_the_ports_of_the_nodes(tmp_path: Path, taken: set[int]) -> None:
    taken.add(FIRST + 4)
    cluster = LocalCluster.create(str(tmp_path), is_combined=True, port=FIRST)
    assert ports_of(cluster) == [(FIRST, FIRST + 3), (FIRST + 1, FIRST + 5), (FIRST + 2, FIRST + 6)]
    for node in cluster.nodes:
        assert str(config_of(cluster, node).metrics.address) == node.metrics_address


def test_where_there_is_no_room_behind_metrics_are_anywhere(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), is_combined=True, port=65_533)
    found = ports_of(cluster)
    assert [address for address, _ in found] == [65_533, 65_534, 65_535]
    assert len({metrics for _, metrics in found}) == 3


def test_any_free_ports_are_all_different(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), brokers=5, controllers=5)
    assert len({each for both in ports_of(cluster) for each in both}) == 20


def test_a_new_broker_takes_no_port_of_one_that_is_stopped(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), is_combined=True, port=FIRST)
    cluster.add_broker()
    cluster.add_broker()
    assert ports_of(cluster)[3:] == [(FIRST + 6, FIRST + 7), (FIRST + 8, FIRST + 9)]


def test_port_for_metrics_that_somebody_took_is_told(tmp_path: Path, taken: set[int]) -> None:
    cluster = LocalCluster.create(str(tmp_path), is_combined=True, port=FIRST)
    taken.add(FIRST + 4)
    with pytest.raises(CannotListen, match=rf"node-2 has to listen on 127\.0\.0\.1:{FIRST + 4}"):
        cluster.spawn(["node-2"])


def test_cluster_of_an_earlier_version_goes_on_without_metrics(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), is_combined=True, port=FIRST)
    path = tmp_path / "cluster.json"
    document = json.loads(path.read_text())
    for each in document["nodes"]:
        each["metrics_address"] = None
    path.write_text(json.dumps(document))
    node = cluster.node("node-1")
    assert node.metrics_address is None
    assert config_of(cluster, node).metrics.address is None
    cluster_layout.check_port_is_free(node)
    added = cluster.node(cluster.add_broker())
    assert (port(added.address), port(added.metrics_address)) == (FIRST + 3, FIRST + 4)
