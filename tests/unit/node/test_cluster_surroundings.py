"""Where a node of a local cluster is, and what it is started with, can be chosen before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import InvalidRequest
from quorate.node.local_cluster import LocalCluster


def test_placed_node_is_known_by_its_new_address_to_all(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), brokers=1, controllers=2)
    before = cluster.state.founding_voters.split(",")
    behind = cluster.node("controller-101").address
    cluster.place("controller-101", address="198.18.0.2:9001", listener=behind)
    cluster.place("broker-1", address="198.18.0.3:9002")
    again = LocalCluster(str(tmp_path))
    assert again.state.founding_voters.split(",") == ["101@198.18.0.2:9001", before[1]]
    assert again.node("controller-101").listens_on == behind
    assert again.node("broker-1").listens_on == again.bootstrap == "198.18.0.3:9002"


def test_voter_that_was_started_stays_where_it_is(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), brokers=1, controllers=1)
    log = Path(cluster.log_file("controller-101"))
    log.parent.mkdir()
    log.touch()
    with pytest.raises(InvalidRequest):
        cluster.place("controller-101", address="198.18.0.2:9001")


def test_surroundings_add_up_and_outlive_whoever_chose_them(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), brokers=1, controllers=1)
    cluster.surround("broker-1", launcher=["/bin/inner"], environment={"A": "1", "B": "1"})
    cluster.surround("broker-1", launcher=["/bin/outer", "--"], environment={"B": "2"})
    node = LocalCluster(str(tmp_path)).node("broker-1")
    assert node.launcher == ("/bin/outer", "--", "/bin/inner")
    assert node.environment == {"A": "1", "B": "2"}
    assert LocalCluster(str(tmp_path)).node("controller-101").launcher == ()
