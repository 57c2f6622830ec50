"""The coordinator of a busy group is killed with -9: how long until the group is served again.

Six members read 24 partitions under a steady load, and commit what they have read ten times a second, each
commit acknowledged before the next. The victim leads a third of the partitions as well, and is the active
controller every now and then. Told is, from the signal on:

- *commits*: until each member's first commit that was sent when the process was gone is acknowledged, in the
  member's name, so by a coordinator that has loaded the group and knows its members;
- *reads*: until each partition has brought a record again;
- *other groups*: the dead coordinator's share of a thousand groups of ten partitions, each of which has a
  member, and a commit to make the moment the process is gone. What has to be loaded grows with the commits
  that were made before, until compaction takes them out: `--history` says how many each group has made.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.cluster.processes import ClientFailed
from bench.figure import Figure, show
from bench.groups.many_groups import ManyGroups, many_groups, offsets_bytes
from bench.groups.member_process import MemberProcess
from bench.groups.output import write_json
from bench.groups.quorate_client import COMMITS_SUFFIX
from bench.groups.reading_group import GROUP, TOPIC, ReadingGroup
from bench.groups.sides import QuorateSide
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin
from quorate.core.topic_names import OFFSETS_TOPIC

__all__ = ["FailedOver", "add_arguments", "first_sent_after", "run"]

_PARTITIONS: Final = 24
_MEMBERS: Final = 6
_INTERVAL_MS: Final = 100.0
_COMMITTED_PARTITIONS: Final = 10
_TIMES: Final = 10
_SECONDS_MAX: Final = 3.0
_TIMEOUT_S: Final = 60.0
_HISTORY_TIMEOUT_S: Final = 1_800.0
_POLL_S: Final = 0.02
_MB: Final = 1_000_000


class FailedOver(NamedTuple):
    """Seconds from the signal."""

    commits_s: float
    reads_s: float
    #: None: there are no others
    other_groups_s: float | None
    #: how many of them it coordinated
    other_groups: int
    was_controller: bool
    #: partitions that have another member than before: a death of a coordinator is no reason to move any
    moved: int
    #: of the topic of offsets on one broker, when it died
    offsets_bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=_TIMES)
    parser.add_argument("--groups", type=int, default=0, help="others beside it, with a member each")
    parser.add_argument("--history", type=int, default=60, help="commits that each of them has made")


def run(arguments: argparse.Namespace) -> list[Figure]:
    found = asyncio.run(_measure(arguments))
    figures = _figures(found)
    show(_title(arguments, found), figures)
    path = write_json(
        f"groups-failover-{arguments.groups}",
        {"arguments": vars(arguments), "measured": [each._asdict() for each in found]},
    )
    print(f"written: {path}")
    return figures


def _title(arguments: argparse.Namespace, found: Sequence[FailedOver]) -> str:
    size = max(each.offsets_bytes for each in found) / _MB
    others = f", {arguments.groups:,} groups beside it" if arguments.groups else ""
    return f"kill -9 of a group's coordinator, {len(found)} times{others}; {size:.1f} MB of offsets"


def _figures(found: Sequence[FailedOver]) -> list[Figure]:
    controllers = sum(each.was_controller for each in found)
    rows: list[tuple[str, list[float]]] = [
        ("until every member's commits are acknowledged", [each.commits_s for each in found]),
        ("until every partition is read", [each.reads_s for each in found]),
    ]
    others = [each.other_groups_s for each in found if each.other_groups_s is not None]
    if others:
        rows.append(("until commits of all its other groups are", others))
    detail = f"the active controller, too, in {controllers} of {len(found)}"
    figures = []
    for name, seconds in rows:
        figures.append(Figure.at_most(f"{name}, longest", max(seconds), "s", _SECONDS_MAX, detail))
        figures.append(Figure.at_most(f"{name}, median", statistics.median(seconds), "s", None, ""))
    moved = sum(each.moved for each in found)
    figures.append(Figure.at_most("partitions that moved", moved, "", 0, "nobody has left the group"))
    return figures


# -- running


async def _measure(arguments: argparse.Namespace) -> list[FailedOver]:
    async with (
        QuorateSide() as side,
        _others(side, arguments) as others,
        ReadingGroup(side, partitions=_PARTITIONS, interval_ms=_INTERVAL_MS, program="committer") as group,
        AsyncAdmin(side.bootstrap) as admin,
    ):
        await group.fill(_MEMBERS)
        found = []
        for number in range(arguments.times):
            found.append(await _fail_over(side, group, others, admin))
            _tell(number + 1, found[-1])
        return found


@asynccontextmanager
async def _others(side: QuorateSide, arguments: argparse.Namespace) -> AsyncIterator[ManyGroups | None]:
    if not arguments.groups:
        yield None
        return
    async with many_groups(
        side, count=arguments.groups, partitions=_COMMITTED_PARTITIONS, has_members=True
    ) as others:
        await others.ask(f"rounds {arguments.history}", timeout_s=_HISTORY_TIMEOUT_S)
        yield others


async def _fail_over(
    side: QuorateSide, group: ReadingGroup, others: ManyGroups | None, admin: AsyncAdmin
) -> FailedOver:
    for topic in (TOPIC, OFFSETS_TOPIC):
        await until_whole(admin, topic)
    await group.rest()
    victim_id = (await admin.describe_group(GROUP)).coordinator
    was_controller = (await admin.describe_cluster()).controller == victim_id
    victim = next(node for node in side.cluster.nodes if node.id == victim_id)
    if others is not None:
        await others.ask("look-up", timeout_s=_TIMEOUT_S)
    owners = group.owners()
    size = sum(offsets_bytes(victim.data_dir))
    killed_s = time.monotonic()
    await side.cluster.kill(victim.name)
    gone_s = time.monotonic()
    acknowledged = await _probe(others, victim_id)
    commits = await asyncio.gather(*(_committed(member, gone_s) for member in group.members))
    reads = await group.read_after(gone_s)
    moved = sum(owners[partition] != owner for partition, owner in group.owners().items())
    await side.cluster.start([victim.name])
    return FailedOver(
        commits_s=max(commits) - killed_s,
        reads_s=max(reads.values()) - killed_s,
        other_groups_s=max(acknowledged) - killed_s if acknowledged else None,
        other_groups=len(acknowledged),
        was_controller=was_controller,
        moved=moved,
        offsets_bytes=size,
    )


async def _probe(others: ManyGroups | None, victim_id: int) -> list[float]:
    if others is None:
        return []
    answer = await others.ask(f"probe {victim_id}", timeout_s=_TIMEOUT_S)
    if any(answer["failed"]):
        why = "\n".join(answer["refusals"])
        raise ClientFailed(f"{sum(answer['failed'])} commits of other groups have failed:\n{why}")
    return answer["at_s"]


async def _committed(member: MemberProcess, after_s: float) -> float:
    """When its first commit that was sent later was acknowledged."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            found = first_sent_after(_commits_of(member), after_s)
            if found is not None:
                return found
            await asyncio.sleep(_POLL_S)


def _commits_of(member: MemberProcess) -> str:
    return Path(f"{member.path}{COMMITS_SUFFIX}").read_text(encoding="ascii")


def first_sent_after(lines: str, moment_s: float) -> float | None:
    """When it was acknowledged. A line that is being written is not there yet."""
    for line in lines.splitlines(keepends=True):
        if line.endswith("\n"):
            sent_s, acknowledged_s = map(float, line.split())
            if sent_s > moment_s:
                return acknowledged_s
    return None


def _tell(number: int, found: FailedOver) -> None:
    others = (
        ""
        if found.other_groups_s is None
        else f", {found.other_groups} other groups {found.other_groups_s:.2f} s"
    )
    controller = ", the controller" if found.was_controller else ""
    print(
        f"kill {number}{controller}: commits {found.commits_s:.2f} s, reads {found.reads_s:.2f} s{others}; "
        f"{found.moved} moved; {found.offsets_bytes / _MB:.1f} MB of offsets",
        file=sys.stderr,
        flush=True,
    )
