"""Kafka's own performance tools, which are its Java clients at their best."""

from __future__ import annotations

import re
from typing import Final

from bench.cluster.processes import ClientFailed, output_of
from bench.peers.kafka.installation import Installation

__all__ = [
    "active_controller",
    "consumer_performance",
    "producer_performance",
    "rate_of_consumer",
    "rate_of_producer",
]

#: as the tools' own start scripts have it
_HEAP: Final = "-Xmx512m"
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_RATE: Final = re.compile(r"^\d+ (?:steady state )?records sent, ([\d.]+) records/sec.*50th", re.MULTILINE)


async def producer_performance(
    installation: Installation,
    bootstrap: str,
    *,
    topic: str,
    records: int,
    values: str,
    warm_up_records: int,
    properties: dict[str, str],
) -> float:
    """Acknowledged records per second, after the warm-up.

    ``values`` is a file with a value on each line. Told a size instead, the tool draws every letter of every
    record anew, and spends a good part of its time on that.
    """
    printed = await _run(
        installation,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records + warm_up_records), "--payload-file", values),
        *(("--warmup-records", str(warm_up_records)) if warm_up_records else ()),
        *("--command-property", *(f"{key}={value}" for key, value in properties.items())),
    )
    return rate_of_producer(printed, has_warm_up=warm_up_records > 0)


def rate_of_producer(printed: str, *, has_warm_up: bool) -> float:
    """With a warm-up there are two summaries: of everything, and of what came after it."""
    summaries = _RATE.findall(printed)
    if len(summaries) != (2 if has_warm_up else 1):
        raise ClientFailed(f"no summary of ProducerPerformance:\n{printed[-4000:]}")
    return float(summaries[-1])


async def consumer_performance(
    installation: Installation, bootstrap: str, *, topic: str, records: int
) -> float:
    """Records per second, without the time that joining a group takes."""
    printed = await _run(
        installation,
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
    )
    return rate_of_consumer(printed, records)


def rate_of_consumer(printed: str, records: int) -> float:
    """A line of headings, then one of values."""
    lines = printed.strip().splitlines()[-2:]
    told = dict(zip(*(line.split(", ") for line in lines), strict=True)) if len(lines) == 2 else {}
    if int(told.get("data.consumed.in.nMsg", 0)) < records:
        raise ClientFailed(f"ConsumerPerformance read too little:\n{printed[-4000:]}")
    return float(told["fetch.nMsg.sec"])


async def active_controller(installation: Installation, bootstrap: str) -> int:
    """By the quorum's own word: brokers name any of themselves."""
    printed = await _run(
        installation,
        "org.apache.kafka.tools.MetadataQuorumCommand",
        *("--bootstrap-server", bootstrap, "describe", "--status"),
    )
    found = re.search(r"^LeaderId:\s+(\d+)", printed, re.MULTILINE)
    if found is None:
        raise ClientFailed(f"no leader of the quorum:\n{printed[-4000:]}")
    return int(found[1])


async def _run(installation: Installation, main_class: str, *arguments: str) -> str:
    return await output_of("java", _HEAP, _QUIET, "-cp", installation.class_path, main_class, *arguments)
