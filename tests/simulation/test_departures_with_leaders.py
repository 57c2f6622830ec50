"""A broker leaves many partitions in pieces while real leaders, who see it on record as well, look on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.controller import Controller
from quorate.core.ids import BrokerId
from quorate.v1 import admin_pb2

_PARTITIONS: Final = 60
_LEAVING: Final = BrokerId(1)
#: an idle follower is at the end of the leader's log, and looks in sync, for as long
_SOON_S: Final = 5.0

Scenario = Callable[[SimCluster], Awaitable[None]]


def run(monkeypatch: pytest.MonkeyPatch, scenario: Scenario, *, changes_max: int) -> None:
    """Three brokers, each in sync for all partitions. ``changes_max``: of partitions, in a piece."""
    open_controller = Controller.open

    async def open_with_small_pieces(*args: Any, **options: Any) -> Controller:
        return await open_controller(*args, partition_changes_per_batch_max=changes_max, **options)

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        async with cluster.connect() as connection:
            request = admin_pb2.CreateTopicRequest(name="t", partition_count=_PARTITIONS)
            await connection.create_topic(request)
        await cluster.until(lambda: _memberships(cluster) == _PARTITIONS)
        await asyncio.sleep(1.0)
        await scenario(cluster)

    monkeypatch.setattr(Controller, "open", open_with_small_pieces)
    run_simulation(main, seed=1, time_limit_s=600)


def _memberships(cluster: SimCluster) -> int:
    image = newest_image(cluster)
    return sum(_LEAVING in partition.isr for topic in image.topics.values() for partition in topic.partitions)


@pytest.mark.parametrize("changes_max", [4, _PARTITIONS - 1])
def test_a_broker_that_died_is_fenced(monkeypatch: pytest.MonkeyPatch, changes_max: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.broker(_LEAVING).kill()
        await cluster.until(lambda: newest_image(cluster).brokers[_LEAVING].is_fenced, within_s=_SOON_S)
        assert _memberships(cluster) == 0

    run(monkeypatch, scenario, changes_max=changes_max)


def test_a_broker_that_died_can_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: SimCluster) -> None:
        broker = cluster.broker(_LEAVING)
        broker.kill()
        broker.start()
        await cluster.until(
            lambda: broker.is_ready and _memberships(cluster) == _PARTITIONS, within_s=_SOON_S
        )

    run(monkeypatch, scenario, changes_max=4)


@pytest.mark.parametrize("changes_max", [4, _PARTITIONS - 1])
def test_a_broker_that_stops_is_let_go(monkeypatch: pytest.MonkeyPatch, changes_max: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        stopping = asyncio.create_task(cluster.broker(_LEAVING).stop())
        await cluster.until(stopping.done, within_s=_SOON_S)
        broker = newest_image(cluster).brokers[_LEAVING]
        assert broker.is_fenced
        assert broker.is_shutting_down, "it went without the controller's leave"
        assert _memberships(cluster) == 0

    run(monkeypatch, scenario, changes_max=changes_max)
