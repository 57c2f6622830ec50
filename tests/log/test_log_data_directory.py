"""Every log in one directory: opening all, making one, deleting one, and what is due now and then."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    SMALL_CONFIG,
    ManualClock,
    batch,
    image_of,
    maintain,
    make_context,
    os_error,
    read_all,
    record_operations,
    small_config,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth, fail_path
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.limits import TOPIC_NAME_CHARACTERS_MAX
from quorate.errors import InvalidTopic, NotLeaderOrFollower, StorageFailed, TopicAlreadyExists
from quorate.storage import LogContext, LogDirectory, PartitionKey, PartitionLog, StartKind

PATH = "/var/quorate"
KEY = PartitionKey(TopicName("orders"), PartitionId(3), TopicId("AAAAAAAAAAAAAAAAAAAAAA"))
OTHER = KEY._replace(partition=PartitionId(4))


async def open_directory(
    disk: SimDisk, *, start: StartKind = StartKind.CLEAN, context: LogContext | None = None
) -> LogDirectory:
    return await LogDirectory.open(context or make_context(disk), PATH, start=start)


async def disk_with_log(*keys: PartitionKey) -> tuple[SimDisk, LogDirectory]:
    """One log with one batch in it, or one for each key."""
    disk = SimDisk()
    directory = await open_directory(disk)
    for key in keys or (KEY,):
        log = await directory.create(key, SMALL_CONFIG)
        log.become_leader(LeaderEpoch(1))
        log.append_as_leader(batch(b"v"), leader_epoch=LeaderEpoch(1))
    return disk, directory


# -- names


@pytest.mark.parametrize(
    "topic", ["orders", "a", "x" * TOPIC_NAME_CHARACTERS_MAX, "with-dash-7", "with.dots_and-0.more"]
)
def test_directory_name_says_topic_partition_and_topic_id(topic: str) -> None:
    key = KEY._replace(topic=TopicName(topic))
    assert PartitionKey.parse(key.directory_name) == key


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "orders-3",
        "orders-.AAAAAAAAAAAAAAAAAAAAAA",
        "orders-x.AAAAAAAAAAAAAAAAAAAAAA",
        "orders-3.short",
        "-3.AAAAAAAAAAAAAAAAAAAAAA",
        "or/ders-3.AAAAAAAAAAAAAAAAAAAAAA",
        ".lock",
    ],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert PartitionKey.parse(name) is None


@pytest.mark.parametrize("topic", ["", "a/b", "x" * 250, "ümlaut"])
async def test_partition_whose_name_could_not_be_found_again_is_not_created(topic: str) -> None:
    disk = SimDisk()
    directory = await open_directory(disk)
    with pytest.raises(InvalidTopic):
        await directory.create(KEY._replace(topic=TopicName(topic)), SMALL_CONFIG)
    assert directory.partitions_on_disk() == []


async def test_recreated_topic_is_another_log() -> None:
    _, directory = await disk_with_log()
    again = KEY._replace(topic_id=TopicId("BBBBBBBBBBBBBBBBBBBBBB"))
    log = await directory.create(again, SMALL_CONFIG)
    assert log.log_end_offset == 0
    assert directory.partitions_on_disk() == [KEY, again]
    assert directory.get(KEY) is not log
    assert dict(directory).keys() == {KEY, again}


async def test_created_partition_survives_power_loss_at_once() -> None:
    disk = SimDisk()
    directory = await open_directory(disk)
    await directory.create(KEY, SMALL_CONFIG)
    disk.power_loss()
    assert (await open_directory(disk)).partitions_on_disk() == [KEY]


# -- opening all of them


async def test_every_log_is_open_again_after_a_stop() -> None:
    disk, directory = await disk_with_log(KEY, OTHER)
    before = {key: image_of(log) for key, log in directory}
    assert await directory.close()
    assert disk.open_paths == []
    directory = await open_directory(disk)
    progress: list[tuple[int, int]] = []
    await directory.open_logs(lambda key: SMALL_CONFIG, lambda *done: progress.append(done))
    assert {key: image_of(log) for key, log in directory} == before
    assert [key for key, _ in directory] == [KEY, OTHER]
    assert progress == [(1, 2), (2, 2)]
    assert directory.failures == {}


async def test_log_that_cannot_be_opened_does_not_stop_the_others_nor_pass_for_a_clean_end() -> None:
    disk, directory = await disk_with_log(KEY, OTHER)
    disk.crash()
    disk.fault_hook = fail_path(KEY.directory_name, lambda: os_error(errno.EIO), names={"open"})
    directory = await open_directory(disk, start=StartKind.PROCESS_CRASH)
    await directory.open_logs(lambda key: SMALL_CONFIG)
    assert [key for key, _ in directory] == [OTHER]
    assert directory.failures.keys() == {KEY}
    assert isinstance(directory.failures[KEY], StorageFailed)
    disk.fault_hook = None
    assert not await directory.close()


async def test_log_that_could_not_be_opened_is_found_again_with_all_that_it_holds() -> None:
    """By whoever would make it: it is the same topic's, and opened no less strictly than at the start."""
    disk, directory = await disk_with_log()
    expected = image_of(dict(directory)[KEY])
    disk.crash()
    disk.fault_hook = fail_path(KEY.directory_name, lambda: os_error(errno.EIO), names={"open"})
    directory = await open_directory(disk, start=StartKind.LOSSY)
    await directory.open_logs(lambda key: SMALL_CONFIG)
    disk.fault_hook = None
    log = await directory.create(KEY, SMALL_CONFIG)
    assert image_of(log) == expected
    assert log.opening_report.start is StartKind.LOSSY
    assert directory.failures == {}


