"""Every query of the dashboards and alerts, for real: a cluster under load, and a Prometheus that scrapes it.

    make observability-test

A query that gives nothing on a cluster that works would be an empty panel, or an alert that never fires. So
each has to give something, but for those that say that they may not. Then a broker is killed, and what must
notice it has to.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.observability.asking import Prometheus
from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.evidence import EVIDENCE, ObservabilityRun
from deploy.test.commands import CannotTest
from deploy.test.run_records import machine
from deploy.test.steps import Steps, conclude
from quorate.chaos.evidence.checkout import commit_of
from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from quorate.errors import QuorateError
from quorate.node.cluster_layout import HOST, free_ports
from quorate.node.local_cluster import LocalCluster
from tools.check_alerts import ROOT, RULES, find_tool

#: so that rates have two scrapes within a minute many times over
_SCRAPE_INTERVAL: Final = "1s"
_PATIENCE_S: Final = 120.0
_GROUP: Final = "billing"
#: what has to notice that a broker is gone
_NOTICING: Final = frozenset(
    {"QuorateNodeDown", "QuorateIsrShrunk", "QuorateBrokerFenced", "QuorateVoterMissing"}
)
#: that a cluster which is well has none of
_OF_FAILURES: Final = frozenset({"quorate_topic_produce_errors_total"})
_METRIC: Final = re.compile(r"\b(?:quorate|process)_[a-z_]+\b")


@asynccontextmanager
async def _prometheus(program: str, cluster: LocalCluster) -> AsyncIterator[Prometheus]:
    address = f"{HOST}:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "prometheus.yaml")
        config.write_text(yaml.safe_dump(_config(cluster)))
        with open(Path(directory, "log"), "wb") as log:
            process = await asyncio.create_subprocess_exec(
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address={address}",
                stdout=log,
                stderr=log,
            )
            try:
                yield Prometheus(address)
            finally:
                if process.returncode is None:
                    process.terminate()
                await process.wait()


def _config(cluster: LocalCluster) -> dict[str, Any]:
    targets = [cluster.node(name).metrics_address for name in cluster.names]
    return {
        "global": {"scrape_interval": _SCRAPE_INTERVAL, "evaluation_interval": _SCRAPE_INTERVAL},
        "rule_files": [str(path) for path in RULES.glob("*.yaml")],
        "scrape_configs": [
            {"job_name": "quorate", "static_configs": [{"targets": targets, "labels": {"cluster": "live"}}]}
        ],
    }


async def _load(bootstrap: str, is_enough: asyncio.Event) -> None:
    """Writes, a group that reads and commits, and requests; in the end the group has read everything."""
    async with (
        AsyncProducer(bootstrap) as producer,
        AsyncConsumer(bootstrap, group=_GROUP, topics=["orders"]) as consumer,
        AsyncAdmin(bootstrap) as admin,
    ):
        while not is_enough.is_set():
            await producer.send_many("orders", ["v" * 100] * 100)
            await consumer.poll(timeout=0.2)
            await consumer.commit()
            await admin.list_topics()
        async with asyncio.timeout(_PATIENCE_S):
            await producer.flush()
            # There is an alert for a group that has no members and something to read.
            while (await admin.describe_group(_GROUP)).lag != 0:
                await consumer.poll(timeout=0.2)
                await consumer.commit()


async def _until(what: str, look: Callable[[], Awaitable[object]]) -> str:
    """What came to be so."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            missing = await look()
        except OSError as error:
            missing = error
        if not missing:
            return what
        if time.monotonic() > deadline:
            raise CannotTest(f"{what}: not after {_PATIENCE_S:g} s: {missing}")
        await asyncio.sleep(1)


async def _check_queries(prometheus: Prometheus, told: list[str]) -> None:
    for dashboard in DASHBOARDS:
        queries = dashboard.queries()

        async def missing(queries: list[Any] = queries) -> list[str]:
            return [
                query.expression
                for query in queries
                if not await prometheus.query(query.expression) and not query.may_be_empty
            ]

        told.append(await _until(f"{dashboard.name}: {len(queries)} queries", missing))


async def _check_alerts(prometheus: Prometheus, told: list[str]) -> None:
    rules = [rule for path in RULES.glob("*.yaml") for rule in _rules(path)]
    names = {name for rule in rules for name in _METRIC.findall(rule["expr"])} - _OF_FAILURES

    async def missing() -> list[str]:
        return [name for name in sorted(names) if not await prometheus.query(name)]

    told.append(await _until(f"{len(rules)} rules on {len(names)} metrics, each of which is there", missing))
    told.append(await _until("all can be evaluated", prometheus.broken_rules))
    told.append(await _until("none on a cluster that is well", prometheus.alerts))


def _rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


async def _check_kill(prometheus: Prometheus, cluster: LocalCluster, told: list[str]) -> None:
    victim = cluster.names[-1]
    await cluster.kill(victim)

    async def unnoticed() -> set[str]:
        return set(_NOTICING - (await prometheus.alerts()).keys())

    told.append(await _until(f"on their way: {', '.join(sorted(_NOTICING))}", unnoticed))
    await cluster.start([victim])
    told.append(await _until("gone when it is back", prometheus.alerts))


async def run(program: str) -> ObservabilityRun:
    """A step that fails is part of what it gives."""
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    commit = commit_of(ROOT)
    steps = Steps()
    version = "did not answer"
    cluster = LocalCluster.create(brokers=3, is_combined=True, settings={"metrics.groups.interval.ms": "1s"})
    try:
        async with (
            cluster,
            AsyncAdmin(cluster.bootstrap) as admin,
            _prometheus(program, cluster) as prometheus,
        ):
            await admin.create_topic("orders", partitions=6, replication_factor=3)
            await _take(steps, prometheus, cluster)
            version = await prometheus.version()
    except (CannotTest, QuorateError, OSError) as error:
        steps.ended_by(error)
    return ObservabilityRun(
        began=began,
        commit=commit.name,
        is_clean=commit.is_clean,
        system=machine(),
        prometheus=version,
        steps=tuple(steps.done),
    )


async def _take(steps: Steps, prometheus: Prometheus, cluster: LocalCluster) -> None:
    is_enough = asyncio.Event()
    load = asyncio.create_task(_load(cluster.bootstrap, is_enough), name="load")
    try:
        async with steps.step("queries", "ask every query of the dashboards, under load") as told:
            await _check_queries(prometheus, told)
        async with steps.step("alerts", "ask every alert, on a cluster that is well") as told:
            await _check_alerts(prometheus, told)
            is_enough.set()
            await load
    finally:
        load.cancel()
        await asyncio.wait([load])
    async with steps.step("kill", "kill a node, and start it again") as told:
        await _check_kill(prometheus, cluster, told)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="observability-test", description=__doc__)
    parser.add_argument("--record", action="store_true", help="add the run to docs/evidence/observability.md")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    program = find_tool("prometheus")
    if program is None:
        print("there is no prometheus: install Debian's package of that name, or Go", file=sys.stderr)
        return 1
    record = asyncio.run(run(program))
    if options.record:
        EVIDENCE.record(ROOT, record)
    return conclude("observability-test", record, proved="no query was empty, no alert silent")


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(main())
