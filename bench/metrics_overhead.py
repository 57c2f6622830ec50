"""What recording metrics costs a broker, as a share of the processor time that requests take it.

Two ways, because on a machine that others use the difference between two nodes drowns in noise:

- *Directly*: a stream of produce requests through the measured handlers and through bare ones, in turns, in
  this process. What is added for each request is set beside what a node takes for each partition of a request
  (of which there is one at least): in batches, as producers write when there is much to write; and one by
  one, the worst case.
- *End to end*: two nodes, one with a ``metrics.address`` and one that records nothing, take turns within
  every round; processor time of the node's threads for each record.

A node alone does less for a record than one with followers, so the share is larger here than in a cluster.
Nobody reads the page meanwhile: that costs what ``python -m bench.metrics`` says.

    python -m bench.metrics --overhead [--rounds 20]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

from bench.cluster.processes import running
from bench.figure import Figure
from quorate.client import AsyncAdmin, AsyncProducer
from quorate.core.transport import Call, Handler, methods_of
from quorate.node.cluster_layout import HOST, free_ports
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.node.ready_line import READY_PREFIX
from quorate.rpc.traffic import UNMEASURED, MethodTraffic
from quorate.v1 import broker_pb2

__all__ = ["run_overhead"]

_PARTITIONS: Final = 8
_VALUE: Final = b"v" * 100
_BAR_PERCENT: Final = 2.0
_KINDS: Final = ("without", "with")
_STREAM: Final = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])["ProduceStream"]
#: of one direct turn
_REQUESTS: Final = 20_000


# -- directly


def _request(number: int) -> broker_pb2.ProduceStreamRequest:
    partition = broker_pb2.ProducePartition(topic="orders", batch=_VALUE)
    request = broker_pb2.ProduceRequest(partitions=[partition])
    return broker_pb2.ProduceStreamRequest(correlation_id=number, request=request)


async def _answers(
    requests: AsyncIterator[Any], _call: Call
) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
    async for request in requests:
        result = broker_pb2.ProducePartitionResult(topic="orders", base_offset=7, next_offset=8)
        response = broker_pb2.ProduceResponse(partitions=[result])
        yield broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)


async def _turn(handler: Handler, traffic: MethodTraffic) -> float:
    """Microseconds of processor time for each request."""

    async def requests() -> AsyncGenerator[broker_pb2.ProduceStreamRequest, None]:
        for number in range(_REQUESTS):
            traffic.received(150)
            yield _request(number)

    began = time.process_time()
    async for _ in handler(requests(), None):  # type: ignore[arg-type,union-attr]  # it looks at no call
        traffic.sent(50)
    return (time.process_time() - began) / _REQUESTS * 1e6


async def _recording_us(rounds: int) -> list[float]:
    """What is added for each request, by rounds."""
    meter, topics = RequestMeter(), TopicMeter(10)
    measured = MeasuredTransport(None, meter, topics, time.monotonic)  # type: ignore[arg-type]
    handler = measured.measured_handler(_STREAM, _answers)
    added = []
    for _ in range(rounds):
        bare = await _turn(_answers, UNMEASURED)
        added.append(await _turn(handler, meter.of(_STREAM)) - bare)
    return added


# -- end to end


class Node(NamedTuple):
    process_id: int
    producer: AsyncProducer
    metrics_address: str

    async def appends(self) -> float:
        """Partitions of requests to write so far, as its page tells."""

        def read() -> str:
            with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=60) as page:
                return str(page.read().decode())

        # A page is kept for a second.
        await asyncio.sleep(1.1)
        page = await asyncio.to_thread(read)
        found = re.search(r"^quorate_topic_produce_seconds_count\{.*\} (.*)$", page, re.MULTILINE)
        return 0.0 if found is None else float(found[1])

    def cpu_s(self) -> float:
        """Of all threads, by the scheduler's own count: ticks are too coarse for a turn."""
        total_ns = 0
        for thread in os.listdir(f"/proc/{self.process_id}/task"):
            with open(f"/proc/{self.process_id}/task/{thread}/schedstat", encoding="ascii") as file:
                total_ns += int(file.read().split()[0])
        return total_ns / 1e9


