"""``quorate bench`` against a cluster of real processes: small loads, every command."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quorate.node.local_cluster import LocalCluster


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster.create(brokers=3, is_combined=True) as cluster:
        yield cluster


async def bench(cluster: LocalCluster, *arguments: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "--bootstrap", cluster.bootstrap),
        *("--output", "json", "bench", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, error.decode()
    told: dict[str, Any] = json.loads(out)
    return told


async def test_every_measurement_runs_and_leaves_nothing_behind(cluster: LocalCluster) -> None:
    produced = await bench(cluster, "produce", "--records", "5000")
    assert produced["records"] == 5000
    consumed = await bench(cluster, "consume", "--records", "5000")
    assert consumed["records"] == 5000
    alone = await bench(cluster, "latency", "--records", "50")
    assert alone["latency_ms"]["p50"] <= alone["latency_ms"]["max"]
    stream = await bench(cluster, "latency", "--records", "100", "--rate", "200")
    assert stream["rate"] == 200
    failed_over = await bench(cluster, "failover", "--dir", cluster.directory, "--times", "1")
    assert failed_over["times"] == 1
    async with cluster.connect() as connection:
        assert await connection.list_topics() == []
