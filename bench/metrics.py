"""What metrics cost a broker: 1,000 groups of 10 partitions each, all behind, all at one coordinator.

One node in this process is everything at once: coordinator, leader of what is read, and who writes the page.
So a look includes what other brokers would do for it, but for the messages. What matters beside the time is
the longest turn of the loop, for which nobody else is served.

    python -m bench.metrics
    python -m bench.metrics --overhead    # what recording costs: see bench/metrics_overhead.py
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final, NoReturn

from bench.figure import Figure, show
from bench.metadata_image import timed
from bench.metrics_overhead import run_overhead
from quorate.client import AsyncAdmin, AsyncProducer
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.config import HostPort, MetricsConfig, NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.metrics import MetricSource
from quorate.core.os_disk import OsDisk
from quorate.node.cluster_layout import HOST, free_ports
from quorate.node.metrics.exposition import Format, write_page
from quorate.node.node import Node, Surroundings

__all__ = ["run"]

GROUPS: Final = 1_000
PARTITIONS: Final = 10
RECORDS: Final = 1_000
VALUE: Final = b"v" * 100
AT_ONCE: Final = 50


def _end(reason: str) -> NoReturn:
    raise SystemExit(reason)


@asynccontextmanager
async def _node() -> AsyncIterator[Node]:
    with tempfile.TemporaryDirectory() as directory:
        config = NodeConfig(
            node_id=BrokerId(1),
            data_dir=directory,
            listeners=(HostPort(HOST, free_ports(1)[0]),),
            # One look, when the first reader comes, and none that would be measured along with the pages.
            metrics=MetricsConfig(groups_interval_ms=600_000),
        )
        disk = OsDisk()
        surroundings = Surroundings(SystemClock(), disk, client_transport(), os.urandom, _end)
        node = await Node.start(config, surroundings)
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(node.run(stop, on_ready=ready.set), name="node")
        try:
            await ready.wait()
            yield node
        finally:
            stop.set()
            await running
            await node.stop()
            disk.close()


async def _fill(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic("orders", partitions=PARTITIONS, replication_factor=1)
        for number in range(PARTITIONS):
            await producer.send_many("orders", [VALUE] * RECORDS, partition=number)
        await producer.flush()
        for start in range(0, GROUPS, AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for group in range(start, start + AT_ONCE):
                    offsets = {("orders", number): group % RECORDS for number in range(PARTITIONS)}
                    tasks.create_task(admin.commit_offsets(f"group-{group}", offsets))


async def _measured(name: str, work: Awaitable[object], bar_ms: float) -> list[Figure]:
    began = time.process_time()
    _, seconds, longest = await timed(work)
    processor = time.process_time() - began
    how = f"{GROUPS:,} groups, {GROUPS * PARTITIONS:,} partitions of groups"
    return [
        Figure.at_most(name, seconds * 1e3, "ms", None, f"{how}; {processor * 1e3:.0f} ms of processor"),
        Figure.at_most(f"{name}: longest turn of the loop", longest * 1e3, "ms", bar_ms, how),
    ]


async def _look(sources: list[MetricSource]) -> None:
    for source in sources:
        await source.look()


async def run() -> list[Figure]:
    async with _node() as node:
        await _fill(node.addresses[0])
        # As a node does once it is ready: what it holds by then is no garbage to be looked for.
        gc.collect()
        gc.freeze()
        assert node.broker is not None
        sources = list(node.broker.metrics)
        figures = await _measured("a look at all groups", _look(sources), 50.0)
        for form in Format:
            page = await write_page(sources, form)
            figures += await _measured(f"a page, {form.name.lower()}", write_page(sources, form), 50.0)
            size = len(page) / 1e6
            samples = page.count(b"\n") - page.count(b"\n#")
            figures.append(
                Figure.at_most(f"its size, {form.name.lower()}", size, "MB", None, f"{samples:,} samples")
            )
    gc.unfreeze()
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.metrics", description=__doc__)
    parser.add_argument("--overhead", action="store_true", help="what recording costs")
    parser.add_argument("--rounds", type=int, default=200)
    chosen = parser.parse_args()
    show("Metrics", asyncio.run(run_overhead(chosen.rounds) if chosen.overhead else run()))