async def _in_batches(producer: AsyncProducer) -> int:
    """As fast as can be: a request has about a thousand records for each of some partitions."""
    for _ in range(_RECORDS["in batches"] // 1_000):
        await producer.send_many("orders", [_VALUE] * 1_000)
    await producer.flush()
    return _RECORDS["in batches"]


async def _one_by_one(producer: AsyncProducer) -> int:
    """The worst case: one writer that waits for each answer, so that every record is a request."""
    for number in range(_RECORDS["one by one"]):
        await (await producer.send("orders", _VALUE, partition=number % _PARTITIONS))
    return _RECORDS["one by one"]


_Load = Callable[[AsyncProducer], Awaitable[int]]
#: of one turn
_RECORDS: Final = {"in batches": 400_000, "one by one": 1_000}
_LOADS: Final[dict[str, _Load]] = {"in batches": _in_batches, "one by one": _one_by_one}


@contextlib.asynccontextmanager
async def _node(directory: str, *, is_measured: bool) -> AsyncIterator[Node]:
    command = (sys.executable, "-m", "quorate.console.main", "node", "run")
    address = f"{HOST}:{free_ports(1)[0]}"
    wanted = ["node.id=1", f"data.dir={directory}", f"listeners={HOST}:0", "logging.level=error"]
    if is_measured:
        wanted.append(f"metrics.address={address}")
    async with running(*command, *(f"--set={each}" for each in wanted)) as process:
        assert process.stdout is not None
        bootstrap = (await process.stdout.readline()).decode().strip().removeprefix(READY_PREFIX)
        async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
            await admin.create_topic("orders", partitions=_PARTITIONS, replication_factor=1)
            yield Node(process.pid, producer, address)


async def _in_turns(load: _Load, nodes: dict[str, Node], rounds: int) -> dict[str, list[float]]:
    """Microseconds of processor time for each record, by node; the first round does not count."""
    found: dict[str, list[float]] = {kind: [] for kind in nodes}
    for number in range(rounds + 1):
        # Whoever comes second finds a machine that is warmer, or busier.
        for kind in sorted(nodes, reverse=number % 2 == 0):
            before = nodes[kind].cpu_s()
            records = await load(nodes[kind].producer)
            if number:
                found[kind].append((nodes[kind].cpu_s() - before) / records * 1e6)
    return found


def _end_to_end(name: str, found: dict[str, list[float]]) -> Figure:
    ratios = [after / before for before, after in zip(found["without"], found["with"], strict=True)]
    low, middle, high = ((quartile - 1) * 100 for quartile in statistics.quantiles(ratios, n=4))
    each = ", ".join(f"{kind} {statistics.median(values):.2f} us" for kind, values in found.items())
    how = f"median of {len(ratios)} rounds in turns, quartiles {low:+.1f} % and {high:+.1f} %; each: {each}"
    return Figure.at_most(f"records {name}, end to end: added", middle, "%", None, how)


async def run_overhead(rounds: int) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as directory:
        async with contextlib.AsyncExitStack() as stack:
            nodes = {
                kind: await stack.enter_async_context(
                    _node(f"{directory}/{kind}", is_measured=kind == "with")
                )
                for kind in _KINDS
            }
            for name, load in _LOADS.items():
                before = await nodes["with"].appends()
                found = await _in_turns(load, nodes, rounds)
                appends = (await nodes["with"].appends() - before) / (rounds + 1)
                figures.append(_directly(name, found, appends, await _recording_us(rounds)))
                figures.append(_end_to_end(name, found))
    return figures


def _directly(name: str, found: dict[str, list[float]], appends: float, added: list[float]) -> Figure:
    """``appends``: of one turn; ``added``: microseconds for each."""
    append_us = statistics.median(found["without"]) * _RECORDS[name] / appends
    added_us = statistics.median(added)
    spread = f"{added_us:.1f} us (from {min(added):.1f} to {max(added):.1f})"
    how = f"{spread} of {append_us:.0f} us for an append of {_RECORDS[name] / appends:,.0f} record(s)"
    bar = _BAR_PERCENT if name == "in batches" else None
    return Figure.at_most(f"records {name}, directly: added", added_us / append_us * 100, "%", bar, how)