async def test_log_is_made_once() -> None:
    _, directory = await disk_with_log()
    with pytest.raises(TopicAlreadyExists):
        await directory.create(KEY, SMALL_CONFIG)


async def test_quarantined_log_does_not_make_the_others_doubtful() -> None:
    """Else a single node with one rotten log would start over and over as if it had lost everything."""
    disk, directory = await disk_with_log(KEY, OTHER)
    disk.crash()
    disk.flip_bit(f"{PATH}/{KEY.directory_name}/{0:020d}.log", 300)
    directory = await open_directory(disk, start=StartKind.PROCESS_CRASH)
    await directory.open_logs(lambda key: SMALL_CONFIG)
    assert dict(directory)[KEY].damage is not None
    assert await directory.close()
    directory = await open_directory(disk)
    await directory.open_logs(lambda key: SMALL_CONFIG)
    assert dict(directory)[KEY].damage is not None
    assert dict(directory)[OTHER].opening_report.start is StartKind.CLEAN


async def test_recovery_of_many_logs_lets_others_have_the_event_loop() -> None:
    """Each turn is one step of one scan, not one of every log that is being opened."""
    keys = [KEY._replace(partition=PartitionId(n)) for n in range(8)]
    config = small_config(segment_bytes=1 << 22, max_message_bytes=1 << 22)
    disk = SimDisk()
    directory = await open_directory(disk)
    for key in keys:
        log = await directory.create(key, config)
        log.become_leader(LeaderEpoch(1))
        for _ in range(3):
            log.append_as_leader(batch(b"x" * (1 << 20)), leader_epoch=LeaderEpoch(1))
    disk.crash()
    directory = await open_directory(disk, start=StartKind.PROCESS_CRASH)
    recovery = asyncio.create_task(directory.open_logs(lambda key: config))
    trace = record_operations(disk)
    large_reads: list[int] = []
    while not recovery.done():
        trace.clear()
        await asyncio.sleep(0)
        large_reads.append(sum(each.name == "pread" and each.length > 1 << 19 for each in trace))
    await recovery
    assert sum(large_reads) >= 3 * len(keys)
    assert max(large_reads) <= 2
    assert len(dict(directory)) == len(keys)


# -- deleting


async def test_removed_log_is_gone_and_its_files_with_it() -> None:
    disk, directory = await disk_with_log(KEY, OTHER)
    await directory.remove(KEY)
    assert directory.get(KEY) is None
    assert disk.list(PATH) == [OTHER.directory_name]
    assert not [path for path in disk.open_paths if KEY.directory_name in path]
    disk.power_loss()
    await open_directory(disk)
    assert disk.list(PATH) == [OTHER.directory_name]


async def test_removed_partition_may_be_made_again() -> None:
    _, directory = await disk_with_log()
    await directory.remove(KEY)
    log = await directory.create(KEY, SMALL_CONFIG)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("loses_power", [False, True], ids=["process dies", "machine dies"])
async def test_deletion_that_is_cut_short_leaves_the_log_whole_or_is_finished(loses_power: bool) -> None:
    disk, directory = await disk_with_log()
    first = disk.operation_count
    await directory.remove(KEY)
    steps = disk.operation_count - first
    assert steps > 5
    outcomes = set()
    for number in range(1, steps + 1):
        disk, directory = await disk_with_log()
        log = directory.get(KEY)
        assert log is not None
        await log.flush()
        expected = read_all(log)
        disk.fault_hook = fail_nth(number, ProcessDied())
        with pytest.raises(ProcessDied):
            await directory.remove(KEY)
        disk.fault_hook = None
        if loses_power:
            disk.power_loss()
        else:
            disk.crash()
        directory = await open_directory(disk, start=StartKind.LOSSY)
        outcomes.add(tuple(directory.partitions_on_disk()))
        if directory.partitions_on_disk():
            await directory.open_logs(lambda key: SMALL_CONFIG)
            assert read_all(dict(directory)[KEY]) == expected
        else:
            assert disk.list(PATH) == []
    assert outcomes == {(), (KEY,)}


