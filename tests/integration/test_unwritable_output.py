"""A node whose standard output and error take nothing serves, counts what it cannot say, and stops well."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import urllib.error
import urllib.request
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import pytest

from quorate.client import AsyncAdmin, AsyncProducer
from quorate.node.child import node_command, node_environment
from quorate.node.cluster_layout import HOST, free_ports

UNWRITTEN = "quorate_event_unwritten_total"
READY_TIMEOUT_S = 60.0
POLL_S = 0.05


@contextlib.contextmanager
def full_disk() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def closed_pipe() -> Iterator[int]:
    """As of `2>&1 | head`, whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


@asynccontextmanager
async def running(path: Path, output: int) -> AsyncIterator[tuple[Process, str, str]]:
    """A node that is a cluster by itself, where it serves, and where it tells its metrics."""
    port, metrics_port = free_ports(2)
    address, metrics = f"{HOST}:{port}", f"{HOST}:{metrics_port}"
    settings = {"node.id": "1", "data.dir": str(path), "listeners": address, "metrics.address": metrics}
    process = await asyncio.create_subprocess_exec(
        *node_command(settings), stdout=output, stderr=output, env=node_environment()
    )
    try:
        yield process, address, metrics
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def got(metrics: str, path: str) -> str | None:
    """None: it does not answer, or says no."""

    def get() -> str | None:
        try:
            with urllib.request.urlopen(f"http://{metrics}{path}", timeout=READY_TIMEOUT_S) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, ConnectionError):
            return None

    return await asyncio.to_thread(get)


async def until_ready(process: Process, metrics: str) -> None:
    async with asyncio.timeout(READY_TIMEOUT_S):
        while await got(metrics, "/readyz") is None:
            assert process.returncode is None, "it ended"
            await asyncio.sleep(POLL_S)


@pytest.mark.parametrize("output_of", [full_disk, closed_pipe])
async def test_node_whose_output_cannot_be_written_serves_and_stops_well(
    tmp_path: Path, output_of: Callable[[], AbstractContextManager[int]]
) -> None:
    with output_of() as output:
        async with running(tmp_path / "data", output) as (process, address, metrics):
            await until_ready(process, metrics)
            async with AsyncAdmin(address) as admin:
                await admin.create_topic("orders", partitions=1, replication_factor=1)
            async with AsyncProducer(address) as producer:
                assert (await (await producer.send("orders", b"kept"))).offset == 0
            page = await got(metrics, "/metrics")
            assert page is not None
            [told] = [line for line in page.splitlines() if line.startswith(f"{UNWRITTEN} ")]
            assert float(told.split()[1]) > 0
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), READY_TIMEOUT_S) == 0
