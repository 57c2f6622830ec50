"""The programs in examples/ and the commands in docs/languages.md, run for real against three brokers.

They have nothing of ours but the .proto files, or not even those. What works here works from every language.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.client import AsyncAdmin
from quorate.core.records import Compression, Record, encode_batch
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2, broker_pb2
from tests.integration.direct_calls import BrokerCalls

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TOOLS = ROOT / ".tools"
JAVA_CLASSES = EXAMPLES / "java" / "target" / "classes"
TIMEOUT_S = 120

TOPIC = "greetings"
GREETING_OF_A_BATCH = "hello from a compressed batch"


@dataclass(frozen=True, slots=True)
class Program:
    language: str
    command: tuple[str, ...]
    runtime: str
    built: Path

    def __str__(self) -> str:
        return self.language

    def require(self) -> None:
        if shutil.which(self.runtime) is None or not self.built.exists():
            pytest.skip(f"the example in {self.language} is not built; `make languages` does it")


PROGRAMS = (
    Program("Go", (str(TOOLS / "hello-go"),), str(TOOLS / "hello-go"), TOOLS / "hello-go"),
    Program(
        "Node", ("node", str(EXAMPLES / "node" / "hello.js")), "node", EXAMPLES / "node" / "node_modules"
    ),
    Program(
        "Java",
        ("java", "-cp", f"{JAVA_CLASSES}:{JAVA_CLASSES.parent / 'lib'}/*", "Hello"),
        "java",
        JAVA_CLASSES / "Hello.class",
    ),
    Program(
        "Python",
        (sys.executable, str(EXAMPLES / "python" / "hello.py")),
        sys.executable,
        EXAMPLES / "python" / "hello.py",
    ),
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Three nodes that are brokers and voters at once."""
    async with LocalCluster.create(str(tmp_path / "cluster"), brokers=3, is_combined=True) as cluster:
        yield cluster
        await cluster.kill(*cluster.names)  # a clean stop proves nothing here


