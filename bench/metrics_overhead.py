"""What recording metrics costs a cluster, as a share of the processor time that its nodes take for a write.

Two clusters, one of which records, differ by more than that: by where their memory lies, by what the machine
did meanwhile. So it is measured in two steps, each where noise can do least.

- *What is added to a write*, in microseconds: one node alone, whose recording is switched on and off while it
  runs (``bench/metrics_node.py``). Turns take a hundredth of a second, one after the other in an order that
  changes, each the same work by a producer of its own. The difference is taken within each round; the median
  of many rounds is told, with the interval that holds it in 19 of 20 cases. Each round has a third turn, the
  *control*, which records nothing either: what it differs by is what this cannot tell apart.
- *What a write takes* of all nodes of a cluster of three, all of which have it before it is acknowledged.
  They lead as many partitions each, so that is what every one of them does for each write that it leads, and
  what bounds throughput. The least of some turns: whatever else the nodes did meanwhile is not in it.

In batches is how producers write when there is much to write, and the bar is about that: it is what
throughput is. One by one is the worst case, every record a request. What followers add for the sizes of their
messages is left out, and so is what clients take. The share of the node alone is stated as well: nothing is
copied there, so it does little for a write, and the share is larger. Nobody reads the page meanwhile: that
costs what ``python -m bench.metrics`` says. How many calls recording adds to a request is counted by a test
(tests/unit/metrics/test_work_of_recording.py), for which no machine is too busy.

    python -m bench.metrics --overhead [--rounds 200]
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from bench.cluster.processes import running
from bench.figure import Figure
from quorate.client import AsyncAdmin, AsyncProducer
from quorate.node.cluster_layout import HOST, free_ports

__all__ = ["median_interval", "run_overhead"]

_NODE: Final = (sys.executable, "-m", "bench.metrics_node")
_REPLICAS: Final = 3
_PARTITIONS: Final = 6
_VALUE: Final = b"v" * 100
_BATCH_RECORDS: Final = 1_000
_BAR_PERCENT: Final = 2.0
#: by name, whether it records
_TURNS: Final = {"without": False, "with": True, "control": False}
#: of the first rounds, which do not count
_WARM_UP: Final = 3
#: turns in the cluster, for the half of the figure that need not be exact
_CLUSTER_ROUNDS: Final = 20


async def _in_batches(producer: AsyncProducer, writes: int) -> None:
    """A thousand records in each request, about what a batch takes; always of the same shape."""
    for number in range(writes):
        values = [_VALUE] * _BATCH_RECORDS
        await (await producer.send_many("orders", values, partition=number % _PARTITIONS))


async def _one_by_one(producer: AsyncProducer, writes: int) -> None:
    """One writer that waits for each answer, so that every record is a request."""
    for number in range(writes):
        await (await producer.send("orders", _VALUE, partition=number % _PARTITIONS))


class Load(NamedTuple):
    name: str
    #: of one turn, each of which is one request
    writes: int
    run: Callable[[AsyncProducer, int], Awaitable[None]]
    bar: float | None


_LOADS: Final = (
    Load("in batches", 18, _in_batches, _BAR_PERCENT),
    Load("one by one", 30, _one_by_one, None),
)


class Node:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def record(self, *, is_on: bool) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        word = b"on\n" if is_on else b"off\n"
        self._process.stdin.write(word)
        assert await self._process.stdout.readline() == word, "the node has ended"

    def cpu_s(self) -> float:
        """Of all threads, by the scheduler's own count: ticks are too coarse for a turn."""
        total_ns = 0
        for thread in os.listdir(f"/proc/{self._process.pid}/task"):
            with open(f"/proc/{self._process.pid}/task/{thread}/schedstat", encoding="ascii") as file:
                total_ns += int(file.read().split()[0])
        return total_ns / 1e9


