"""What a drill sees of a cluster whose controllers it cannot reach: nobody published their ports."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.chaos.drills import watch
from quorate.chaos.drills.timeline import Timeline
from quorate.chaos.drills.watch import ClusterWatch
from quorate.chaos.history.history import History
from quorate.client import AsyncAdmin
from quorate.client.admin.types import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)
from quorate.errors import Unavailable

State = tuple[int | None, int, tuple[int, ...]]


class _Admin:
    """Describes a topic as it is told, one state after the other; None: nobody answers."""

    def __init__(self, *states: State | None, fenced: list[set[int]]) -> None:
        self._states = list(states)
        self._fenced = fenced
        self.is_over = asyncio.Event()

    async def describe_cluster(self) -> ClusterDescription:
        if not self._fenced:
            raise Unavailable("nobody answers")
        brokers = [
            BrokerDescription(number, 0, "", "", number in self._fenced[0], False, False, 0, 0)
            for number in (1, 2, 3)
        ]
        del self._fenced[0]
        return cast("ClusterDescription", SimpleNamespace(brokers=brokers))

    async def describe_topic(self, name: str, **_options: Any) -> TopicDescription:
        if not self._states:
            self.is_over.set()
            await asyncio.Event().wait()
        state = self._states.pop(0)
        if state is None:
            raise Unavailable("nobody answers")
        leader, leader_epoch, isr = state
        partition = PartitionDescription(
            partition=0,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            replicas=(1, 2, 3),
            isr=isr,
            elr=(),
            adding_replicas=(),
            removing_replicas=(),
            log_start_offset=0,
            high_watermark=0,
            size_bytes=0,
            is_recovering=False,
            is_sync_pending=False,
            may_lack_records=False,
            error=None,
        )
        return TopicDescription(name, "id", 3, {}, (partition,))


async def seen(
    monkeypatch: pytest.MonkeyPatch, *states: State | None, fenced: list[set[int]] | None = None
) -> list[str]:
    monkeypatch.setattr(watch, "_GLANCE_S", 0.0)
    timeline = Timeline(History(), 0.0)
    looking = ClusterWatch(timeline, frozenset({"t"}), str)
    admin = _Admin(*states, fenced=fenced or [])
    task = asyncio.create_task(looking._glance(cast("AsyncAdmin", admin)))
    await admin.is_over.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return [f"{event.kind.value} {event.what}" for event in timeline.events]


async def test_elections_and_changes_of_isrs_are_seen_in_descriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = await seen(
        monkeypatch, (1, 0, (1, 2, 3)), None, (2, 1, (2, 3)), (2, 1, (1, 2, 3)), (None, 1, (2,))
    )
    assert told == [
        "leader elected t-0: 2, epoch 1",
        "ISR shrunk t-0: without 1",
        "ISR grew t-0: with 1",
        "partition offline t-0",
        "ISR shrunk t-0: without 1, 3",
    ]


async def test_what_is_seen_first_has_not_happened_in_the_drill(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await seen(monkeypatch, (2, 5, (2,)), (2, 5, (2,))) == []


async def test_brokers_that_are_fenced_meanwhile_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    state = (1, 0, (1, 2, 3))
    told = await seen(monkeypatch, state, state, state, fenced=[{1}, {1, 2}, {2}])
    assert told == ["broker fenced 2"]