async def test_only_what_was_renamed_for_it_is_deleted_at_a_start() -> None:
    """Whatever else lies in the directory is somebody's (rule 42)."""
    disk, _ = await disk_with_log()
    others = ["notes.gone", "quorum", f"{KEY.directory_name}.gone.gone", f"{OTHER.directory_name}-old"]
    for name in others:
        disk.make_directory(f"{PATH}/{name}")
    disk.crash()
    await open_directory(disk)
    assert disk.list(PATH) == sorted([KEY.directory_name, *others])


async def test_log_that_cannot_be_deleted_is_a_storage_error_and_may_be_tried_again() -> None:
    disk, directory = await disk_with_log()
    disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"rename"})
    with pytest.raises(StorageFailed):
        await directory.remove(KEY)
    disk.fault_hook = None
    await directory.remove(KEY)
    assert disk.list(PATH) == []


# -- maintenance


async def test_maintenance_does_what_is_due_for_every_log() -> None:
    disk, clock = SimDisk(), ManualClock()
    context = make_context(disk, clock)
    directory = await open_directory(disk, context=context)
    config = small_config(segment_bytes=100, retention_ms=10_000, producer_id_expiration_ms=5_000)
    for key in (KEY, OTHER):
        log = await directory.create(key, config)
        log.become_leader(LeaderEpoch(1))
        for n in range(4):
            log.append_as_leader(
                batch(b"x" * 60, timestamp=NOW_MS + 4000 * n, producer=(n, 0, 0)), leader_epoch=LeaderEpoch(1)
            )
    clock.now_ms = NOW_MS + 15_000
    await maintain(directory, below=Offset(4))
    for _, log in directory:
        assert log.log_start_offset == 2
        assert log.recovery_point == 4
        assert len(log._state.producers) == 4
        log.append_as_leader(batch(b"y", producer=(3, 0, 1)), leader_epoch=LeaderEpoch(1))
    clock.now_ms += 5_001
    await maintain(directory, below=Offset(4))
    for _, log in directory:
        assert len(log._state.producers) == 1


async def two_logs_to_checkpoint(disk: SimDisk) -> LogDirectory:
    directory = await open_directory(disk, context=make_context(disk, ManualClock()))
    for key in (KEY, OTHER):
        log = await directory.create(key, small_config(segment_bytes=100))
        log.become_leader(LeaderEpoch(1))
        for _ in range(3):
            log.append_as_leader(batch(b"x" * 60), leader_epoch=LeaderEpoch(1))
    return directory


async def test_trouble_of_one_log_does_not_keep_maintenance_from_the_others() -> None:
    disk = SimDisk()
    directory = await two_logs_to_checkpoint(disk)
    disk.fault_hook = fail_path(KEY.directory_name, lambda: os_error(errno.EIO), names={"rename"})
    await maintain(directory, below=Offset(0))
    other = directory.get(OTHER)
    assert other is not None
    assert b'"recovery_point":3' in disk.read_file(f"{PATH}/{OTHER.directory_name}/log-checkpoint")


@pytest.mark.parametrize("turns", range(1, 20))
async def test_cut_during_the_sync_of_a_checkpoint_does_not_end_the_maintenance(turns: int) -> None:
    disk = SimDisk()
    directory = await two_logs_to_checkpoint(disk)
    (_, log), (_, other) = directory
    maintenance = asyncio.ensure_future(maintain(directory, below=Offset(0)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.truncate_to(Offset(2))
    await maintenance
    assert log.log_end_offset == 2
    assert not directory._neglected
    for each in (log, other):
        await each.checkpoint()
        assert not each._sync_state.is_checkpoint_due
        assert each.recovery_point == each.log_end_offset


@pytest.mark.parametrize("turns", range(1, 40))
@pytest.mark.parametrize("is_syncing", [False, True])
async def test_topic_that_is_deleted_during_its_maintenance_is_no_error_of_the_disk(
    is_syncing: bool, turns: int
) -> None:
    disk = SimDisk()
    directory = await two_logs_to_checkpoint(disk)
    (_, log), (_, other) = directory
    flush = asyncio.ensure_future(log.flush() if is_syncing else asyncio.sleep(0))
    for _ in range(2):
        await asyncio.sleep(0)
    log.append_as_leader(batch(b"x" * 60), leader_epoch=LeaderEpoch(1))
    maintenance = asyncio.ensure_future(maintain(directory, below=Offset(0)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await directory.remove(KEY)
    await asyncio.gather(maintenance, flush)
    assert directory.context.storage_error is None
    assert disk.list(PATH) == [OTHER.directory_name]
    assert not other._sync_state.is_checkpoint_due


async def test_no_error_of_one_log_ends_the_maintenance_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    directory = await two_logs_to_checkpoint(disk)
    (_, log), (_, other) = directory
    checkpoint = PartitionLog.checkpoint

    async def refuse(self: PartitionLog) -> None:
        if self is log:
            raise NotLeaderOrFollower("not here")
        await checkpoint(self)

    monkeypatch.setattr(PartitionLog, "checkpoint", refuse)
    await maintain(directory, below=Offset(0))
    assert log._sync_state.is_checkpoint_due
    assert not other._sync_state.is_checkpoint_due