class Cluster(NamedTuple):
    nodes: Sequence[Node]
    bootstrap: str

    async def record(self, *, is_on: bool) -> None:
        for node in self.nodes:
            await node.record(is_on=is_on)

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.nodes)


@contextlib.asynccontextmanager
async def _cluster(nodes: int) -> AsyncIterator[Cluster]:
    addresses = [f"{HOST}:{port}" for port in free_ports(nodes)]
    voters = ",".join(f"{number}@{address}" for number, address in enumerate(addresses, 1))
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        processes = [
            await stack.enter_async_context(
                running(
                    *(*_NODE, str(number), voters, f"{directory}/{number}"),
                    stdin=asyncio.subprocess.PIPE,
                    # What it complains of is for whoever looks on.
                    stderr=None,
                )
            )
            for number in range(1, nodes + 1)
        ]
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n", "the node did not start"
        cluster = Cluster([Node(process) for process in processes], ",".join(addresses))
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await admin.create_topic("orders", partitions=_PARTITIONS, replication_factor=nodes)
        yield cluster


async def _rounds(
    load: Load, cluster: Cluster, rounds: int, turns: Sequence[str] = tuple(_TURNS)
) -> list[dict[str, float]]:
    """Microseconds of all processors for each write, by turn."""
    order = random.Random(1)
    async with contextlib.AsyncExitStack() as stack:
        producers: dict[str, AsyncProducer] = {}
        for turn in turns:
            # Its streams begin with its first records, and stay as they began.
            await cluster.record(is_on=_TURNS[turn])
            producers[turn] = await stack.enter_async_context(AsyncProducer(cluster.bootstrap))
            await load.run(producers[turn], load.writes)
        found: list[dict[str, float]] = []
        for _ in range(_WARM_UP + rounds):
            costs = {}
            for turn in order.sample(turns, len(turns)):
                await cluster.record(is_on=_TURNS[turn])
                before = cluster.cpu_s()
                await load.run(producers[turn], load.writes)
                costs[turn] = (cluster.cpu_s() - before) / load.writes * 1e6
            found.append(costs)
    return found[_WARM_UP:]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Which holds the median in 19 of 20 cases, whatever values are distributed like."""
    ordered = sorted(values)
    # By the normal approximation of how many of them are below the median.
    reach = 1.96 * math.sqrt(len(ordered)) / 2
    low, high = math.floor(len(ordered) / 2 - reach), math.ceil(len(ordered) / 2 + reach) - 1
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def _figures(load: Load, alone: Sequence[dict[str, float]], write_us: float) -> list[Figure]:
    """``write_us``: what a write takes of all nodes of a cluster."""
    added = [costs["with"] - (costs["without"] + costs["control"]) / 2 for costs in alone]
    control = [costs["control"] - costs["without"] for costs in alone]
    alone_us = statistics.median(costs["without"] for costs in alone)
    added_us = statistics.median(added)
    how = f"{_interval(added)} of {write_us:,.0f} us; the control: {_interval(control)}, and 0 is true"
    name = f"writes {load.name}: added"
    return [
        Figure.at_most(name, added_us / write_us * 100, "%", load.bar, how),
        Figure.at_most(f"{name} to a node alone", added_us / alone_us * 100, "%", None, f"{alone_us:.0f} us"),
    ]


def _interval(values: Sequence[float]) -> str:
    low, high = median_interval(values)
    return f"{statistics.median(values):+.1f} us ({low:+.1f} to {high:+.1f})"


async def run_overhead(rounds: int) -> list[Figure]:
    write_us = {}
    async with _cluster(_REPLICAS) as cluster:
        for load in _LOADS:
            found = await _rounds(load, cluster, _CLUSTER_ROUNDS, ["without"])
            write_us[load.name] = min(costs["without"] for costs in found)
    figures = []
    async with _cluster(1) as node:
        for load in _LOADS:
            figures += _figures(load, await _rounds(load, node, rounds), write_us[load.name])
    return figures
