"""What tests of group consumers do again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from quorate.client.consumer.async_consumer import AsyncConsumer
from tests.unit.client.fake_coordinator import GroupCluster


class Application:
    """Polls in a task of its own, notes what it gets and hears, and takes its time over it."""

    def __init__(self, cluster: GroupCluster, name: str, *, callbacks: bool = True, **options: Any) -> None:
        self._cluster = cluster
        self.name = name
        #: (partition, offset) in the order of polls
        self.read: list[tuple[int, int]] = []
        #: what happened: ("assigned", [0, 1]) and the like
        self.heard: list[tuple[str, list[int]]] = []
        #: for each poll that brings records
        self.processing_s = 0.0
        self.max_records = 500
        self.errors: list[Exception] = []
        self.on_revoked: Callable[[list[int]], Any] | None = None
        topics = options.pop("topics", ["t"])
        pattern = options.pop("pattern", None)
        self.consumer: AsyncConsumer = cluster.member(node=name, **options)
        listeners: Any = (
            {f"on_{what}": self._listener(what) for what in ("assigned", "revoked", "lost")}
            if callbacks
            else {}
        )
        self.consumer.subscribe(topics, pattern=pattern, **listeners)
        self._task: asyncio.Task[None] | None = None

    def _listener(self, what: str) -> Any:
        async def listen(partitions: list[Any]) -> None:
            numbers = [each.partition for each in partitions]
            self.heard.append((what, numbers))
            if what == "revoked" and self.on_revoked is not None:
                await self.on_revoked(numbers)

        return listen

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                records = await self.consumer.poll(self.max_records, timeout=1)
            except Exception as error:  # noqa: BLE001 - whatever it is, a test looks at it
                self.errors.append(error)
                await self._cluster.sleep(0.001)  # time passes, also if it fails again and again
                continue
            self.read += [(record.partition, record.offset) for record in records]
            if records and self.processing_s:
                await self._cluster.sleep(self.processing_s)

    @property
    def assignment(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    @property
    def member_id(self) -> str:
        group = self.consumer._engine.group
        assert group is not None
        return group._member.member_id

    def crash(self) -> None:
        """The process is gone, with all its connections."""
        self.stop()
        engine = self.consumer._engine
        assert engine._running is not None
        engine._running.cancel()
        self._cluster.network.node_died(self.name)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        self.stop()
        await self.consumer.close()


async def until(cluster: GroupCluster, condition: Callable[[], object], *, within_s: float = 60) -> None:
    deadline = cluster.now() + within_s
    while not condition():
        assert cluster.now() < deadline, "it did not come to that"
        await cluster.sleep(0.01)
