"""Runs in a pod beside the cluster: writes and reads with a ledger, and does what it is told.

A line of JSON comes in, ``{"do": "begin"}``, and a line of JSON goes out when it is done. Everything that
clients were told is kept in one history from the first step to the last, so each proof is about all that was
ever acknowledged. This file goes into the pod alone: it imports what the image has in it, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.liveness import waits
from quorate.chaos.checks.verdict import raise_violations
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.history import History
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

TOPIC: Final = "ledger"
_LOOK_S: Final = 0.25
_ANSWER_S: Final = 2.0
#: of each of the two producers
_RECORDS_PER_S: Final = 100.0


class IsrSeen:
    """While a load ran: the smallest ISR of any partition, and the longest time that nobody looked."""

    def __init__(self, now_s: float) -> None:
        self._looked_s = now_s
        self._unseen_s = 0.0
        #: None: not looked yet
        self._min: int | None = None

    def saw(self, smallest: int, now_s: float) -> None:
        self._min = smallest if self._min is None else min(smallest, self._min)
        self._unseen_s = max(self._unseen_s, now_s - self._looked_s)
        self._looked_s = now_s

    def told(self, now_s: float) -> dict[str, Any]:
        return {"isr_min": self._min, "isr_unseen_s": max(self._unseen_s, now_s - self._looked_s)}


class Errand:
    """Everything that the test may ask for, by name."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AsyncAdmin(bootstrap)
        self._history = History()
        self._partitions: list[TopicPartition] = []
        self._load: LedgerLoad | None = None
        self._loads = 0
        #: the first record of the load that runs
        self._first = 0
        self._watching: asyncio.Task[None] | None = None
        self._isr = IsrSeen(time.monotonic())

    async def create(self, partitions: int) -> dict[str, Any]:
        await self._admin.create_topic(TOPIC, partitions=partitions, replication_factor=3)
        await until_whole(self._admin, TOPIC)
        self._partitions = [
            TopicPartition(TopicName(TOPIC), PartitionId(number)) for number in range(partitions)
        ]
        return {}

    async def begin(self) -> dict[str, Any]:
        """Clients, until ``end``; done when every partition acknowledges."""
        self._loads += 1
        self._first = len(self._history.sent)
        self._isr = IsrSeen(time.monotonic())
        self._load = LedgerLoad(
            self._bootstrap,
            self._partitions,
            records_per_s=_RECORDS_PER_S,
            history=self._history,
            name=f"writer-{self._loads}",
        )
        await self._load.__aenter__()
        self._watching = asyncio.create_task(self._watch())
        return await self.acknowledges()

    async def acknowledges(self) -> dict[str, Any]:
        assert self._load is not None, "begin comes first"
        await self._load.acknowledges()
        return {}

    async def whole(self) -> dict[str, Any]:
        await until_whole(self._admin, TOPIC)
        return {}

    async def describe(self) -> dict[str, Any]:
        found = await self._admin.describe_topic(TOPIC)
        return {
            "partitions": [
                {"leader": each.leader, "isr": list(each.isr), "replicas": list(each.replicas)}
                for each in found.partitions
            ]
        }

    async def end(self) -> dict[str, Any]:
        """Every record has its end. How long any partition kept its writers waiting, and ISRs as seen."""
        assert self._load is not None, "begin comes first"
        load, self._load = self._load, None
        await load.end()
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        isr = self._isr.told(time.monotonic())
        sent = self._history.sent[self._first :]
        longest = {
            str(partition): max(
                (wait.seconds for wait in waits([each for each in sent if each.partition == partition])),
                default=0.0,
            )
            for partition in self._partitions
        }
        return {"sent": len(sent), "longest_wait_s": max(longest.values()), **isr}

    async def prove(self) -> dict[str, Any]:
        """Over all that was ever written. Nobody writes any more."""
        final = await collect(Reach(bootstrap=self._bootstrap), self._history, [TOPIC])
        raise_violations(check_all(self._history, final))
        return {"acknowledged": sum(1 for _ in self._history.acknowledged)}

    async def _watch(self) -> None:
        while True:
            with suppress(QuorateError):
                found = await self._admin.describe_topic(TOPIC, timeout=_ANSWER_S)
                self._isr.saw(min(len(each.isr) for each in found.partitions), time.monotonic())
            await asyncio.sleep(_LOOK_S)


async def serve(bootstrap: str) -> None:
    errand = Errand(bootstrap)
    named: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
        name: getattr(errand, name)
        for name in ("create", "begin", "acknowledges", "whole", "describe", "end", "prove")
    }
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        try:
            answer = await named[asked.pop("do")](**asked)
        except (Violation, QuorateError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
