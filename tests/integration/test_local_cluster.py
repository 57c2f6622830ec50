"""A cluster of real processes, by `quorate up` and its relatives."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quorate.errors import CannotListen, Unavailable
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2

TIMEOUT_S = 60


async def start_quorate(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quorate.console.main", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def quorate(*arguments: str, status: int = 0) -> str:
    process = await start_quorate(*arguments)
    out, error = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    assert process.returncode == status, error.decode()
    return out.decode()


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """For a cluster of which nothing is left over."""
    yield tmp_path
    if LocalCluster.exists_in(str(tmp_path)):
        await LocalCluster(str(tmp_path)).stop()


async def ready_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), TIMEOUT_S)).decode()
    assert line.startswith("ready: bootstrap=")
    return line.removeprefix("ready: bootstrap=").strip()


async def line_with(text: str, stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            line = (await stream.readline()).decode()
            assert line, f"it ended without a word about {text!r}"
            if text in line:
                return line


async def set_default(cluster: LocalCluster, value: str) -> None:
    change = admin_pb2.ConfigChange(name="retention.ms", value=value)
    async with cluster.connect() as connection:
        await connection.alter_configs(admin_pb2.AlterConfigsRequest(changes=[change]))


async def default_of(cluster: LocalCluster) -> str:
    async with cluster.connect() as connection:
        entries = (await connection.describe_configs()).configs
    return {entry.name: entry.value for entry in entries}["retention.ms"]


def written(directory: Path) -> dict[str, dict[str, Any]]:
    nodes = json.loads((directory / "cluster.json").read_text())["nodes"]
    return {node["name"]: node for node in nodes}


async def test_up_watches_reports_a_death_and_stops_at_ctrl_c(directory: Path) -> None:
    up = await start_quorate("up", "--dir", str(directory), "--port", "0")
    bootstrap = await ready_line(up)
    before = written(directory)
    brokers = [node for node in before.values() if "broker" in node["roles"]]
    assert bootstrap == ",".join(node["address"] for node in brokers)
    assert json.loads(await quorate("--bootstrap", bootstrap, "cluster", "health", "--output", "json"))[
        "healthy"
    ]

    os.kill(before["controller-102"]["pid"], signal.SIGKILL)
    assert "killed by SIGKILL" in await line_with("controller-102", up.stderr)
    assert written(directory)["controller-102"]["pid"] is None, "left alone, for people to see"

    await quorate("restart", "--dir", str(directory), "controller-102")
    await quorate("restart", "--dir", str(directory), "controller-103")
    after = written(directory)
    assert after["controller-101"]["pid"] == before["controller-101"]["pid"]
    assert after["controller-102"]["pid"] not in (None, before["controller-102"]["pid"])
    status = json.loads(await quorate("status", "--dir", str(directory), "--output", "json"))
    assert {node["state"] for node in status["nodes"]} == {"running"}

    up.send_signal(signal.SIGINT)
    _, error = await asyncio.wait_for(up.communicate(), TIMEOUT_S)
    assert up.returncode == 0
    assert "died" not in error.decode(), "a node that was restarted has not died"
    assert {node["pid"] for node in written(directory).values()} == {None}


async def test_detached_cluster_goes_on_with_its_data_when_it_is_run_again(directory: Path) -> None:
    up = ("up", "--dir", str(directory), "--brokers", "1", "--combined", "--port", "0", "--detach")
    first = await quorate(*up, "--set", "metadata.log.segment.bytes=64KiB")
    cluster = LocalCluster(str(directory))
    await set_default(cluster, "12345")
    await quorate("down", "--dir", str(directory))
    assert not cluster.is_running("node-1")
    again = await quorate("up", "--dir", str(directory), "--detach")
    assert again == first, "ports are for as long as the directory lives"
    assert await default_of(cluster) == "12345"
    assert cluster.state.settings == {"metadata.log.segment.bytes": "64KiB"}
    await quorate("down", "--dir", str(directory))


async def test_restarting_up_brings_a_dead_node_back_and_ends_when_the_cluster_is_put_down() -> None:
    up = await start_quorate(
        *("up", "--controllers", "1", "--brokers", "1", "--port", "0", "--restart", "--output", "json")
    )
    assert up.stdout is not None
    text = await asyncio.wait_for(up.stdout.readuntil(b"\n}\n"), TIMEOUT_S)
    document = json.loads(text)
    directory = document["dir"]
    [node] = [each for each in document["nodes"] if each["name"] == "controller-101"]
    os.kill(node["pid"], signal.SIGKILL)
    assert "started again in 1 s" in await line_with("controller-101", up.stderr)
    cluster = LocalCluster(directory)
    async with asyncio.timeout(TIMEOUT_S):
        while not cluster.is_running("controller-101"):  # noqa: ASYNC110  # another process sets no event
            await asyncio.sleep(0.05)
    await cluster.wait_for_controller()
    await quorate("down", "--dir", directory)
    await asyncio.wait_for(up.communicate(), TIMEOUT_S)
    assert up.returncode == 0
    assert not LocalCluster.exists_in(directory), "a temporary directory goes with its cluster"


async def test_quorum_outlives_the_loss_of_its_leader_and_a_pause_of_the_next(tmp_path: Path) -> None:
    async with LocalCluster.create(str(tmp_path), brokers=0) as cluster:
        names = {node.id: node.name for node in cluster.nodes}
        await set_default(cluster, "1")
        leader = names[(await cluster.wait_for_controller()).controller]
        await cluster.kill(leader)
        assert not cluster.is_running(leader)
        await set_default(cluster, "2")
        await cluster.start([leader])
        paused = names[(await cluster.wait_for_controller()).controller]
        await cluster.pause(paused)
        await set_default(cluster, "3")
        cluster.resume(paused)
        assert await default_of(cluster) == "3"


async def test_node_that_cannot_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=0)
    (tmp_path / "controller-101").mkdir()
    (tmp_path / "controller-101" / "data").write_text("not a directory")
    with pytest.raises(Unavailable, match=r"(?s)controller-101 did not start.*error: "):
        await cluster.start()
    await cluster.stop()


async def test_port_that_was_taken_meanwhile_is_told(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=0)
    host, _, port = cluster.bootstrap.rpartition(":")
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), host, int(port))
    async with server:
        with pytest.raises(CannotListen, match="controller-101 has to listen on"):
            await cluster.start()
