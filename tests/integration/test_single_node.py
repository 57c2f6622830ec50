"""One node as a real process: start, serve, stop, die, recover."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # ships no types

from quorate.chaos.history.history import History
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import DataDirectory, Reach
from quorate.client import AsyncAdmin
from quorate.client.impatient_admin import connect
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, PartitionId, TopicName, TopicPartition
from quorate.errors import (
    BatchTooLarge,
    InvalidConfig,
    Overloaded,
    QuorateError,
    TopicAlreadyExists,
    Unavailable,
)
from quorate.node.child import ChildNode
from quorate.node.cluster_layout import HOST, free_ports
from quorate.v1 import admin_pb2, broker_pb2
from tests.integration.direct_calls import BrokerCalls, fetch_request, produce_request
from tests.integration.proof import prove

#: more than an election on a slow machine takes
LED_TIMEOUT_S = 30.0
#: it waits for longer than any test takes
WAITING_FETCH = fetch_request("t", max_wait_ms=60_000)

StartNode = Callable[..., Awaitable[ChildNode]]


@pytest.fixture
async def start_node(tmp_path: Path) -> AsyncIterator[StartNode]:
    """Starts nodes on one data directory, and sees to it that none is left over."""
    nodes: list[ChildNode] = []
    # A cluster of one node: its own controller is found there, also by the next process.
    [port] = free_ports(1)

    async def start(**settings: str) -> ChildNode:
        chosen = {"node.id": "1", "data.dir": str(tmp_path / "data"), "listeners": f"{HOST}:{port}"}
        chosen |= {key.replace("_", "."): value for key, value in settings.items()}
        node = await ChildNode.start(chosen, log_file=str(tmp_path / "node.log"))
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        await node.end()


def events(node: ChildNode, name: str) -> list[dict[str, Any]]:
    lines = Path(node.log_file).read_text(encoding="utf-8").splitlines()
    # What a process says to people before it ends is not JSON.
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [event for event in found if event["event"] == name]


async def quorate(node: ChildNode, *arguments: str, text: str = "", status: int = 0) -> str:
    """Run the command line against the node; returns what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quorate.console.main", "--bootstrap", node.bootstrap, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await asyncio.wait_for(process.communicate(text.encode()), 60)
    assert process.returncode == status, error.decode()
    return out.decode() if status == 0 else error.decode()


async def until_led(broker: BrokerCalls) -> None:
    """A topic that is committed has a leader in a moment, when the broker has heard of it."""
    async with asyncio.timeout(LED_TIMEOUT_S):
        while (await broker.fetch(fetch_request("t"))).HasField("error"):  # noqa: ASYNC110  # no event is set for us
            await asyncio.sleep(0.01)


async def waiting_fetch(broker: BrokerCalls) -> asyncio.Task[broker_pb2.FetchPartitionResult]:
    """A fetch that waits at a node that takes one request at a time: another one is refused."""
    while True:
        fetching = asyncio.create_task(broker.fetch(WAITING_FETCH))
        # It goes first. A transport that keeps the order would let the other one win every time.
        await asyncio.sleep(0)
        with contextlib.suppress(Overloaded):
            while not fetching.done():
                await broker.fetch(fetch_request("t"))
        if not fetching.done():
            return fetching
        # The other one was there first, and this one was refused.
        assert isinstance(fetching.exception(), Overloaded)


async def test_clean_stop_keeps_everything_and_the_next_start_reads_nothing(start_node: StartNode) -> None:
    node = await start_node()
    async with connect(node.bootstrap) as connection:
        created = await connection.create_topic(admin_pb2.CreateTopicRequest(name="t", partition_count=2))
    async with BrokerCalls(node.bootstrap) as broker:
        await until_led(broker)
        stored = await broker.produce(produce_request(b"v", topic="t"))
        assert (stored.error.code, stored.base_offset) == ("", 0)
    assert await node.stop() == 0
    assert events(node, "node_stopped")[-1]["clean"] is True

    node = await start_node()
    assert events(node, "recovering_logs")[-1]["start"] == "clean"
    assert events(node, "logs_recovered")[-1]["logs"] == 2
    async with connect(node.bootstrap) as connection:
        topic = await connection.describe_topic("t")
        assert topic.topic_id == created.topic_id
        assert [partition.high_watermark for partition in topic.partitions] == [1, 0]
        assert topic.partitions[0].leader_epoch > created.partitions[0].leader_epoch
    async with BrokerCalls(node.bootstrap) as broker:
        fetched = await broker.fetch(fetch_request("t"))
        assert [record.value for record in fetched.records] == [b"v"]


