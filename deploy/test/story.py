"""What is done to the containers of a compose file, a step at a time, and the proof that nothing was lost."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from deploy.test.commands import CannotTest, run
from deploy.test.containers import BOOTSTRAP, PROJECT, Containers
from deploy.test.drills import AGENT, drill
from deploy.test.steps import Steps
from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.verdict import raise_violations
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin
from quorate.core.ids import PartitionId, TopicName, TopicPartition

__all__ = ["Story"]

TOPIC: Final = "ledger"
PARTITIONS: Final = 3


class Story:
    """Of one compose file. ``prefix``: of the names of its steps."""

    def __init__(self, steps: Steps, running: Containers, *, prefix: str = "") -> None:
        self._steps = steps
        self._running = running
        self._prefix = prefix
        #: all that clients were ever told
        self._history = History()

    async def tell(self) -> None:
        """All of it."""
        await self._begin()
        await self._watch()
        async with AsyncAdmin(BOOTSTRAP) as admin, self._load(admin) as load:
            await self._kill_a_leader(admin, load)
            await self._roll(load)
        await self._prove()
        await self._down_and_up()
        await self._drill()

    async def tell_in_short(self) -> None:
        """That these containers are a cluster, and survive the loss of one."""
        await self._begin()
        await self._watch()
        async with AsyncAdmin(BOOTSTRAP) as admin, self._load(admin) as load:
            await self._kill_a_leader(admin, load)
        await self._prove()

    # -- the steps

    async def _begin(self) -> None:
        async with self._step(
            "up", f"bring up {self._running.file}, and look at what its containers may do"
        ) as told:
            told.append(await self._running.up())
            told.append(await self._running.check_confinement())

    async def _watch(self) -> None:
        async with self._step("watch", "bring up Prometheus beside them, and ask it what it sees") as told:
            told.append(await self._running.watch())

    async def _kill_a_leader(self, admin: AsyncAdmin, load: LedgerLoad) -> None:
        async with self._step("kill", "docker kill of a leader under load, and its start") as told:
            leader = (await admin.describe_topic(TOPIC)).partitions[0].leader
            if leader is None:
                raise CannotTest(f"{TOPIC}:0 was in sync, and has no leader")
            victim = self._running.container_of_broker(leader)
            began = time.monotonic()
            await self._running.kill(victim)
            await load.acknowledges()
            told.append(f"every partition acknowledges {time.monotonic() - began:.1f} s after it")
            await self._running.start(victim)
            await until_whole(admin, TOPIC)
            await self._running.until_healthy()

    async def _roll(self, load: LedgerLoad) -> None:
        async with self._step("roll", "restart every container in turn, under load") as told:
            command = (sys.executable, "-m", "quorate.console.main", "cluster", "rolling-restart")
            printed = await run(*command, "--agent", str(AGENT))
            await load.acknowledges()
            told.append(printed.strip().splitlines()[-1])

    async def _down_and_up(self) -> None:
        async with self._step(
            "down", "delete every container but its volume, and bring all up again"
        ) as told:
            await self._running.down()
            told.append(await self._running.up())
            async with AsyncAdmin(BOOTSTRAP) as admin:
                await until_whole(admin, TOPIC)
            told.append(await self._proof())

    async def _drill(self) -> None:
        async with self._step("drills", "kill, pause, cut off and stop containers by drills") as told:
            told += await drill(PROJECT)
            told.append(await self._proof())

    async def _prove(self) -> None:
        async with self._step("prove", "look for every acknowledged record") as told:
            told.append(await self._proof())

    # -- what they stand on

    @asynccontextmanager
    async def _step(self, name: str, what: str) -> AsyncIterator[list[str]]:
        async with self._steps.step(self._prefix + name, what) as told:
            yield told

    @asynccontextmanager
    async def _load(self, admin: AsyncAdmin) -> AsyncIterator[LedgerLoad]:
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        await until_whole(admin, TOPIC)
        partitions = [TopicPartition(TopicName(TOPIC), PartitionId(number)) for number in range(PARTITIONS)]
        async with LedgerLoad(BOOTSTRAP, partitions, records_per_s=200, history=self._history) as load:
            await load.acknowledges()
            yield load

    async def _proof(self) -> str:
        final = await collect(Reach(bootstrap=BOOTSTRAP), self._history, [TOPIC])
        raise_violations(check_all(self._history, final))
        return f"{self._history.outcomes()[Outcome.ACKNOWLEDGED]:,} acknowledged records, each at its offset"
