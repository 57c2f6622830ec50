"""A group of member processes under a steady load, and the changes that are made to it.

A change is made when the group has been at rest for about as long as the change will take: what pauses in
that time, pauses anyway. It is over when every partition that has to move has arrived at its new member, and
a moment has passed.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.cluster.processes import ClientFailed
from bench.groups.member_process import LineProcess, MemberProcess, line_process
from bench.groups.sides import GroupSide
from bench.groups.timeline import Observed, Span, Timeline

__all__ = ["GROUP", "TOPIC", "ReadingGroup"]

TOPIC: Final = "read-by-group"
GROUP: Final = "readers"
_LOOK_S: Final = 0.1
#: after the last partition has arrived where it belongs
_CALM_S: Final = 1.0
#: nothing has moved for so long: the group is at rest
_REST_S: Final = 3.0
_TIMEOUT_S: Final = 180.0


class ReadingGroup:
    """Use as an asynchronous context manager: on entry the load runs, and no member is there yet."""

    def __init__(
        self, side: GroupSide, *, partitions: int, interval_ms: float, program: str = "member"
    ) -> None:
        """``program``: what its members run, of the side's client."""
        self._side = side
        self._program = program
        self._partitions = partitions
        self._interval_ms = interval_ms
        self._timeline = Timeline()
        self._members: dict[str, MemberProcess] = {}
        self._count = 0
        self._processes = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._directory = self._processes.enter_context(tempfile.TemporaryDirectory(prefix="group-bench-"))
        try:
            await self._side.create_topic(TOPIC, self._partitions)
            load = await self._start("load", TOPIC, self._partitions, self._interval_ms)
            await load.ready()
        except BaseException:
            await self._processes.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._processes.aclose()

    async def _start(self, command: str, *arguments: object) -> LineProcess:
        return await self._processes.enter_async_context(
            line_process(*self._side.client(command, *arguments))
        )

    # -- members

    async def new_member(self) -> MemberProcess:
        """Its process runs, and it has not joined."""
        self._count += 1
        name = f"member-{self._count}"
        path = str(Path(self._directory) / name)
        process = await self._start(self._program, TOPIC, GROUP, path)
        await process.ready()
        return MemberProcess(name, process, path)

    async def fill(self, count: int) -> None:
        """Until so many members share the partitions evenly, and nothing moves."""
        while len(self._members) < count:
            member = await self.new_member()
            self._members[member.name] = member
            await member.join()
        await self.rest()

    async def rest(self, at_least_s: float = _REST_S) -> float:
        """Since when the partitions are spread evenly, and stay where they are."""
        even_since: float | None = None

        def is_at_rest() -> bool:
            nonlocal even_since
            now = time.monotonic()
            if not self._is_even():
                even_since = None
            elif even_since is None:
                even_since = now
            return even_since is not None and now - even_since >= at_least_s

        await self._until(is_at_rest, "the partitions are not spread evenly")
        assert even_since is not None
        return even_since

    def _is_even(self) -> bool:
        held = self._timeline.held(since_s=time.monotonic() - _REST_S)
        fewest, rest = divmod(self._partitions, len(self._members))
        counts = sorted(len(held.get(name, ())) for name in self._members)
        even = [fewest] * (len(self._members) - rest) + [fewest + 1] * rest
        return counts == even

    @property
    def members(self) -> Collection[MemberProcess]:
        return self._members.values()

    def owners(self) -> dict[int, str]:
        self._look()
        return self._timeline.owners()

    async def read_after(self, moment_s: float) -> dict[int, float]:
        """When each partition was read for the first time after that; waits until all were."""
        await self._until(
            lambda: len(self._timeline.first_after(moment_s)) == self._partitions,
            "not every partition is read",
        )
        return self._timeline.first_after(moment_s)

    # -- changes

    async def watch_join(self) -> Observed:
        # A process that starts takes its share of the processor: that is no part of a rebalance.
        member = await self.new_member()
        rested_since = await self.rest(self._side.call_s)
        self._members[member.name] = member
        share = self._partitions // len(self._members)

        def has_share() -> bool:
            return len(self._timeline.held(since_s=0).get(member.name, ())) >= share

        return await self._watch(member.join, has_share, rested_since)

    async def watch_leave(self) -> Observed:
        return await self._watch_end(MemberProcess.leave, await self.rest(self._side.call_s))

    async def watch_kill(self) -> Observed:
        return await self._watch_end(MemberProcess.kill, await self.rest(self._side.crash_s))

    async def _watch_end(
        self, end: Callable[[MemberProcess], Awaitable[float]], rested_since: float
    ) -> Observed:
        _, member = self._members.popitem()
        held = {partition for partition, owner in self._timeline.owners().items() if owner == member.name}

        async def end_and_look() -> float:
            at_s = await end(member)
            self._timeline.add(member.name, member.arrivals())
            return at_s

        def is_taken_over() -> bool:
            owners = self._timeline.owners()
            return all(owners[partition] != member.name for partition in held)

        return await self._watch(end_and_look, is_taken_over, rested_since)

    async def _watch(
        self, change: Callable[[], Awaitable[float]], is_over: Callable[[], bool], rested_since: float
    ) -> Observed:
        start_s = await change()
        await self._until(is_over, "the partitions have not moved")
        await asyncio.sleep(_CALM_S)
        self._look()
        span = Span(start_s, time.monotonic())
        return self._timeline.observe(span, quiet=span.before(since_s=rested_since))

    # -- looking

    def _look(self) -> None:
        for member in self._members.values():
            self._timeline.add(member.name, member.arrivals())

    async def _until(self, condition: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            self._look()
            if condition():
                return
            ended = [name for name, member in self._members.items() if not member.process.is_running]
            if ended or time.monotonic() > deadline:
                held = {name: len(found) for name, found in self._timeline.held(since_s=0).items()}
                raise ClientFailed(f"{failure}: {held}; ended: {ended}")
            await asyncio.sleep(_LOOK_S)
