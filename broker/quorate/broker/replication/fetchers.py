"""Every partition that this broker follows, by leader: one stream to each broker that leads some.

Which partition follows whom is told by ``follow`` and ``unfollow``, which never wait: metadata is applied in
one turn of the event loop. They may be called before ``run``, and take effect with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from quorate.broker.replica.partition import Partition
from quorate.broker.replication.leader_fetcher import FollowerContext, LeaderFetcher, Work
from quorate.broker.replication.throttle import ReplicationThrottle
from quorate.core.clock import Clock
from quorate.core.ids import BrokerEpoch, BrokerId, ReplicaKey
from quorate.core.transport import Transport

__all__ = ["ReplicaFetchers"]


class _Leader(NamedTuple):
    broker_id: BrokerId
    #: a broker that came back elsewhere is another one to connect to
    address: str


class ReplicaFetchers:
    def __init__(
        self,
        transport: Transport,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        *,
        clock: Clock,
        rng: random.Random,
        throttle: ReplicationThrottle,
    ) -> None:
        """``broker_epoch`` is asked each time a stream is opened; by then the broker has registered."""
        self._context = FollowerContext(
            transport=transport,
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            clock=clock,
            rng=rng,
            throttle=throttle,
            spawn=self._spawn,
            cut_finished=self._cut_finished,
        )
        self._fetchers: dict[_Leader, LeaderFetcher] = {}
        self._running: dict[LeaderFetcher, asyncio.Task[None]] = {}
        self._fetcher_of: dict[ReplicaKey, LeaderFetcher] = {}
        #: asked for before ``run``
        self._waiting_to_run: list[tuple[Work, str]] = []
        #: None: not running
        self._tasks: asyncio.TaskGroup | None = None

    def follow(self, partition: Partition, leader_address: str) -> None:
        """The partition's leader, in its current leader epoch. Whatever it followed before is over."""
        key = partition.key
        leader = _Leader(partition.leader, leader_address)
        fetcher = self._fetchers.get(leader)
        if self._fetcher_of.get(key) is not fetcher:
            self.unfollow(partition)
        if fetcher is None:
            fetcher = self._fetchers[leader] = LeaderFetcher(self._context, *leader)
            self._start(fetcher)
        self._fetcher_of[key] = fetcher
        fetcher.follow(key, partition)

    def unfollow(self, partition: Partition) -> None:
        """What is under way for it is finished, and its outcome dropped."""
        key = partition.key
        fetcher = self._fetcher_of.pop(key, None)
        if fetcher is None:
            return
        fetcher.unfollow(key)
        if fetcher.is_idle:
            self._stop(fetcher)

    async def run(self) -> NoReturn:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for fetcher in self._fetchers.values():
                    self._start(fetcher)
                for work, name in self._waiting_to_run:
                    tasks.create_task(work(), name=name)
                self._waiting_to_run.clear()
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None
            self._running.clear()
        raise AssertionError("unreachable: it is cancelled, or a task has failed")

    def _start(self, fetcher: LeaderFetcher) -> None:
        if self._tasks is not None:
            self._running[fetcher] = self._tasks.create_task(
                fetcher.run(), name=f"replicate-from-{fetcher.leader_id}"
            )

    def _stop(self, fetcher: LeaderFetcher) -> None:
        del self._fetchers[_Leader(fetcher.leader_id, fetcher.address)]
        running = self._running.pop(fetcher, None)
        if running is not None:
            running.cancel()

    def _spawn(self, work: Work, name: str) -> None:
        if self._tasks is None:
            self._waiting_to_run.append((work, name))
        else:
            self._tasks.create_task(work(), name=name)

    def _cut_finished(self, partition: Partition) -> None:
        """Whoever became leader, or follower of another one, in the meantime was waiting for this."""
        partition.begin_waiting_leadership()
        key = partition.key
        fetcher = self._fetcher_of.get(key)
        if fetcher is not None:
            fetcher.cut_finished(key)
