"""What commits cost: a thousand groups of ten partitions, each of which commits every second, for a minute.

Measured are the latency of a commit, from when it is due; the processor time of each broker, all of which
coordinate a third of the groups and replicate the other two; and the size of the topic of offsets over time,
with the default settings and with small segments that are looked at often, so that a minute shows what
compaction does. Processor time is told without what an idle cluster takes with the same members.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.cluster.peer import latencies_of
from bench.figure import Figure, show
from bench.groups.many_groups import ManyGroups, many_groups, offsets_bytes
from bench.groups.output import write_json
from bench.groups.sides import QuorateSide
from bench.processor_time import seconds_of_process

__all__ = ["CommitCost", "add_arguments", "run"]

_SMALL: Final = {"offsets.topic.segment.bytes": "1MiB", "log.retention.check.interval.ms": "5s"}
_VARIANTS: Final[Mapping[str, Mapping[str, str]]] = {"default settings": {}, "small segments": _SMALL}
_IDLE_S: Final = 10.0
_SAMPLE_S: Final = 1.0
_MB: Final = 1_000_000
#: beyond the time that they commit
_PATIENCE_S: Final = 120.0


class CommitCost(NamedTuple):
    seconds: float
    commits: int
    failed: int
    #: one of those that made them fail
    refusal: str
    p50_ms: float
    p99_ms: float
    #: share of a core that each broker takes for the commits, and takes anyway
    broker_share: Sequence[float]
    idle_share: Sequence[float]
    #: seconds since the first commit, and bytes of the topic on each broker
    sizes: Sequence[tuple[float, Sequence[int]]]

    @property
    def microseconds_a_commit(self) -> float:
        """Of all brokers together."""
        return sum(self.broker_share) * self.seconds / self.commits * 1e6

    @property
    def largest_bytes(self) -> int:
        return max(max(sizes) for _, sizes in self.sizes)

    @property
    def last_bytes(self) -> int:
        return max(self.sizes[-1][1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between a group's commits")
    parser.add_argument("--without-members", action="store_true", help="commits in nobody's name")
    parser.add_argument("--only", choices=_VARIANTS, help="default: all variants, one after the other")


def run(arguments: argparse.Namespace) -> list[Figure]:
    found: dict[str, CommitCost] = {}
    figures: list[Figure] = []
    for variant, settings in _VARIANTS.items():
        if arguments.only in (None, variant):
            found[variant] = asyncio.run(_measure(arguments, settings))
            measured = _figures(found[variant])
            who = "" if arguments.without_members else " with a member each"
            show(
                f"{arguments.groups:,} groups{who} commit {arguments.partitions} partitions "
                f"every {arguments.interval:g} s: {variant}",
                measured,
            )
            figures += measured
    document = {name: cost._asdict() for name, cost in found.items()}
    path = write_json("groups-commits", {"arguments": vars(arguments), "measured": document})
    print(f"written: {path}")
    return figures


def _figures(cost: CommitCost) -> list[Figure]:
    shares = ", ".join(f"{share:.0%}" for share in cost.broker_share)
    idle = ", ".join(f"{share:.1%}" for share in cost.idle_share)
    return [
        Figure.against("commits", cost.commits / cost.seconds, "/s", None, ""),
        Figure.at_most("commits that failed", cost.failed, "", 0, cost.refusal),
        Figure.at_most("latency of a commit, p50", cost.p50_ms, "ms", None, ""),
        Figure.at_most("latency of a commit, p99", cost.p99_ms, "ms", None, ""),
        Figure.at_most("a broker, of a core", max(cost.broker_share) * 100, "%", None, shares),
        Figure.at_most("idle, of a core", max(cost.idle_share) * 100, "%", None, idle),
        Figure.at_most("all brokers, a commit", cost.microseconds_a_commit, "µs", None, ""),
        Figure.at_most("topic of offsets on a broker, largest", cost.largest_bytes / _MB, "MB", None, ""),
        Figure.at_most("topic of offsets on a broker, at the end", cost.last_bytes / _MB, "MB", None, ""),
    ]


async def _measure(arguments: argparse.Namespace, settings: Mapping[str, str]) -> CommitCost:
    async with (
        QuorateSide(settings) as side,
        many_groups(
            side,
            count=arguments.groups,
            partitions=arguments.partitions,
            has_members=not arguments.without_members,
        ) as groups,
    ):
        idle = await _shares(side, _IDLE_S)
        return await _commit(side, groups, arguments, idle)


async def _shares(side: QuorateSide, seconds: float) -> list[float]:
    before, began = _processor_time(side), time.monotonic()
    await asyncio.sleep(seconds)
    return _share_since(side, before, began)


async def _commit(
    side: QuorateSide, groups: ManyGroups, arguments: argparse.Namespace, idle: Sequence[float]
) -> CommitCost:
    sizes: list[tuple[float, list[int]]] = []
    sampling = asyncio.create_task(_sample(side, sizes))
    before, began = _processor_time(side), time.monotonic()
    answer = await groups.ask(
        f"commit {arguments.seconds} {arguments.interval}", timeout_s=arguments.seconds + _PATIENCE_S
    )
    seconds = time.monotonic() - began
    shares = _share_since(side, before, began)
    sampling.cancel()
    sizes.append((seconds, _sizes(side)))
    latencies = latencies_of(answer["latencies_ms"])
    return CommitCost(
        seconds=seconds,
        commits=len(answer["latencies_ms"]),
        failed=sum(answer["failed"]),
        refusal=next(iter(answer["refusals"]), ""),
        p50_ms=latencies.p50_ms,
        p99_ms=latencies.p99_ms,
        broker_share=[share - at_rest for share, at_rest in zip(shares, idle, strict=True)],
        idle_share=list(idle),
        sizes=sizes,
    )


def _processor_time(side: QuorateSide) -> list[float]:
    return [seconds_of_process(process_id) for process_id in side.process_ids().values()]


def _share_since(side: QuorateSide, before: Sequence[float], began: float) -> list[float]:
    seconds = time.monotonic() - began
    return [(now - then) / seconds for now, then in zip(_processor_time(side), before, strict=True)]


async def _sample(side: QuorateSide, sizes: list[tuple[float, Any]]) -> None:
    began = time.monotonic()
    while True:
        sizes.append((time.monotonic() - began, _sizes(side)))
        await asyncio.sleep(_SAMPLE_S)


def _sizes(side: QuorateSide) -> list[int]:
    return [sum(offsets_bytes(node.data_dir)) for node in side.cluster.nodes]