@pytest.mark.parametrize("durability", Durability)
async def test_kill_in_the_middle_of_writing_loses_nothing_acknowledged(
    start_node: StartNode, tmp_path: Path, durability: Durability
) -> None:
    history = History()
    partitions = [TopicPartition(TopicName("t"), PartitionId(number)) for number in range(2)]
    node = await start_node()
    async with AsyncAdmin(node.bootstrap) as admin:
        # Small segments, so that a kill meets rolls as well.
        configs = {"durability": durability.value, "segment.bytes": "16KiB"}
        await admin.create_topic("t", partitions=len(partitions), configs=configs)
    async with LedgerLoad(node.bootstrap, partitions, producers=1, history=history) as load:
        await load.acknowledges(500)
        await node.kill()
        node = await start_node()
        assert events(node, "recovering_logs")[-1]["start"] == "process_crash"
        await load.acknowledges()
    data_dirs = {BrokerId(1): DataDirectory("node-1", str(tmp_path / "data"))}
    reach = Reach(bootstrap=node.bootstrap, data_dirs=data_dirs, controllers=[node.bootstrap])
    proof = await prove(reach, history, "t")
    assert proof.acknowledged > 0
    assert proof.replicas == len(partitions)


async def test_errors_arrive_as_what_they_are(start_node: StartNode) -> None:
    node = await start_node()
    async with connect(node.bootstrap) as connection:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
        with pytest.raises(TopicAlreadyExists) as caught:
            await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
        assert caught.value.facts == {"topic": "t"}
        misspelt = admin_pb2.CreateTopicRequest(name="u", configs={"retention.msec": "1"})
        with pytest.raises(InvalidConfig, match=r"did you mean retention\.ms\?"):
            await connection.create_topic(misspelt)
    async with BrokerCalls(node.bootstrap) as broker:
        failed = await broker.produce(produce_request(b"v", topic="absent"))
        assert failed.error.code == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_second_node_on_the_same_directory_does_not_start(start_node: StartNode) -> None:
    await start_node()
    with pytest.raises(Unavailable, match="used by another process"):
        await start_node()


async def test_address_that_is_taken_is_told_and_the_directory_is_left_clean(
    start_node: StartNode, tmp_path: Path
) -> None:
    first = await start_node()
    other = tmp_path / "other"
    with pytest.raises(Unavailable, match=f"cannot listen on {first.bootstrap}"):
        await start_node(listeners=first.bootstrap, data_dir=str(other))
    [port] = free_ports(1)
    node = await start_node(listeners=f"{HOST}:{port}", data_dir=str(other))
    assert events(node, "recovering_logs")[-1]["start"] == "clean"


async def test_node_listens_on_every_address_and_tells_their_ports(start_node: StartNode) -> None:
    node = await start_node(listeners="127.0.0.1:0,127.0.0.1:0")
    first, second = node.bootstrap.split(",")
    assert first != second
    async with connect(first) as connection:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
    async with connect(second) as connection:
        assert [topic.name for topic in await connection.list_topics()] == ["t"]


async def test_bootstrap_address_that_does_not_answer_is_passed_over(start_node: StartNode) -> None:
    node = await start_node()
    async with connect(f"127.0.0.1:1,{node.bootstrap}") as connection:
        assert await connection.list_topics() == []


async def test_health_check_says_serving(start_node: StartNode) -> None:
    node = await start_node()
    async with grpc.aio.insecure_channel(node.bootstrap) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "quorate.v1.BrokerService", "quorate.v1.AdminService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_stop_answers_fetches_that_wait_instead_of_waiting_for_them(start_node: StartNode) -> None:
    # A node that waited for them would not stop within the time that the test grants it.
    node = await start_node(shutdown_grace_ms="1h", queued_max_requests="1")
    async with connect(node.bootstrap) as connection, BrokerCalls(node.bootstrap) as broker:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
        await until_led(broker)
        fetching = await waiting_fetch(broker)
        assert await node.stop() == 0
        assert (await fetching).error.retriable, "it gave up the lead before it stopped"


