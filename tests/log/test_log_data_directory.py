"""A data directory: one process at a time, and the truth about how the last one ended (rules 30 and 31)."""

from __future__ import annotations

import errno
import random

import pytest

from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth, fail_path
from quorate.core.ids import BrokerEpoch, LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.limits import TOPIC_NAME_CHARACTERS_MAX
from quorate.errors import DiskFull, InvalidTopic, StorageError, StorageFailed
from quorate.storage import LogContext, LogDirectory, PartitionKey, StartKind
from tests.log.log_harness import (
    NOW_MS,
    SMALL_CONFIG,
    ManualClock,
    ProcessEnded,
    batch,
    image_of,
    make_context,
    os_error,
    record_operations,
    small_config,
)

PATH = "/var/quorate"
MARKER = f"{PATH}/clean-shutdown"
KEY = PartitionKey(TopicName("orders"), PartitionId(3), TopicId("AAAAAAAAAAAAAAAAAAAAAA"))
OTHER = KEY._replace(partition=PartitionId(4))
EPOCH = BrokerEpoch(17)


async def open_directory(
    disk: SimDisk, *, broker_epoch: int | None = None, context: LogContext | None = None
) -> LogDirectory:
    epoch = None if broker_epoch is None else BrokerEpoch(broker_epoch)
    return await LogDirectory.open(context or make_context(disk), PATH, broker_epoch=epoch)


async def open_all(directory: LogDirectory) -> None:
    async for _ in directory.open_logs(lambda key: SMALL_CONFIG):
        pass


async def disk_with_log(disk: SimDisk | None = None) -> tuple[SimDisk, LogDirectory]:
    """One log with one batch in it."""
    disk = disk or SimDisk()
    directory = await open_directory(disk)
    log = await directory.create(KEY, SMALL_CONFIG)
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


# -- the lock


async def test_data_directory_belongs_to_one_process_at_a_time() -> None:
    disk, directory = await disk_with_log()
    with pytest.raises(StorageFailed, match="another process"):
        await open_directory(disk)
    assert await directory.close(broker_epoch=EPOCH)
    await open_directory(disk)


async def test_lock_of_a_dead_process_is_free() -> None:
    disk, _ = await disk_with_log()
    disk.crash()
    await open_directory(disk)


async def test_directory_that_could_not_be_opened_is_not_held() -> None:
    disk, directory = await disk_with_log()
    assert await directory.close(broker_epoch=EPOCH)
    disk.fault_hook = fail_path("incarnation", lambda: os_error(errno.EIO))
    with pytest.raises(StorageFailed):
        await open_directory(disk)
    disk.fault_hook = None
    await open_directory(disk)


# -- how the last process ended


async def test_new_directory_starts_clean() -> None:
    assert (await open_directory(SimDisk())).start is StartKind.CLEAN


async def test_start_after_a_clean_stop_is_clean() -> None:
    disk, directory = await disk_with_log()
    assert await directory.close(broker_epoch=EPOCH)
    disk.power_loss()
    assert (await open_directory(disk, broker_epoch=17)).start is StartKind.CLEAN


async def test_marker_of_another_broker_epoch_does_not_count() -> None:
    """A directory put back from an old copy: it is clean, and old."""
    disk, directory = await disk_with_log()
    assert await directory.close(broker_epoch=EPOCH)
    copy = disk.snapshot()
    for known, expected in ((17, StartKind.CLEAN), (18, StartKind.LOSSY), (None, StartKind.CLEAN)):
        disk.restore(copy)
        assert (await open_directory(disk, broker_epoch=known)).start is expected
        disk.crash()


async def test_start_after_a_crash_of_the_process_counts_on_the_page_cache() -> None:
    disk, _ = await disk_with_log()
    disk.crash()
    directory = await open_directory(disk)
    assert directory.start is StartKind.PROCESS_CRASH
    await open_all(directory)
    log = directory.get(KEY)
    assert log is not None
    assert log.log_end_offset == 1


async def test_start_after_the_machine_went_down_is_lossy() -> None:
    disk, _ = await disk_with_log()
    disk.power_loss()
    assert (await open_directory(disk)).start is StartKind.LOSSY


