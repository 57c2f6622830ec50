"""Many groups in one process: each has a member that holds partitions, stays in its group, and commits.

Usage: PYTHON -m bench.groups.committing_process BOOTSTRAP TOPIC PARTITIONS FIRST COUNT [--without-members]

Membership is that of a consumer (`Member`, `Heartbeats`); what it lacks is fetching, so that a thousand of
them fit into a process or two, and share their connections. It is told lines, and says a JSON document to
each:

    commit SECONDS INTERVAL_S    each group commits all its partitions per interval; the latency of each
    rounds COUNT                 the same without a pause
    look-up                      who coordinates which group
    probe BROKER_ID              the groups that this broker did coordinate commit once, now; when it was done

A commit is due at its time whether the one before is done or not, and late from then on.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import uvloop

from bench.peers.client_lines import say
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.cluster import ClusterView
from quorate.client.consumer.group.heartbeats import Heartbeats
from quorate.client.consumer.group.member import Changes, Identity, Member
from quorate.client.groups.committed import fetch_revision
from quorate.client.groups.coordinator import COMMIT_OFFSETS, FIND_COORDINATORS, CoordinatorLink
from quorate.client.groups.membership import new_member_id
from quorate.client.groups.offsets import OffsetAndMetadata, offset_to
from quorate.client.groups.partitions import GroupPartition
from quorate.client.topology import TopicView
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.ids import PartitionId
from quorate.errors import QuorateError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import group_pb2

_TIMEOUT_S: Final = 30.0
_JOIN_TIMEOUT_S: Final = 120.0
#: of groups that join, or that commit without a pause
_AT_ONCE: Final = 64
_REFUSALS_TOLD: Final = 5
_RETRY_S: Final = 0.05

#: code and message
Refusal = str


@dataclass(frozen=True, slots=True)
class _Acknowledged:
    latency_s: float
    at_s: float


class _Group:
    def __init__(
        self, name: str, topic: TopicView, partitions: int, cluster: ClusterView, *, has_member: bool
    ) -> None:
        self.name = name
        self._partitions = [
            GroupPartition(topic.topic_id, topic.name, PartitionId(number)) for number in range(partitions)
        ]
        clock, rng = SystemClock(), random.Random()
        self._link = CoordinatorLink(cluster, name, clock=clock, rng=rng)
        self._has_member = has_member
        subscription = group_pb2.GroupSubscription(topics=[topic.name], rebalance_timeout_ms=300_000)
        self._member = Member(name, subscription, partial(new_member_id, None))
        self._heartbeats = Heartbeats(self._member, self._link, self, clock=clock, rng=rng)
        self._is_full = asyncio.Event()
        self._offset = 0
        #: what a commit in nobody's name is based on; None: not asked for yet
        self._revision: str | None = None

    # -- being a member

    async def stay(self) -> None:
        await self._heartbeats.run()

    async def join(self) -> None:
        """Until it holds every partition."""
        if self._has_member:
            self._member.join()
            self._heartbeats.wake()
            async with asyncio.timeout(_JOIN_TIMEOUT_S):
                await self._is_full.wait()

    def assignment_changed(self, changes: Changes) -> None:
        self._member.began(changes.given)
        self._member.shown(changes.given)
        if len(self._member.held()) == len(self._partitions):
            self._is_full.set()

    def membership_lost(self, identity: Identity, error: QuorateError) -> None:
        if self._member.is_current(identity):
            print(f"{self.name}: {error.message}", file=sys.stderr)
            self._member.leave()
            self._member.join()
            self._heartbeats.pause_before_return()

    def refused(self, error: QuorateError) -> None:
        print(f"{self.name}: {error.message}", file=sys.stderr)

    # -- committing

    async def commit(self, due_s: float) -> _Acknowledged | Refusal:
        self._offset += 1
        identity = self._member.identity
        if identity is None and self._revision is None:
            self._revision = await fetch_revision(self._link, self._partitions, timeout_s=_TIMEOUT_S)
        request = group_pb2.CommitOffsetsRequest(
            group=self.name,
            member_id="" if identity is None else identity.member_id,
            member_epoch=0 if identity is None else identity.epoch,
            offsets=[offset_to(each, OffsetAndMetadata(self._offset)) for each in self._partitions],
            revision=self._revision if identity is None else None,
        )
        try:
            await self._sent(request, until_s=time.monotonic() + _TIMEOUT_S)
        except QuorateError as error:
            return f"{error.code}: {error.message}"
        now = time.monotonic()
        return _Acknowledged(now - due_s, now)

    async def _sent(self, request: group_pb2.CommitOffsetsRequest, *, until_s: float) -> None:
        """As a consumer does it: what is refused for a moment is sent again."""
        while True:
            remaining_s = max(until_s - time.monotonic(), _RETRY_S)
            response = await self._link.call(COMMIT_OFFSETS, request, timeout_s=remaining_s)
            self._revision = response.revision
            errors = [error_from_detail(each.error) for each in response.results if each.HasField("error")]
            if not errors:
                return
            if time.monotonic() >= until_s or not all(each.retriable for each in errors):
                raise errors[0]
            await asyncio.sleep(_RETRY_S)

    async def commit_regularly(
        self, first_s: float, end_s: float, interval_s: float
    ) -> list[_Acknowledged | Refusal]:
        done = []
        due_s = first_s
        while due_s < end_s:
            await asyncio.sleep(max(due_s - time.monotonic(), 0))
            done.append(await self.commit(due_s))
            due_s += interval_s
        return done


class _Groups:
    def __init__(self, groups: Sequence[_Group], cluster: ClusterView) -> None:
        self._groups = groups
        self._cluster = cluster
        #: as of the last look
        self._coordinators: dict[str, int] = {}

    async def join(self) -> None:
        await _few_at_once([group.join for group in self._groups])

    async def obey(self, line: str) -> dict[str, Any]:
        command, *arguments = line.split()
        if command == "commit":
            return await self._commit(*map(float, arguments))
        if command == "rounds":
            return await self._rounds(int(arguments[0]))
        if command == "look-up":
            return await self._look_up()
        assert command == "probe"
        return await self._probe(int(arguments[0]))

    async def _commit(self, seconds: float, interval_s: float) -> dict[str, Any]:
        """Each group has its own place in the interval."""
        start_s = time.monotonic()
        done = await asyncio.gather(
            *(
                group.commit_regularly(
                    start_s + place * interval_s / len(self._groups), start_s + seconds, interval_s
                )
                for place, group in enumerate(self._groups)
            )
        )
        return _told([each for of_group in done for each in of_group])

    async def _rounds(self, count: int) -> dict[str, Any]:
        done: list[_Acknowledged | Refusal] = []

        async def commit_often(group: _Group) -> None:
            done.extend([await group.commit(time.monotonic()) for _ in range(count)])

        await _few_at_once([partial(commit_often, group) for group in self._groups])
        return _told(done)

    async def _probe(self, broker_id: int) -> dict[str, Any]:
        due_s = time.monotonic()
        victims = [group for group in self._groups if self._coordinators[group.name] == broker_id]
        done = await asyncio.gather(*(group.commit(due_s) for group in victims))
        return {**_told(done), "at_s": [each.at_s for each in done if isinstance(each, _Acknowledged)]}

    async def _look_up(self) -> dict[str, Any]:
        request = group_pb2.FindCoordinatorsRequest(groups=[group.name for group in self._groups])
        response = await self._cluster.call(FIND_COORDINATORS, request, timeout_s=_TIMEOUT_S)
        self._coordinators = {each.group: each.broker_id for each in response.coordinators}
        return {"brokers": sorted(set(self._coordinators.values()))}


async def _few_at_once(works: Sequence[Callable[[], Awaitable[None]]]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def take_slot(work: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await work()

    await asyncio.gather(*map(take_slot, works))


def _told(done: Sequence[_Acknowledged | Refusal]) -> dict[str, Any]:
    acknowledged = [each for each in done if isinstance(each, _Acknowledged)]
    refusals = sorted({each for each in done if isinstance(each, str)})
    return {
        "latencies_ms": [round(each.latency_s * 1000, 2) for each in acknowledged],
        "failed": len(done) - len(acknowledged),
        "refusals": refusals[:_REFUSALS_TOLD],
    }


async def _run(arguments: argparse.Namespace) -> None:
    cluster = ClusterView(
        client_transport(), parse_bootstrap(arguments.bootstrap), clock=SystemClock(), rng=random.Random()
    )
    topic = await cluster.topic(arguments.topic, timeout_s=_TIMEOUT_S)
    numbers = range(arguments.first, arguments.first + arguments.count)
    groups = [
        _Group(
            f"committing-{number:04}",
            topic,
            arguments.partitions,
            cluster,
            has_member=not arguments.without_members,
        )
        for number in numbers
    ]
    all_of_them = _Groups(groups, cluster)
    async with asyncio.TaskGroup() as tasks:
        staying = [tasks.create_task(group.stay()) for group in groups]
        await all_of_them.join()
        say({"ready": True})
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            say(await all_of_them.obey(line))
        for task in staying:
            task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    for number in ("partitions", "first", "count"):
        parser.add_argument(number, type=int)
    parser.add_argument("--without-members", action="store_true")
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
