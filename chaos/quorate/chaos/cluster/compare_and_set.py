"""Clients that compete for the end of one log.

Each keeps its own idea of where the log ends: from its last outcome, or by asking. It appends a unique value
under the condition that this is so. Now and then it expects an offset on purpose that is too small or too
large, as a client with old news does. The producers are real, so what is lost on the way is sent again, to
whoever leads; a short delivery time-out leaves some outcomes unknown.
"""

from __future__ import annotations

import random
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.compare_and_set_history import CompareAndSetHistory
from quorate.client.admin import AsyncAdmin
from quorate.client.producer.async_producer import AsyncProducer
from quorate.core.ids import TopicPartition
from quorate.errors import OffsetMismatch, QuorateError

__all__ = ["CompareAndSetClients"]

_DELIVERY_TIMEOUT_MS: Final = 3_000
_LOOK_TIMEOUT_S: Final = 3.0
_PAUSE_S_MAX: Final = 0.06
#: of attempts that expect something else than what the client believes
_WRONG_SHARE: Final = 0.1
_LOOK_SHARE: Final = 0.15


class CompareAndSetClients:
    def __init__(self, cluster: SimCluster, history: CompareAndSetHistory, partition: TopicPartition) -> None:
        self._cluster = cluster
        self._history = history
        self._partition = partition
        self._is_over = False

    def end(self) -> None:
        """Nobody begins anything more."""
        self._is_over = True

    async def compete(self, name: str) -> None:
        """Until the end, and until the last attempt has its outcome."""
        cluster = self._cluster
        rng = cluster.client_rng()
        transport = cluster.client_transport()
        async with (
            cluster.producer(transport=transport, delivery_timeout_ms=_DELIVERY_TIMEOUT_MS) as producer,
            cluster.admin(transport=transport) as admin,
        ):
            number, believed = 0, 0
            while not self._is_over:
                if rng.random() < _LOOK_SHARE:
                    believed = await self._look(admin, believed)
                value = f"{name}/{number}".encode()
                believed = await self._attempt(producer, value, _expected(rng, believed), believed)
                number += 1
                await cluster.clock.sleep(rng.uniform(0, _PAUSE_S_MAX))

    async def _look(self, admin: AsyncAdmin, believed: int) -> int:
        called = self._history.tick()
        try:
            found = await admin.list_offsets([self._partition], timeout=_LOOK_TIMEOUT_S)
        except QuorateError:
            return believed
        offset = found[self._partition].offset
        assert offset is not None, "the latest offset always exists"
        self._history.note_length(called, offset)
        return offset

    async def _attempt(self, producer: AsyncProducer, value: bytes, expected: int, believed: int) -> int:
        """Where the log ends, as far as the client knows afterwards."""
        history, called = self._history, self._history.tick()
        topic, partition = self._partition
        try:
            future = await producer.send(topic, value, partition=partition, expected_offset=expected)
            written_at = (await future).offset
        except OffsetMismatch as error:
            actual_offset = error.facts["actual_offset"]
            assert isinstance(actual_offset, int)
            history.note_mismatch(called, value, expected, actual_offset)
            return actual_offset
        except QuorateError as error:
            if error.outcome_unknown:
                history.note_unknown(called, value, expected)
            else:
                history.note_refused()
            return believed
        if written_at != expected:
            message = f"{value!r} was to be at {expected} or nowhere, and is at {written_at}"
            raise Violation(message, check="not-linearizable")
        history.note_appended(called, value, expected)
        return expected + 1


def _expected(rng: random.Random, believed: int) -> int:
    if rng.random() >= _WRONG_SHARE:
        return believed
    return max(0, believed + rng.choice((-2, -1, 1)))
