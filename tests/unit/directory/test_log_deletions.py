"""Logs go on a committed decision, after a delay, and come back whole if the decision is taken back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from quorate.broker.directory.deletions import LogDeletions
from quorate.chaos.models.log.log_harness import SMALL_CONFIG, make_context, os_error
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.storage import LogDirectory, PartitionKey, StartKind

DELAY_S = 60.0
KEY = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("A" * 22))
OTHER = KEY._replace(partition=PartitionId(1))


class Deleting:
    """Two logs, and a broker that runs their deletion."""

    def __init__(self, clock: Clock, disk: SimDisk, logs: LogDirectory) -> None:
        self.clock = clock
        self.disk = disk
        self.logs = logs
        self.deleted: list[PartitionKey] = []
        self.deletions = LogDeletions(logs, clock=clock, delay_s=DELAY_S, on_deleted=self.deleted.append)

    @property
    def on_disk(self) -> list[PartitionKey]:
        return self.logs.partitions_on_disk()


def simulate(scenario: Callable[[Deleting], Awaitable[None]]) -> Deleting:
    """Until the broker stops, after the scenario."""

    async def main(simulation: Simulation) -> Deleting:
        disk = SimDisk(sync_delay_s=0.01)
        logs = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
        for key in (KEY, OTHER):
            await logs.create(key, SMALL_CONFIG)
        deleting = Deleting(simulation.clock, disk, logs)
        running = asyncio.create_task(deleting.deletions.run())
        await scenario(deleting)
        running.cancel()
        await asyncio.wait([running])
        return deleting

    return run_simulation(main, seed=1, time_limit_s=3600.0)


def test_log_goes_after_the_delay_and_not_before() -> None:
    async def scenario(deleting: Deleting) -> None:
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S - 1)
        assert deleting.on_disk == [KEY, OTHER]
        await deleting.clock.sleep(2)
        assert deleting.on_disk == [OTHER]
        assert deleting.deleted == [KEY]

    simulate(scenario)


def test_each_log_has_a_delay_of_its_own() -> None:
    async def scenario(deleting: Deleting) -> None:
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S / 2)
        deleting.deletions.delete_later(OTHER)
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S / 2 + 1)
        assert deleting.on_disk == [OTHER]
        await deleting.clock.sleep(DELAY_S / 2)
        assert deleting.on_disk == []
        assert deleting.deleted == [KEY, OTHER]

    simulate(scenario)


def test_replica_that_is_wanted_again_keeps_its_log() -> None:
    async def scenario(deleting: Deleting) -> None:
        log = deleting.logs.get(KEY)
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S - 1)
        await deleting.deletions.withdraw(KEY)
        await deleting.clock.sleep(DELAY_S)
        assert deleting.logs.get(KEY) is log
        assert deleting.on_disk == [KEY, OTHER]
        assert deleting.deleted == []

    simulate(scenario)


def test_replica_that_is_wanted_again_too_late_finds_its_log_wholly_gone() -> None:
    async def scenario(deleting: Deleting) -> None:
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S + 0.005)  # it is renamed, and its name is not synced yet
        assert deleting.deleted == []
        await deleting.deletions.withdraw(KEY)
        assert deleting.disk.list("/data") == [OTHER.directory_name]
        log = await deleting.logs.create(KEY, SMALL_CONFIG)
        await deleting.clock.sleep(2 * DELAY_S)
        assert deleting.logs.get(KEY) is log

    simulate(scenario)


def test_log_that_could_not_be_deleted_is_tried_again_and_stops_no_other() -> None:
    async def scenario(deleting: Deleting) -> None:
        deleting.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"rename"})
        deleting.deletions.delete_later(KEY)
        deleting.deletions.delete_later(OTHER)
        await deleting.clock.sleep(DELAY_S + 1)
        assert deleting.deleted == [OTHER]
        await deleting.clock.sleep(DELAY_S + 1)
        assert deleting.deleted == [OTHER, KEY]

    simulate(scenario)


def test_deletion_under_way_is_finished_when_the_broker_stops() -> None:
    async def scenario(deleting: Deleting) -> None:
        deleting.deletions.delete_later(KEY)
        await deleting.clock.sleep(DELAY_S + 0.005)

    deleting = simulate(scenario)
    assert deleting.disk.list("/data") == [OTHER.directory_name]
    assert deleting.deleted == [KEY]