async def test_requests_beyond_the_bound_are_refused_as_overloaded(start_node: StartNode) -> None:
    node = await start_node(queued_max_requests="1")
    async with connect(node.bootstrap) as connection, BrokerCalls(node.bootstrap) as broker:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
        await until_led(broker)
        fetches = [asyncio.create_task(broker.fetch(WAITING_FETCH)) for _ in range(2)]
        # One of them waits, so the other one is too many.
        done, waiting = await asyncio.wait(fetches, return_when=asyncio.FIRST_COMPLETED)
        assert [type(task.exception()) for task in done] == [Overloaded]
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_message_beyond_the_bound_is_refused_with_the_reason(start_node: StartNode) -> None:
    bounds = dict.fromkeys(
        ("fetch_max_bytes", "message_max_bytes", "replica_fetch_response_max_bytes"), "1MiB"
    )
    node = await start_node(socket_request_max_bytes="4MiB", **bounds)
    async with connect(node.bootstrap) as connection, BrokerCalls(node.bootstrap) as broker:
        await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
        await until_led(broker)
        with pytest.raises(QuorateError) as caught:
            await broker.produce(produce_request(bytes(5 << 20), topic="t"))
        assert not caught.value.retriable
        refused = await broker.produce(produce_request(bytes(2 << 20), topic="t"))
        assert refused.error.code == BatchTooLarge.code


async def test_command_line_does_the_round(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node()
    await quorate(node, "topic", "create", "orders", "--partitions", "3", "--config", "durability=fsync")
    listed = json.loads(await quorate(node, "topic", "list", "--output", "json"))
    assert [(topic["name"], topic["partition_count"]) for topic in listed["topics"]] == [("orders", 3)]

    produced = await quorate(
        node,
        *("produce", "orders", "--key-separator", ":", "--compression", "zstd", "--output", "json"),
        text="a:1\na:2\nb:3\n",
    )
    stored = [json.loads(line) for line in produced.splitlines()]
    assert len(stored) == 3
    assert {(each["topic"], each["offset"]) for each in stored} == {("orders", 0), ("orders", 1)}

    source = tmp_path / "lines.txt"
    source.write_text("".join(f"line {number}\n" for number in range(1_000)), encoding="utf-8")
    await quorate(node, "produce", "orders", "--file", str(source), "--partition", "2", "--acks", "1")

    consumed = await quorate(node, "consume", "orders", "--exit-at-end", "--output", "json")
    records = [json.loads(line) for line in consumed.splitlines()]
    assert sorted(each["value"] for each in records if each["key"] is not None) == ["1", "2", "3"]
    by_partition = [each["value"] for each in records if each["key"] is None]
    assert by_partition == [f"line {number}" for number in range(1_000)]

    described = json.loads(await quorate(node, "topic", "describe", "orders", "--output", "json"))
    [topic] = described["topics"]
    assert topic["configs"]["durability"] == {"value": "fsync", "source": "topic"}
    assert sum(partition["high_watermark"] for partition in topic["partitions"]) == 1_003

    start = str(topic["partitions"][2]["high_watermark"] - 2)
    tail = await quorate(node, "consume", "orders", "--partition", "2", "--from", start, "--exit-at-end")
    assert tail.splitlines() == ["line 998", "line 999"]
    error = await quorate(node, "consume", "orders", "--partition", "7", status=1)
    assert error.startswith("error: UNKNOWN_TOPIC_OR_PARTITION:")


@pytest.mark.parametrize("command", ["produce", "consume"])
async def test_command_that_waits_is_interrupted_at_once(start_node: StartNode, command: str) -> None:
    node = await start_node()
    await quorate(node, "topic", "create", "t")
    await quorate(node, "produce", "t", text="first\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quorate.console.main", "--bootstrap", node.bootstrap, command, "t", "--output", "json"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"second\n")
    # It has done something, and waits for more: records, or lines.
    assert json.loads(await process.stdout.readline())["topic"] == "t"
    process.send_signal(signal.SIGINT)
    _, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    assert b"Traceback" not in error