async def test_partitions_without_a_note_of_the_boot_are_of_unknown_origin() -> None:
    disk, _ = await disk_with_log()
    disk.crash()
    disk.unlink(f"{PATH}/incarnation")
    assert (await open_directory(disk)).start is StartKind.LOSSY


@pytest.mark.parametrize("name", ["clean-shutdown", "incarnation"])
async def test_every_flipped_bit_of_marker_or_note_makes_the_start_lossy(name: str) -> None:
    disk, directory = await disk_with_log()
    assert await directory.close(broker_epoch=EPOCH)
    copy = disk.snapshot()
    for bit in range(8 * disk.size(f"{PATH}/{name}")):
        disk.restore(copy)
        disk.flip_bit(f"{PATH}/{name}", bit)
        assert (await open_directory(disk, broker_epoch=17)).start is StartKind.LOSSY
        disk.crash()


async def test_marker_is_gone_before_anything_else_happens() -> None:
    disk, directory = await disk_with_log()
    assert await directory.close(broker_epoch=EPOCH)
    trace = record_operations(disk)
    directory = await open_directory(disk)
    await open_all(directory)
    changes = [op for op in trace if op.name in ("unlink", "rename", "pwrite", "pwritev", "truncate")]
    assert (changes[0].name, changes[0].path) == ("unlink", MARKER)
    synced = next(op.number for op in trace if (op.name, op.path) == ("fsync_directory", PATH))
    assert synced < min(op.number for op in trace if KEY.directory_name in op.path)


@pytest.mark.parametrize("is_full", [False, True], ids=["with room", "full disk"])
async def test_marker_never_vouches_for_a_later_crash(is_full: bool) -> None:
    """Also where the start had no room for a note of its own."""
    for seed in range(20):
        disk, directory = await disk_with_log()
        assert await directory.close(broker_epoch=EPOCH)
        if is_full:
            disk.capacity_bytes = disk.used_bytes
        directory = await open_directory(disk)
        disk.capacity_bytes = None
        await open_all(directory)
        disk.power_loss(random.Random(seed))
        assert (await open_directory(disk)).start is StartKind.LOSSY


async def test_loss_of_power_is_not_forgotten_before_every_log_is_recovered() -> None:
    """A process that dies on the way is not the crash that the next start has to reckon with."""
    disk, _ = await disk_with_log()
    disk.power_loss()
    copy, first = disk.snapshot(), disk.operation_count
    directory = await open_directory(disk)
    await open_all(directory)
    steps = disk.operation_count - first
    # The last three write and rename the note itself, and sync its name.
    for number in range(1, steps - 1):
        disk.crash()
        disk.restore(copy)
        disk.fault_hook = fail_nth(number, ProcessDied())
        with pytest.raises(ProcessDied):
            await open_all(await open_directory(disk))
        disk.fault_hook = None
        disk.crash()
        assert (await open_directory(disk)).start is StartKind.LOSSY, f"operation {number} of {steps}"
    disk.crash()
    await open_all(await open_directory(disk))
    disk.crash()
    assert (await open_directory(disk)).start is StartKind.PROCESS_CRASH


async def test_no_marker_while_a_log_was_not_opened() -> None:
    disk, directory = await disk_with_log()
    await directory.abandon()
    directory = await open_directory(disk)
    assert not await directory.close(broker_epoch=EPOCH)
    assert not disk.exists(MARKER)


# -- leaving


async def test_no_marker_after_a_storage_error() -> None:
    """Whatever it was about, and although every log could be closed (rule 31)."""
    disk, directory = await disk_with_log()
    disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"pread"})
    log = directory.get(KEY)
    assert log is not None
    with pytest.raises(StorageError):
        log.read(Offset(0), bytes_max=1)
    disk.fault_hook = None
    assert not await directory.close(broker_epoch=EPOCH)
    assert not disk.exists(MARKER)


async def test_start_after_a_storage_error_is_lossy_although_only_the_process_ended() -> None:
    """What a failed sync has lost is still in the page cache, and the next sync succeeds (rule 30)."""
    disk, directory = await disk_with_log()
    disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    log = directory.get(KEY)
    assert log is not None
    with pytest.raises(ProcessEnded):
        await log.flush()
    disk.fault_hook = None
    for _ in range(2):
        disk.crash()
        directory = await open_directory(disk)
        assert directory.start is StartKind.LOSSY
    await open_all(directory)
    disk.crash()
    assert (await open_directory(disk)).start is StartKind.PROCESS_CRASH


