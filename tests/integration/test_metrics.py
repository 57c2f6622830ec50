"""/metrics, /livez and /readyz of real nodes, as Prometheus and a supervisor see them."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from quorate.node.local_cluster import LocalCluster
from tests.unit.node.test_endpoint import names_of_samples

T = TypeVar("T")

PARTITIONS: Final = 3
TIMEOUT_S: Final = 60
KNOWN: Final = names_of_samples()
HEARTBEAT_AGE: Final = "quorate_controller_heartbeat_age_seconds"
#: so that a test need not wait for a quarter of a minute for every look
SETTINGS: Final = {"metrics.groups.interval.ms": "1s"}


class Answer(NamedTuple):
    status: int
    content_type: str
    body: str


class Question:
    """One that was asked, whether or not the node runs to answer it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    @classmethod
    async def ask(cls, cluster: LocalCluster, node: str, path: str, *, accept: str = "*/*") -> Question:
        """Returns once it lies in the node's socket."""
        address = cluster.node(node).metrics_address
        assert address is not None
        connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        await asyncio.to_thread(connection.request, "GET", path, headers={"Accept": accept})
        return cls(connection)

    async def answer(self) -> Answer:
        def read() -> Answer:
            response = self._connection.getresponse()
            return Answer(response.status, response.headers["Content-Type"], response.read().decode())

        try:
            return await asyncio.to_thread(read)
        finally:
            self._connection.close()


async def ask(cluster: LocalCluster, node: str, path: str, *, accept: str = "*/*") -> Answer:
    return await (await Question.ask(cluster, node, path, accept=accept)).answer()


Samples = dict[tuple[str, ...], float]


async def scrape(cluster: LocalCluster, node: str) -> dict[str, Samples]:
    """By the metric's name, and by the values of its labels in the order of their names."""
    answer = await ask(cluster, node, "/metrics")
    assert (answer.status, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found: dict[str, Samples] = {}
    for family in text_string_to_metric_families(answer.body):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in sorted(sample.labels))
            assert found.setdefault(sample.name, {}).setdefault(labels, sample.value) == sample.value
    assert found.keys() <= KNOWN
    return found


async def scrape_all(cluster: LocalCluster, *nodes: str) -> dict[str, dict[str, Samples]]:
    names = nodes or cluster.names
    return dict(zip(names, await asyncio.gather(*(scrape(cluster, name) for name in names)), strict=True))


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What it finds, once it finds something."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.1)


async def until_ready(cluster: LocalCluster, node: str) -> None:
    async def ready() -> bool:
        return (await ask(cluster, node, "/readyz")).status == 200

    await until(ready)


async def teller(cluster: LocalCluster, *nodes: str) -> str:
    """The one that tells of the group. While it changes there may seem to be two: a page is kept a second."""

    async def look() -> str | None:
        told = await scrape_all(cluster, *nodes)
        tellers = [
            name for name, found in told.items() if ("billing",) in found.get("quorate_group_members", {})
        ]
        return tellers[0] if len(tellers) == 1 else None

    return await until(look)


@pytest.fixture
def cluster() -> LocalCluster:
    return LocalCluster.create(brokers=3, is_combined=True, settings=SETTINGS)


def check_what_was_measured(told: dict[str, dict[str, Samples]]) -> None:
    """Of the writes of the test, and of what a cluster does by itself."""

    def total(name: str, *labels: str) -> float:
        found = [each.get(name, {}).get(labels, 0) for each in told.values()]
        return sum(found)

    assert total("quorate_topic_produced_records_total", "orders") == 10 * PARTITIONS
    assert 0 < total("quorate_topic_produce_seconds_count", "orders") <= 10 * PARTITIONS
    assert total("quorate_request_seconds_count", "BrokerService/ProduceStream", "ok") > 0
    assert total("quorate_request_received_bytes_sum", "BrokerService/ProduceStream") > 10 * PARTITIONS * 100
    assert total("quorate_request_sent_bytes_sum", "ReplicaService/Replicate") > 10 * PARTITIONS * 100
    assert total("quorate_cluster_partitions") == PARTITIONS + 16
    assert total("quorate_cluster_brokers") == 3
    assert total("quorate_cluster_offline_partitions") == 0
    assert total("quorate_controller_commit_seconds_count") > PARTITIONS
    assert total("quorate_controller_voters") == 3
    assert total("quorate_controller_voters_unsettled") == 0
    ages = [age for each in told.values() for age in each.get(HEARTBEAT_AGE, {}).values()]
    assert len(ages) == 3
    for each in told.values():
        assert each["quorate_controller_term"][()] >= 1
        assert each["quorate_controller_hears_leader"][()] == 1
        assert each["quorate_replica_log_bytes"]["orders",] > 10 * PARTITIONS * 100
        assert each["quorate_replica_failed"][()] == 0
        assert each["quorate_broker_logs_without_room"][()] == 0
        assert each["quorate_disk_free_bytes"]["data",] > 0
        assert each["quorate_disk_flush_seconds_count"][()] > 0
        assert each["quorate_loop_lag_seconds_count"][()] > 0
        assert each["quorate_event_logged_total"]["node_ready", "info"] == 1


