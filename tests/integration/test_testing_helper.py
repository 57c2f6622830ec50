"""What users test with: `quorate.testing`, its clusters and its fixture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.client import TopicPartition
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import InvalidRequest, UnknownTopicOrPartition
from quorate.testing import AsyncLocalCluster, LocalCluster

RunTests = Callable[[str, str], pytest.RunResult]

ORDERS = TopicPartition(TopicName("orders"), PartitionId(0))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"brokers": "3"}, r"^brokers is '3' \(str\)"),
        ({"brokers": 0}, "^brokers is 0: a cluster has at least one"),
        ({"controllers": 0}, "^controllers is 0: a cluster has at least one"),
        ({"controllers": 1.5}, "^controllers is 1.5"),
    ],
)
def test_cluster_that_cannot_be_is_refused_by_the_name_of_the_argument(arguments: Any, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        LocalCluster(**arguments)


def test_cluster_takes_records_loses_a_leader_and_is_healed() -> None:
    with LocalCluster(brokers=3) as cluster:
        directory = Path(cluster.directory)
        cluster.admin().create_topic("orders", partitions=1, replication_factor=3)
        producer = cluster.producer()
        producer.send("orders", "before").result(60)
        leader = cluster.leader_of("orders")
        with pytest.raises(UnknownTopicOrPartition, match="nope"):
            cluster.leader_of("nope")
        with pytest.raises(UnknownTopicOrPartition, match="orders has no partition 99: it has 1"):
            cluster.leader_of("orders", 99)
        cluster.kill(leader)
        assert not cluster.is_running(leader)
        producer.send("orders", "after").result(60)
        assert cluster.leader_of("orders") != leader
        cluster.heal()
        assert cluster.is_running(leader)
        consumer = cluster.consumer(topics=["orders"])
        values = [next(consumer).value, next(consumer).value]
        assert values == [b"before", b"after"]
    assert not directory.exists(), "a temporary cluster leaves nothing behind"
    with pytest.raises(InvalidRequest, match="does not run"):
        cluster.kill(leader)


async def test_cluster_of_one_goes_on_with_its_data_on_an_event_loop(tmp_path: Path) -> None:
    directory = str(tmp_path)
    async with AsyncLocalCluster(1, directory=directory, settings={"num.partitions": "1"}) as cluster:
        await cluster.admin().create_topic("orders")
        await (await cluster.producer().send("orders", "kept"))
        await cluster.pause(1)
        await cluster.resume(1)
        await cluster.restart("node-1")
        await cluster.wait_until_healthy()
    async with AsyncLocalCluster(1, directory=directory) as cluster:
        consumer = cluster.consumer()
        consumer.assign([ORDERS])
        assert (await anext(consumer)).value == b"kept"


USERS_TESTS = """
    def test_first(quorate_cluster):
        assert quorate_cluster.nodes == ["node-1"]
        quorate_cluster.admin().create_topic("first")

    def test_second_has_the_same_cluster(quorate_cluster):
        described = quorate_cluster.admin().describe_topic("first")
        assert len(described.partitions) == 2
"""


@pytest.fixture
def run_users_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunTests:
    """With this ini file. Whether or not the plugin is installed here, it is loaded once."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(ini: str, tests: str) -> pytest.RunResult:
        pytester.makeini(f"[pytest]\n{ini}\n")
        pytester.makepyfile(tests)
        return pytester.runpytest_inprocess("-q", "-p", "quorate.testing.pytest_plugin")

    return run


def test_fixture_is_one_cluster_for_the_session_made_as_configured(run_users_tests: RunTests) -> None:
    ini = "quorate_brokers = 1\nquorate_settings =\n    num.partitions=2"
    run_users_tests(ini, USERS_TESTS).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("configured", "told"),
    [("quorate_brokers = none", "not a number"), ("quorate_settings = a", "not KEY=VALUE")],
)
def test_fixture_that_is_configured_wrongly_says_so(
    run_users_tests: RunTests, configured: str, told: str
) -> None:
    result = run_users_tests(configured, "def test_it(quorate_cluster): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{told}*"])


def test_plugin_imports_nothing_for_tests_that_do_not_use_it() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import quorate.testing.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()) <= {
        "quorate", "quorate.testing", "quorate.testing.pytest_plugin"
    }  # fmt: skip