async def run(*command: str, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    status, out, error = await _run(command, environment)
    assert status == 0, error
    return out, error


async def fail(*command: str) -> tuple[int | None, str]:
    """The exit status, and what was said about it."""
    status, _, error = await _run(command, None)
    return status, error


async def _run(command: Sequence[str], environment: Mapping[str, str] | None) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        out, error = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode(), error.decode()


async def leader_and_follower(cluster: LocalCluster) -> tuple[str, str]:
    """Names of the node that leads the topic's one partition, and of one that follows it."""
    async with cluster.connect() as connection:
        description = await connection.describe_topic(TOPIC)
    leader = description.partitions[0].leader
    follower = next(broker for broker in description.partitions[0].replicas if broker != leader)
    names = {node.id: node.name for node in cluster.nodes}
    return names[leader], names[follower]


async def write_a_compressed_batch(address: str) -> None:
    """As a client library does: the broker has to decode it for those who want structured records."""
    record = Record(0, 1_700_000_000_000, None, GREETING_OF_A_BATCH.encode(), ())
    partition = broker_pb2.ProducePartition(
        topic=TOPIC, batch=bytes(encode_batch([record], compression=Compression.ZSTD))
    )
    async with asyncio.timeout(TIMEOUT_S), BrokerCalls(address) as broker:
        while True:
            result = await broker.produce(broker_pb2.ProduceRequest(partitions=[partition]))
            # Of a new topic the leader may not have heard yet.
            if not result.error.retriable:
                assert not result.HasField("error"), result.error
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
async def test_program_writes_and_reads_also_after_the_leader_was_killed(
    program: Program, cluster: LocalCluster
) -> None:
    program.require()
    async with cluster.connect() as connection:
        await connection.create_topic(
            admin_pb2.CreateTopicRequest(name=TOPIC, partition_count=1, replication_factor=3)
        )
    leader, follower = await leader_and_follower(cluster)
    await write_a_compressed_batch(cluster.node(leader).address)
    greeting = f"hello from {program.language}"

    # It is told of a broker that does not lead, and has to find the one that does.
    bootstrap = cluster.node(follower).address
    out, _ = await run(*program.command, bootstrap, TOPIC)
    assert out.splitlines() == ["stored at offset 1", f"0: {GREETING_OF_A_BATCH}", f"1: {greeting}"]

    # Right away, while the others still believe in the old leader: it has to try again.
    await cluster.kill(leader)
    out, _ = await run(*program.command, bootstrap, TOPIC)
    stored, *read = out.splitlines()
    offset = int(stored.removeprefix("stored at offset "))
    assert offset >= 2  # more, if an attempt without an answer was stored after all
    assert read == [f"0: {GREETING_OF_A_BATCH}", *(f"{each}: {greeting}" for each in range(1, offset + 1))]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
async def test_program_gives_up_soon_on_a_topic_that_is_not_there(
    program: Program, cluster: LocalCluster
) -> None:
    program.require()
    status, told = await fail(*program.command, cluster.bootstrap.split(",")[0], "nonsense")
    assert status == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in told
    assert told.count("trying again") <= 7
    status, told = await fail(*program.command)
    assert (status, "usage: " in told) == (2, True)


def snippets(kind: str, page: str = "languages.md") -> list[str]:
    """The blocks of a page of docs/ in one language, in order."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def environment_of_shell(cluster: LocalCluster) -> dict[str, str]:
    path = f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    for tool in ("grpcurl", "jq", "bash"):
        if shutil.which(tool, path=path) is None:
            pytest.skip(f"{tool} is missing; `make grpcurl` builds grpcurl where Go is installed")
    return {**os.environ, "PATH": path, "BROKER": cluster.broker_addresses[0]}


async def test_administration_by_hand_works_as_the_page_shows_it(cluster: LocalCluster) -> None:
    environment = environment_of_shell(cluster)
    alter, recover, forget_group = snippets("sh", "protocol.md")
    async with cluster.connect() as connection:
        await connection.create_topic(
            admin_pb2.CreateTopicRequest(name="orders", partition_count=1, replication_factor=3)
        )
        # Of a partition that is led the request is understood, and refused.
        functions, _, _ = alter.partition("\n\n")
        shell = ("bash", "-euo", "pipefail", "-c")
        _, _, refused = await _run((*shell, f"{functions}\n{recover}"), environment)
        assert "RECOVERY_REFUSED" in refused
        assert "orders-0 is led by broker" in refused

        # The group is there, as one that somebody looks after by hand.
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await admin.commit_offsets("billing", {("orders", 0): 0})
        out, _ = await run(*shell, f"{functions}\n{forget_group}", environment=environment)
        assert json.loads(out[out.rindex("\n{\n") :])["results"] == [{"group": "billing"}]

        out, _ = await run(*shell, alter, environment=environment)
        assert '"86400000"' in out, "a day"
        assert out.count('"partition": 2') == 1
        assert "orders" not in [topic.name for topic in await connection.list_topics()]


async def test_shell_commands_of_the_documentation_work_as_they_stand(cluster: LocalCluster) -> None:
    environment = environment_of_shell(cluster)

    async def run_commands(text: str) -> str:
        out, _ = await run("bash", "-euo", "pipefail", "-c", text, environment=environment)
        return out

    produce_and_fetch, check_health = snippets("sh")
    out = await run_commands(produce_and_fetch)
    assert out.splitlines()[-2:] == ['"0"', "hello from the shell"]
    assert json.loads(await run_commands(check_health)) == {"status": "SERVING"}

    # The page shows the answer of a broker that does not lead.
    leader, follower = await leader_and_follower(cluster)
    request = '{"format": "RECORD_FORMAT_RECORDS", "partitions": [{"topic": "greetings"}]}'
    assert request in produce_and_fetch
    at_follower = f"{cluster.node(follower).address} quorate.v1.BrokerService/Fetch"
    answer = json.loads(await run_commands(f"grpcurl -plaintext -d '{request}' {at_follower}"))
    error = answer["partitions"][0]["error"]
    assert error["facts"]["leader_address"] == {"text": cluster.node(leader).address}
    [documented] = map(json.loads, snippets("json"))
    assert without_values(error) == without_values(documented)


def without_values(error: dict[str, Any]) -> dict[str, Any]:
    """An error without what differs between two clusters."""
    return {**error, "message": "", "facts": sorted(error["facts"])}
