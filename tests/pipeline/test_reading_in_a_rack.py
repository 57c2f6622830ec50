"""A task that is told its rack reads from a replica there, and from the leader where that does not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from pyspark.sql.types import LongType, StructField, StructType

from quorate.client.cluster import ClusterView
from quorate.core.transport import Channel
from quorate.node.local_cluster import LocalCluster as NodeProcesses
from quorate.pipeline.source.batch_reader import QuorateReader
from quorate.pipeline.source.read_options import read_options
from quorate.testing import LocalCluster
from quorate.v1 import broker_pb2

RECORDS = 250_000  # more answers' worth than a reader asks for ahead
TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster_in_racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Each node in a rack of its own: node 2 in rack-2."""
    directory = str(tmp_path_factory.mktemp("racks") / "cluster")
    processes = NodeProcesses.create(directory, brokers=3, is_combined=True)
    for node in processes.nodes:
        processes.surround(node.name, environment={"QUORATE_NODE_RACK": f"rack-{node.id}"})
    with LocalCluster(directory=directory) as cluster:
        with cluster.admin() as admin:
            admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        with cluster.producer() as producer:
            producer.send_many(TOPIC, [b"x" * 100] * RECORDS, partition=0).result()
        cluster.wait_until_healthy()
        yield cluster


class Listening:
    """A channel that notes whom batches are asked from."""

    def __init__(self, channel: Channel, address: str, asked: list[str]) -> None:
        self._channel = channel
        self._address = address
        self._asked = asked

    async def call(self, method: Any, request: Any, *, timeout_s: float) -> Any:
        if isinstance(request, broker_pb2.FetchRequest):
            self._asked.append(self._address)
        return await self._channel.call(method, request, timeout_s=timeout_s)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that batches were asked from, one after the other."""
    found: list[str] = []
    channel = ClusterView.channel

    def listening(self: ClusterView, address: str) -> Any:
        return Listening(channel(self, address), address, found)

    monkeypatch.setattr(ClusterView, "channel", listening)
    return found


def reading(cluster: LocalCluster, rack: str | None) -> Iterator[list[int]]:
    """The offsets of one Arrow batch after the other, as a task reads them."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": TOPIC}
    given |= {} if rack is None else {"kafka.client.rack": rack}
    schema = StructType([StructField("offset", LongType())])
    reader = QuorateReader(read_options(given, is_streaming=False), schema)
    (task,) = reader.partitions()
    return (batch.column(0).to_pylist() for batch in reader.read(task))


def address_of(cluster: LocalCluster, node_id: int) -> str:
    (found,) = (each.address for each in NodeProcesses(cluster.directory).nodes if each.id == node_id)
    return found


def test_batches_come_from_the_replica_in_the_rack_and_from_the_leader_where_there_is_none(
    cluster_in_racks: LocalCluster, asked: list[str]
) -> None:
    whom = {f"rack-{node_id}": node_id for node_id in (1, 2, 3)}
    whom["elsewhere"] = cluster_in_racks.leader_of(TOPIC)
    for rack, node_id in whom.items():
        asked.clear()
        found = [offset for batch in reading(cluster_in_racks, rack) for offset in batch]
        assert found == list(range(RECORDS))
        assert set(asked) == {address_of(cluster_in_racks, node_id)}
        assert len(asked) > 1


def test_an_executor_knows_its_rack_by_its_environment_unless_the_query_says_one(
    cluster_in_racks: LocalCluster, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors of one query may be in several racks, and an option is the same for all."""
    leader = cluster_in_racks.leader_of(TOPIC)
    near, other = (each for each in (1, 2, 3) if each != leader)
    monkeypatch.setenv("QUORATE_CLIENT_RACK", f"rack-{near}")
    assert sum(map(len, reading(cluster_in_racks, None))) == RECORDS
    assert set(asked) == {address_of(cluster_in_racks, near)}
    asked.clear()
    assert sum(map(len, reading(cluster_in_racks, f"rack-{other}"))) == RECORDS
    assert set(asked) == {address_of(cluster_in_racks, other)}


def test_when_the_replica_in_the_rack_dies_the_leader_is_asked_for_the_rest(
    cluster_in_racks: LocalCluster, asked: list[str]
) -> None:
    leader = cluster_in_racks.leader_of(TOPIC)
    near = next(each for each in (1, 2, 3) if each != leader)
    batches = reading(cluster_in_racks, f"rack-{near}")
    found = next(batches)
    cluster_in_racks.kill(near)
    try:
        found += [offset for batch in batches for offset in batch]
    finally:
        cluster_in_racks.heal()
    assert found == list(range(RECORDS))
    assert asked[0] == address_of(cluster_in_racks, near)
    assert asked[-1] == address_of(cluster_in_racks, leader)
