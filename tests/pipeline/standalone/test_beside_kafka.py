"""Spark's jobs move from Kafka by the name of the format: on the same records they find the same rows."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from bench.peers.kafka.installation import Installation
from bench.peers.kafka.installation import install as install_kafka
from bench.peers.kafka.peer import KafkaPeer
from bench.peers.spark_kafka.installation import install as install_spark_kafka
from quorate.chaos.peers.peer import PeerUnavailable
from quorate.testing import LocalCluster

NewTopic = Callable[..., str]

_HERE: Final = Path(__file__).parent
_PARTITIONS: Final = 3
_RECORDS: Final = 1_000


def _records(start_ms: int) -> list[dict[str, Any]]:
    """With and without keys, values and headers, a millisecond apart."""
    return [
        {
            "key": None if n % 11 == 0 else f"key-{n % 40}",
            "value": None if n % 13 == 0 else f"value-{n}" * (n % 5),
            "partition": n % _PARTITIONS,
            "timestamp": start_ms + n,
            "headers": [["n", str(n)], ["n", None]] if n % 3 == 0 else [],
        }
        for n in range(_RECORDS)
    ]


def _fill_ours(cluster: LocalCluster, topic: str, records: list[dict[str, Any]]) -> None:
    with cluster.producer() as producer:
        for each in records:
            headers = [(name, None if value is None else value.encode()) for name, value in each["headers"]]
            producer.send(
                topic,
                each["value"],
                key=each["key"],
                partition=each["partition"],
                timestamp_ms=each["timestamp"],
                headers=headers or None,
            )
        producer.flush()


async def _run(*command: str | Path, given: str = "", **environment: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    try:
        said, _ = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode(errors="replace")[-5000:]


def _installed() -> tuple[Installation, list[Path]]:
    try:
        return install_kafka(), install_spark_kafka()
    except PeerUnavailable as error:
        pytest.fail(str(error))


async def test_a_job_finds_the_same_rows_when_only_the_name_of_its_format_changes(
    quorate_cluster: LocalCluster, new_topic: NewTopic, python_of_executors: str, tmp_path: Path
) -> None:
    installation, jars = _installed()
    topic, target = new_topic(_PARTITIONS), new_topic(_PARTITIONS)
    # Of an hour ago: what is too old is deleted by retention.
    start_ms = int(time.time() * 1000) - 3_600_000
    records = _records(start_ms)
    await asyncio.to_thread(_fill_ours, quorate_cluster, topic, records)
    async with KafkaPeer(installation) as kafka:
        await kafka.start()
        for each in (topic, target):
            await kafka.create_topic(each, _PARTITIONS)
        lines = "".join(f"{json.dumps(each)}\n" for each in records)
        await _run(installation.python, _HERE / "kafka_records.py", kafka.bootstrap, topic, given=lines)
        out = tmp_path / "rows.json"
        sides = (f"kafka={kafka.bootstrap}", f"quorate={quorate_cluster.bootstrap}")
        program = (sys.executable, _HERE / "either_format.py")
        arguments = (",".join(map(str, jars)), topic, str(start_ms), target, str(out), *sides)
        surroundings = {"PYSPARK_PYTHON": python_of_executors, "SPARK_LOCAL_IP": "127.0.0.1"}
        await _run(*program, *arguments, **surroundings)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert len(found["kafka"]["whole"]) == _RECORDS
    for part, rows in found["kafka"].items():
        assert rows, part
        assert found["quorate"][part] == rows, part