async def test_lag_of_a_group_is_told_by_its_coordinator_and_by_the_next_one(cluster: LocalCluster) -> None:
    async with cluster, AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        for number in range(10 * PARTITIONS):
            await producer.send("orders", "v" * 100, partition=number % PARTITIONS)
        await producer.flush()
        await admin.commit_offsets("billing", {("orders", 0): 10, ("orders", 1): 4})
        for name in cluster.names:
            await until_ready(cluster, name)
            assert await ask(cluster, name, "/livez") == (200, "text/plain; charset=utf-8", "alive\n")

        coordinator = await teller(cluster)
        told = await scrape(cluster, coordinator)
        assert told["quorate_group_lag_records"] == {
            ("billing", "0", "orders"): 0,
            ("billing", "1", "orders"): 6,
            ("billing", "2", "orders"): 10,
        }
        assert told["quorate_group_lag_seconds"]["billing", "0", "orders"] == 0
        assert 0 < told["quorate_group_lag_seconds"]["billing", "1", "orders"] < TIMEOUT_S
        assert 0 < told["quorate_group_lag_retention_ratio"]["billing", "2", "orders"] < 0.001
        assert told["quorate_group_members"] == {("billing",): 0}
        assert told["quorate_group_state_info"] == {("billing", "empty"): 1}
        assert told["quorate_group_left_out_groups"] == {(): 0}

        async def all_is_well() -> bool:
            everywhere = (await scrape_all(cluster)).values()
            assert all(each["process_resident_memory_bytes"][()] > 1 << 20 for each in everywhere)
            # Those of orders, and of the groups' own topic.
            leaders = sum(each["quorate_broker_leaders"][()] for each in everywhere)
            active = sum(each["quorate_controller_active"][()] for each in everywhere)
            is_ready = all(each["quorate_node_ready"] == {(): 1} for each in everywhere)
            return is_ready and (leaders, active) == (PARTITIONS + 16, 1)

        await until(all_is_well)
        check_what_was_measured(await scrape_all(cluster))
        accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
        answer = await ask(cluster, coordinator, "/metrics", accept=accept)
        assert answer.content_type.startswith("application/openmetrics-text")
        assert list(openmetrics_parser.text_string_to_metric_families(answer.body))  # type: ignore[no-untyped-call]

        # The coordinator falls silent: another one tells, and says what else is not as it should be.
        await cluster.pause(coordinator)
        others = [name for name in cluster.names if name != coordinator]
        await teller(cluster, *others)

        async def out_of_sync() -> bool:
            told = await scrape_all(cluster, *others)
            return all(each["quorate_broker_under_replicated_partitions"][()] for each in told.values())

        await until(out_of_sync)

        async def shrunk() -> bool:
            told = await scrape_all(cluster, *others)
            return sum(each["quorate_change_isr_shrinks_total"][()] for each in told.values()) > 0

        await until(shrunk)
        assert all([(await ask(cluster, name, "/readyz")).status == 200 for name in others]), (
            "they are in sync"
        )

        # It was asked before anything could tell it that it was replaced: by its own clock it knows.
        asked = await Question.ask(cluster, coordinator, "/readyz")
        cluster.resume(coordinator)
        assert (await asked.answer()).status == 503
        await until_ready(cluster, coordinator)

        async def lag() -> float | None:
            # Not there while its leader has not answered, as on a machine that is busy otherwise.
            lags = (await scrape(cluster, await teller(cluster))).get("quorate_group_lag_records", {})
            return lags.get(("billing", "1", "orders"))

        assert await until(lag) == 6

        # The group catches up.
        async with AsyncConsumer(
            cluster.bootstrap, group="billing", topics=["orders"], auto_offset_reset="earliest"
        ) as consumer:
            read = 0
            while read < 16:
                read += len(await consumer.poll())

            async def has_member() -> bool:
                told = await scrape_all(cluster)
                return any(each.get("quorate_group_members") == {("billing",): 1} for each in told.values())

            await until(has_member)
            await consumer.commit()

        async def has_caught_up() -> bool:
            told = await scrape(cluster, await teller(cluster))
            # Not there at all while no leader has answered, as on a machine that is busy otherwise.
            return set(told.get("quorate_group_lag_records", {}).values()) == {0.0}

        await until(has_caught_up)


async def test_a_follower_that_has_to_catch_up_lives_and_is_not_ready(cluster: LocalCluster) -> None:
    async with cluster, AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("ledger", assignments={0: [1, 2]})
        await producer.send_many("ledger", ["v" * 1_000] * 500)
        await producer.flush()
        for name in cluster.names:
            await until_ready(cluster, name)
        # A copy is made, so slowly that it does not get done.
        await admin.alter_config(None, {"follower.replication.throttled.rate": "1024"})
        await admin.reassign_partitions({("ledger", 0): [1, 2, 3]})

        async def refused() -> Answer | None:
            answer = await ask(cluster, "node-3", "/readyz")
            return None if answer.status == 200 else answer

        answer = await until(refused)
        assert (answer.status, answer.body) == (503, "not ready\n1 replica(s) not in sync: ledger-0\n")
        assert (await ask(cluster, "node-3", "/livez")).status == 200
        told = await scrape(cluster, "node-3")
        assert told["quorate_broker_out_of_sync_replicas"] == {(): 1}
        assert told["quorate_throttle_limit_bytes_per_second"] == {(): 1024}

        async def is_used() -> bool:
            # Its log may have to be made first.
            told = await scrape(cluster, "node-3")
            is_limited = told["quorate_throttle_limited_replicas"] == {(): 1}
            return is_limited and told["quorate_throttle_used_seconds_total"][()] > 0

        await until(is_used)
        assert (await ask(cluster, "node-1", "/readyz")).status == 200
        await admin.alter_config(None, {"follower.replication.throttled.rate": "-1"})
        await until_ready(cluster, "node-3")
