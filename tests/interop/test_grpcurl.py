"""grpcurl, which knows nothing of Quorate but what server reflection tells it.

Whatever works here works from every language with generated stubs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quorate.core.config import RpcTransport
from quorate.node.local_cluster import LocalCluster

GRPCURL = Path(__file__).parents[2] / ".tools" / "bin" / "grpcurl"

pytestmark = pytest.mark.skipif(
    not GRPCURL.exists() and shutil.which("grpcurl") is None,
    reason="grpcurl is missing; `make grpcurl` builds it where Go is installed",
)


@pytest.fixture(params=RpcTransport)
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A cluster of one node, as a real process."""
    settings = {"rpc.transport": str(request.param)}
    async with LocalCluster.create(str(tmp_path), brokers=1, is_combined=True, settings=settings) as cluster:
        yield cluster.bootstrap
        await cluster.kill(*cluster.names)


async def grpcurl(address: str, *arguments: str) -> tuple[int, str, str]:
    program = str(GRPCURL) if GRPCURL.exists() else "grpcurl"
    options = arguments[:2] if arguments[0] == "-d" else ()
    process = await asyncio.create_subprocess_exec(
        *(program, "-plaintext", "-max-time", "30", *options, address, *arguments[len(options) :]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


async def call(address: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
    status, out, error = await grpcurl(address, "-d", json.dumps(request), f"quorate.v1.{method}")
    assert status == 0, error
    answer: dict[str, Any] = json.loads(out)
    return answer


async def produce(address: str, request: dict[str, Any]) -> dict[str, Any]:
    """A leader of a topic that is new may be about to begin: then it asks to be asked again."""
    async with asyncio.timeout(30):
        while True:
            answer = await call(address, "BrokerService/Produce", request)
            if not any(each.get("error", {}).get("retriable") for each in answer["partitions"]):
                return answer


def as_bytes(text: str) -> str:
    """As JSON carries a bytes field."""
    return base64.b64encode(text.encode()).decode()


async def test_topic_is_created_written_to_and_read(address: str) -> None:
    created = await call(address, "AdminService/CreateTopic", {"name": "orders", "partition_count": 2})
    assert [partition.get("leader") for partition in created["topic"]["partitions"]] == [1, 1]

    records = [
        {"key": as_bytes("customer-42"), "value": as_bytes("hello"), "timestamp_ms": "1700000000000"},
        {"value": as_bytes("world"), "headers": [{"key": "trace", "value": as_bytes("abc")}]},
    ]
    produced = await produce(
        address,
        {"acks": "ACKS_ALL", "partitions": [{"topic": "orders", "partition": 1, "records": records}]},
    )
    [stored] = produced["partitions"]
    assert (stored["base_offset"], stored["next_offset"]) == ("0", "2")
    assert stored["topic_id"] == created["topic"]["topic_id"]

    fetched = await call(
        address,
        "BrokerService/Fetch",
        {"format": "RECORD_FORMAT_RECORDS", "partitions": [{"topic_id": stored["topic_id"], "partition": 1}]},
    )
    [read] = fetched["partitions"]
    assert read["high_watermark"] == "2"
    assert [record["offset"] for record in read["records"]] == ["0", "1"]
    assert [record["value"] for record in read["records"]] == [as_bytes("hello"), as_bytes("world")]
    assert read["records"][0]["key"] == as_bytes("customer-42")
    assert read["records"][0]["timestamp_ms"] == "1700000000000"
    assert read["records"][1]["headers"] == [{"key": "trace", "value": as_bytes("abc")}]


async def test_errors_of_a_call_and_of_a_partition_carry_their_codes(address: str) -> None:
    await call(address, "AdminService/CreateTopic", {"name": "orders"})
    request = json.dumps({"name": "orders"})
    status, _, refusal = await grpcurl(address, "-d", request, "quorate.v1.AdminService/CreateTopic")
    assert status != 0
    assert "AlreadyExists" in refusal
    assert "TOPIC_ALREADY_EXISTS" in refusal

    answer = await call(address, "BrokerService/Fetch", {"partitions": [{"topic": "absent"}]})
    error = answer["partitions"][0]["error"]
    assert error["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error["retriable"] is True
