"""Asks the controller for the ISRs that leaders wish for.

Wishes of many partitions share a request: a broker that dies concerns thousands of partitions at the same
moment. One request is under way at a time; whatever is wished for meanwhile goes with the next one. What a
wish is, and when it is over, is the leadership's business (``InSyncReplicas``); this is the postman.

Answers go to the leadership that asked, not to the partition's present one: a wish of an epoch that is over
means nothing to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final

from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.v1.controller_pb2 import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionAlteration,
    PartitionAlterationResult,
)

__all__ = ["AlterPartitionCall", "IsrAlterations"]

log = get_logger(__name__)

#: One attempt, on which the call puts this broker's id and epoch. It may try again by itself only after an
#: answer that says that nothing was done: of a copy that got none, the leadership has to know (rule 22).
AlterPartitionCall = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]

#: A request of this size is a few hundred kilobytes.
_PARTITIONS_PER_REQUEST_MAX: Final = 2_000
_BACKOFF_MIN_S: Final = 0.05
_BACKOFF_MAX_S: Final = 1.0
#: how often lag is looked at, in every lag time
_CHECKS_PER_LAG_TIME: Final = 2


class IsrAlterations:
    def __init__(
        self,
        call: AlterPartitionCall,
        *,
        clock: Clock,
        rng: Random,
        led: Callable[[], Iterable[Partition]],
        replica_lag_s: float,
    ) -> None:
        """``led``: the partitions that this broker leads."""
        self._call = call
        self._clock = clock
        self._rng = rng
        self._led = led
        self._check_interval_s = replica_lag_s / _CHECKS_PER_LAG_TIME
        #: ordered sets: the same events make the same requests, in a simulation too
        self._wishing: dict[Partition, None] = {}
        #: partitions whose wish was not fulfilled; they are asked again later
        self._resting: dict[Partition, None] = {}
        #: of those whose last wish was not fulfilled
        self._backoffs: dict[Partition, Backoff] = {}
        self._is_wished = asyncio.Event()

    def wish(self, partition: Partition) -> None:
        """The partition's leadership may have something to ask for. May be said any number of times."""
        if partition not in self._resting:
            self._wishing[partition] = None
            self._is_wished.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_for_ever(), name="isr-alterations")
            tasks.create_task(self._check_lag_for_ever(), name="isr-lag")

    async def _check_lag_for_ever(self) -> None:
        while True:
            await self._clock.sleep(self._check_interval_s)
            now = self._clock.monotonic()
            for partition in self._led():
                if partition.leadership is not None:
                    partition.leadership.check_lag(now)

    async def _send_for_ever(self) -> None:
        while True:
            await self._is_wished.wait()
            asked = self._collect()
            if asked:
                await self._ask(asked)

    def _collect(self) -> list[tuple[Partition, Leadership, PartitionAlteration]]:
        asked: list[tuple[Partition, Leadership, PartitionAlteration]] = []
        while self._wishing and len(asked) < _PARTITIONS_PER_REQUEST_MAX:
            partition = next(iter(self._wishing))
            del self._wishing[partition]
            leadership = partition.leadership
            alteration = None if leadership is None else leadership.next_alteration()
            if leadership is not None and alteration is not None:
                asked.append((partition, leadership, alteration))
            else:
                self._backoffs.pop(partition, None)
        if not self._wishing:
            self._is_wished.clear()
        return asked

    async def _ask(self, asked: list[tuple[Partition, Leadership, PartitionAlteration]]) -> None:
        request = AlterPartitionRequest(partitions=[alteration for _, _, alteration in asked])
        results: dict[tuple[str, int], PartitionAlterationResult] = {}
        try:
            response = await self._call(request)
            results = {(each.topic_id, each.partition): each for each in response.partitions}
        except QuorateError as error:
            log.warning("isr_alterations_failed", partitions=len(asked), code=error.code, error=error.message)
        for partition, leadership, alteration in asked:
            result = results.get((alteration.topic_id, alteration.partition))
            if result is None:
                leadership.alteration_unanswered()
            else:
                _log_result(partition, alteration, result)
                leadership.alteration_answered(result)
            # After a withdrawal the same is wished for again, and refused again, perhaps for a while.
            if result is not None and _is_settled(alteration, result) and not alteration.withdraw:
                self._backoffs.pop(partition, None)
                # There may be more to wish for: who caught up while the change was under way had to wait.
                self.wish(partition)
            else:
                self._rest(partition)

    def _rest(self, partition: Partition) -> None:
        backoff = self._backoffs.get(partition)
        if backoff is None:
            backoff = Backoff(self._rng, first_s=_BACKOFF_MIN_S, pause_s_max=_BACKOFF_MAX_S)
            self._backoffs[partition] = backoff
        self._resting[partition] = None
        self._clock.call_later(backoff.next_s(), lambda: self._rested(partition))

    def _rested(self, partition: Partition) -> None:
        self._resting.pop(partition, None)
        self.wish(partition)


def _is_settled(wish: PartitionAlteration, result: PartitionAlterationResult) -> bool:
    """Otherwise the same would be asked for again, at once and without end."""
    return (
        not result.HasField("error")
        and result.leader_epoch == wish.leader_epoch
        and result.partition_epoch > wish.partition_epoch
    )


def _log_result(partition: Partition, wish: PartitionAlteration, result: PartitionAlterationResult) -> None:
    wanted = [member.broker_id for member in wish.isr]
    if result.HasField("error"):
        log.info(
            "isr_change_refused",
            partition=partition.topic_partition,
            leader_epoch=wish.leader_epoch,
            wanted=wanted,
            code=result.error.code,
            error=result.error.message,
        )
    else:
        log.info(
            "isr_changed",
            partition=partition.topic_partition,
            leader_epoch=result.leader_epoch,
            partition_epoch=result.partition_epoch,
            isr=list(result.isr),
        )
