"""What a node answers over HTTP, at each time of its life; and that only its process listens for it."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from quorate.core.clock import SystemClock
from quorate.core.config import HostPort
from quorate.core.ids import BrokerId
from quorate.core.log_flood import FloodGuard
from quorate.core.metrics import MetricKind
from quorate.node.endpoint import Endpoint
from quorate.node.http.messages import Request, Response
from quorate.node.metrics.catalogue import CATALOGUE
from quorate.node.metrics.meters import Meters
from quorate.node.node import Node
from tests.unit.node.test_simulated_node import CONFIG, Machine, simulate


class FakeNode:
    """A node without roles: what it has to say is up to the test."""

    broker = None
    controller = None

    def __init__(self, *missing: str) -> None:
        self._missing = list(missing)

    async def missing(self) -> list[str]:
        return self._missing


def measured() -> Endpoint:
    clock = SystemClock()
    return Endpoint(Meters(CONFIG, clock, FloodGuard(clock.monotonic)))


def names_of_samples() -> set[str]:
    """Every one that a page may have."""
    parts = ("_bucket", "_count", "_sum")
    return {
        metric.name + part
        for metric in CATALOGUE
        for part in (parts if metric.kind is MetricKind.HISTOGRAM else ("",))
    }


async def ask(endpoint: Endpoint, path: str, **headers: str) -> Response:
    return await endpoint.answer(Request(is_head=False, path=path, headers=headers))


async def test_process_that_starts_is_alive_and_not_ready() -> None:
    endpoint = Endpoint()
    assert (await ask(endpoint, "/livez")).status == 200
    starting = await ask(endpoint, "/readyz")
    assert starting.status == 503
    assert starting.body == b"not ready\nthe node is starting\n"
    metrics = await ask(endpoint, "/metrics")
    assert metrics.status == 200
    assert metrics.content_type == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(metrics.body.decode())}
    assert all(name.startswith("process_") for name in names)


async def test_node_says_what_is_missing() -> None:
    endpoint = measured()
    endpoint.attach(cast(Node, FakeNode("this", "that")), BrokerId(1))
    response = await ask(endpoint, "/readyz")
    assert (response.status, response.body) == (503, b"not ready\nthis\nthat\n")
    assert (await ask(endpoint, "/livez")).status == 200
    assert b"\nquorate_node_ready 0.0\n" in (await ask(endpoint, "/metrics")).body


async def test_node_to_which_nothing_is_missing_is_ready() -> None:
    endpoint = measured()
    endpoint.attach(cast(Node, FakeNode()), BrokerId(1))
    response = await ask(endpoint, "/readyz")
    assert (response.status, response.body) == (200, b"ready\n")
    assert b"\nquorate_node_ready 1.0\n" in (await ask(endpoint, "/metrics")).body


async def test_collector_that_asks_for_openmetrics_gets_it() -> None:
    response = await ask(Endpoint(), "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert response.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert response.body.endswith(b"# EOF\n")


async def test_other_paths_are_not_found_and_those_that_there_are_named() -> None:
    response = await ask(Endpoint(), "/")
    assert response.status == 404
    assert b"/metrics, /livez, /readyz" in response.body


async def test_endpoint_listens_where_it_is_told() -> None:
    endpoint = await Endpoint.open(HostPort("127.0.0.1", 0))
    assert endpoint.address.startswith("127.0.0.1:")
    assert not endpoint.address.endswith(":0")
    await endpoint.close()


def test_a_whole_node_tells_what_is_in_the_catalogue() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        endpoint = measured()
        endpoint.attach(node.node, CONFIG.node_id)
        # A node serves a moment before it hears that it is not fenced any more.
        while (await ask(endpoint, "/readyz")).status != 200:
            await machine.simulation.clock.sleep(0.05)
        page = (await ask(endpoint, "/metrics")).body.decode()
        found = {
            sample.name: sample
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }
        assert found.keys() <= names_of_samples()
        assert found["quorate_controller_active"].value == 1
        assert found["quorate_node_info"].labels["roles"] == "controller,broker"
        assert found["quorate_broker_replicas"].value == 0
        assert found["quorate_group_coordinated_groups"].value == 0
        assert await node.stop()
        response = await ask(endpoint, "/readyz")
        assert (response.status, response.body) == (503, b"not ready\nthe node is stopping\n")

    simulate(scenario)


def test_node_in_the_simulator_listens_for_nobody() -> None:
    """Its sockets would be real: the process opens them, and nothing that a node is made of can."""
    program = (
        "import sys, quorate.node.process, quorate.chaos.cluster.run\n"
        "assert not {'h11', 'prometheus_client', 'quorate.node.http.server'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
