"""A full disk: a node starts on it, serves what it holds, and writes again once there is room."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.sim.disk_faults import Operation, fail_nth
from quorate.core.config import TopicConfig
from quorate.errors import DiskFull, StorageFailed
from tests.unit.broker.broker_harness import DATA_DIRECTORY, World, simulate

VALUE = "x" * 1_000
CHECK_INTERVAL_S = 300


async def fill(world: World, partitions: int = 1) -> list[list[str]]:
    """Write until nothing fits any more, not even a byte; returns what was acknowledged."""
    world.disk.capacity_bytes = world.disk.used_bytes + 50_000
    acknowledged: list[list[str]] = [[] for _ in range(partitions)]
    number, refused = 0, 0
    while refused < partitions:
        partition, value = number % partitions, f"{number} {VALUE}"
        result = await world.produce(value, partition=partition)
        number += 1
        if result.HasField("error"):
            assert result.error.code == "DISK_FULL"
            refused += 1
        else:
            acknowledged[partition].append(value)
    world.disk.capacity_bytes = world.disk.used_bytes
    return acknowledged


async def one_round_of_maintenance(world: World) -> None:
    maintenance = asyncio.create_task(world.broker.maintain_forever())
    await asyncio.sleep(CHECK_INTERVAL_S + 1)
    maintenance.cancel()


def directories(world: World) -> list[str]:
    return [name for name in world.disk.list(DATA_DIRECTORY) if "." in name[1:] and "-" in name]


def test_node_starts_on_a_full_disk_and_serves_every_record() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        acknowledged = await fill(world, partitions=2)
        for _ in range(3):
            await world.crash()
            for partition in (0, 1):
                assert await world.values(partition) == acknowledged[partition]
                assert (await world.produce("no", partition=partition)).error.code == "DISK_FULL"
                description = (await world.describe()).partitions[partition]
                assert description.error.code == "DISK_FULL"
                assert not description.HasField("leader")

    simulate(scenario)


def test_writes_go_on_once_there_is_room() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        acknowledged = await fill(world, partitions=2)
        epoch = (await world.fetch()).leader_epoch
        await world.crash()
        await one_round_of_maintenance(world)
        assert (await world.produce("no")).error.code == "DISK_FULL"
        world.disk.capacity_bytes = None
        await one_round_of_maintenance(world)
        for partition in (0, 1):
            result = await world.produce("yes", partition=partition)
            assert not result.HasField("error")
            assert result.leader_epoch > epoch
        await world.crash()
        assert (await world.produce("again")).leader_epoch > result.leader_epoch
        assert await world.values() == [*acknowledged[0], "yes", "again"]
        assert (await world.describe()).partitions[0].leader == 1

    simulate(scenario)


def test_retention_frees_the_disk_that_a_start_found_full() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await fill(world)
        await world.crash()
        assert (await world.produce("no")).error.code == "DISK_FULL"
        await one_round_of_maintenance(world)
        assert (await world.describe()).partitions[0].log_start_offset > 0
        assert not (await world.produce("yes")).HasField("error")

    # Full indexes, as large segments have them: removing one makes room for a checkpoint.
    topic = TopicConfig(segment_bytes=16 << 10, retention_bytes=20_000, index_interval_bytes=64)
    simulate(scenario, topic_defaults=topic)


def test_start_without_room_for_its_epoch_takes_no_batch_in_it() -> None:
    """The next start begins the same epoch again: two batches at one offset must not share it."""

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        world.disk.capacity_bytes = world.disk.used_bytes
        epochs = []
        for _ in range(2):
            await world.crash()
            assert (await world.produce("no")).error.code == "DISK_FULL"
            epochs.append((await world.fetch()).leader_epoch)
        assert epochs[0] == epochs[1]
        world.disk.capacity_bytes = None
        await world.crash()
        await world.produce("b")
        await world.lose_power()
        assert (await world.fetch()).leader_epoch > epochs[0]

    simulate(scenario)


WRITES = ("make_directory", "pwrite", "pwritev", "truncate", "rename")


def test_creation_refused_for_want_of_room_leaves_nothing_behind() -> None:
    refusals = 0

    def refuse_at(number: int) -> bool:
        """Whether the creation got as far as the write of that number."""
        error = OSError(errno.ENOSPC, "no room")

        async def scenario(world: World) -> None:
            nonlocal refusals
            before = world.disk.open_paths
            world.disk.fault_hook = fail_nth(number, error, names=WRITES)
            try:
                await world.create_topic(partitions=3)
            except DiskFull:
                refusals += 1
                assert directories(world) == []
                assert world.disk.open_paths == before
                world.disk.fault_hook = None
                await world.create_topic(partitions=3)
            world.disk.fault_hook = None
            assert len(directories(world)) == 3
            assert not (await world.produce("a", partition=2)).HasField("error")
            await world.restart()
            assert await world.values(2) == ["a"]

        simulate(scenario)
        return error.__traceback__ is not None

    number = 1
    while refuse_at(number):
        number += 1
    assert refusals > 10


def test_creation_that_may_be_on_record_keeps_its_directories() -> None:
    async def scenario(world: World) -> None:
        renamed = False

        def fail_last_sync(operation: Operation) -> None:
            nonlocal renamed
            name, path = operation.name, operation.path
            if renamed and name == "fsync_directory":
                raise OSError(errno.ENOSPC, "no room")
            renamed = renamed or (name == "rename" and path.startswith(f"{DATA_DIRECTORY}/metadata"))

        world.disk.fault_hook = fail_last_sync
        with pytest.raises(StorageFailed):
            await world.create_topic(partitions=2)
        world.disk.fault_hook = None
        assert len(directories(world)) == 2
        await world.crash()
        assert [each.HasField("error") for each in (await world.describe()).partitions] == [False, False]

    simulate(scenario)
