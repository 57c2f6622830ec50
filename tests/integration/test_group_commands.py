"""``quorate group`` and ``quorate consume --group`` with real members, real coordinators and real signals."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from quorate.client import AsyncAdmin, AsyncProducer
from quorate.client.admin.group_types import GroupDescription
from quorate.node.local_cluster import LocalCluster

PARTITIONS = 4
TIMEOUT_S = 60


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster.create(brokers=3, is_combined=True) as cluster:
        yield cluster


async def start(cluster: LocalCluster, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "--bootstrap", cluster.bootstrap, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def quorate(cluster: LocalCluster, *arguments: str, status: int = 0) -> str:
    """What it prints; of one that is to fail, what it says about that."""
    process = await start(cluster, *arguments)
    out, error = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    assert process.returncode == status, error.decode()
    return out.decode() if status == 0 else error.decode()


async def json_of(cluster: LocalCluster, *arguments: str) -> Any:
    return json.loads(await quorate(cluster, *arguments, "--output", "json"))


async def lines(process: asyncio.subprocess.Process, count: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT_S):
        return [(await process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]


async def interrupt(process: asyncio.subprocess.Process) -> str:
    """As Ctrl-C does; what it has printed since."""
    process.send_signal(signal.SIGINT)
    out, error = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    assert process.returncode == 130, error.decode()
    assert b"Traceback" not in error, error.decode()
    return out.decode()


async def group_when(
    admin: AsyncAdmin, group: str, condition: Callable[[GroupDescription], bool]
) -> GroupDescription:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition(found := await admin.describe_group(group)):  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0.05)
    return found


async def produce(producer: AsyncProducer, values: range) -> None:
    for each in values:
        await producer.send("orders", str(each), partition=each % PARTITIONS)
    await producer.flush()


async def test_group_shares_a_topic_is_seen_moved_and_deleted(cluster: LocalCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        await produce(producer, range(40))

        # Two members share it, and each is seen.
        first = await start(cluster, "consume", "orders", "--group", "billing")
        seen = Counter(await lines(first, 40))
        second = await start(cluster, "consume", "orders", "--group", "billing")
        await group_when(admin, "billing", lambda group: _shares(group) == [2, 2] and group.lag == 0)
        told = await json_of(cluster, "group", "describe", "billing")
        assert (told["state"], told["assignor"], told["lag"]) == ("stable", "uniform", 0)
        assert {each["client_id"] for each in told["members"]} == {"quorate-consume"}
        assert all(each["host"] and each["state"] == "reading" for each in told["members"])
        owners = {each["member_id"] for each in told["partitions"]}
        assert owners == {each["member_id"] for each in told["members"]}
        assert [each["committed_offset"] for each in told["partitions"]] == [10] * PARTITIONS
        assert all(each["committed_at_ms"] and each["lag_ms"] == 0 for each in told["partitions"])
        refusal = await quorate(cluster, "group", "delete", "billing", "--yes", status=1)
        assert refusal.startswith("error: NON_EMPTY_GROUP: billing has 2 member(s)")

        # One is interrupted: at once the other has everything, and nothing comes twice.
        seen += Counter((await interrupt(first)).split())
        await group_when(admin, "billing", lambda group: _shares(group) == [4])
        await produce(producer, range(40, 48))
        seen += Counter(await lines(second, 8))
        seen += Counter((await interrupt(second)).split())
        assert seen == Counter(map(str, range(48)))

        # All that was printed is committed, and both have left.
        [listed] = (await json_of(cluster, "group", "list"))["groups"]
        assert listed == {
            "group": "billing",
            "state": "empty",
            "members": 0,
            "topics": ["orders"],
            "partitions": PARTITIONS,
            "uncommitted_partitions": 0,
            "lag": 0,
        }

        # It is moved when that is said, and reads again from there.
        reset = ["group", "reset", "billing", "--topic", "orders:1", "--to", "earliest"]
        assert [line.split() for line in (await quorate(cluster, *reset)).splitlines()] == [
            ["TOPIC", "PARTITION", "COMMITTED", "NEW", "CHANGE"],
            ["orders", "1", "12", "0", "-12"],
        ]
        again = ["consume", "orders", "--group", "billing", "--exit-at-end"]
        assert await quorate(cluster, *again) == ""
        await quorate(cluster, *reset, "--execute")
        assert (await quorate(cluster, *again)).split() == [str(each) for each in range(1, 48, PARTITIONS)]

        # Whatever has gone is told as such.
        await quorate(cluster, "group", "delete", "billing", "--yes")
        gone = await quorate(cluster, "group", "describe", "billing", status=1)
        assert gone.startswith("error: GROUP_ID_NOT_FOUND: ")


def _shares(group: GroupDescription) -> list[int]:
    """How many partitions each member holds, once nothing moves any more."""
    return [len(each.assignment) for each in group.members] if group.state == "stable" else []