async def test_disk_full_is_no_storage_error() -> None:
    disk, directory = await disk_with_log()
    log = directory.get(KEY)
    assert log is not None
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull):
        log.append_as_leader(batch(), leader_epoch=LeaderEpoch(1))
    disk.capacity_bytes = None
    assert await directory.close(broker_epoch=EPOCH)
    assert (await open_directory(disk)).start is StartKind.CLEAN


async def test_no_marker_when_one_log_is_damaged() -> None:
    disk, directory = await disk_with_log()
    await directory.create(OTHER, SMALL_CONFIG)
    disk.crash()
    disk.flip_bit(f"{PATH}/{KEY.directory_name}/{0:020d}.log", 300)
    directory = await open_directory(disk)
    await open_all(directory)
    assert not await directory.close(broker_epoch=EPOCH)
    assert not disk.exists(MARKER)


async def test_stop_that_fails_at_any_operation_leaves_no_marker() -> None:
    undisturbed, directory = await disk_with_log()
    first = undisturbed.operation_count
    assert await directory.close(broker_epoch=EPOCH)
    steps = undisturbed.operation_count - first
    assert steps > 10
    for number in (errno.EIO, errno.ENOSPC):
        for step in range(1, steps + 1):
            disk, directory = await disk_with_log()
            disk.fault_hook = fail_nth(step, os_error(number))
            try:
                is_clean = await directory.close(broker_epoch=EPOCH)
            except ProcessEnded:
                is_clean = False
            disk.fault_hook = None
            assert not is_clean, step
            assert not disk.exists(MARKER), step
            disk.crash()
            directory = await open_directory(disk)
            assert directory.start is not StartKind.CLEAN
            await open_all(directory)
            log = directory.get(KEY)
            assert log is not None
            assert log.log_end_offset == 1


async def test_abandoned_directory_has_no_marker_and_is_free() -> None:
    disk, directory = await disk_with_log()
    await directory.abandon()
    assert not disk.exists(MARKER)
    assert disk.open_paths == []
    assert (await open_directory(disk)).start is StartKind.PROCESS_CRASH


async def test_every_log_is_open_again_after_a_stop() -> None:
    disk, directory = await disk_with_log()
    await directory.create(OTHER, SMALL_CONFIG)
    before = {key: image_of(log) for key, log in directory}
    assert await directory.close(broker_epoch=EPOCH)
    assert disk.open_paths == []
    directory = await open_directory(disk, broker_epoch=17)
    opened = [(key, image_of(log)) async for key, log in directory.open_logs(lambda key: SMALL_CONFIG)]
    assert opened == sorted(before.items())
    assert [key for key, _ in directory] == [KEY, OTHER]


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
    await directory.maintain(lambda key: Offset(4))
    for _, log in directory:
        assert log.log_start_offset == 2
        assert log.recovery_point == 4
        assert len(log._state.producers) == 4
        log.append_as_leader(batch(b"y", producer=(3, 0, 1)), leader_epoch=LeaderEpoch(1))
    clock.now_ms += 5_001
    await directory.maintain(lambda key: Offset(4))
    for _, log in directory:
        assert len(log._state.producers) == 1


async def test_trouble_of_one_log_does_not_keep_maintenance_from_the_others() -> None:
    disk, clock = SimDisk(), ManualClock()
    directory = await open_directory(disk, context=make_context(disk, clock))
    for key in (KEY, OTHER):
        log = await directory.create(key, small_config(segment_bytes=100))
        log.become_leader(LeaderEpoch(1))
        for _ in range(3):
            log.append_as_leader(batch(b"x" * 60), leader_epoch=LeaderEpoch(1))
    disk.fault_hook = fail_path(KEY.directory_name, lambda: os_error(errno.EIO), names={"rename"})
    await directory.maintain(lambda key: Offset(0))
    other = directory.get(OTHER)
    assert other is not None
    assert b'"recovery_point":3' in disk.read_file(f"{PATH}/{OTHER.directory_name}/log-checkpoint")
