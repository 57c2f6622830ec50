"""The checkpoint of high watermarks is a lower bound, whatever has become of the logs since (rule 18)."""

from __future__ import annotations

import errno

import pytest

from quorate.broker.directory.high_watermarks import HighWatermarkCheckpoint
from quorate.chaos.models.log.log_harness import SMALL_CONFIG, HastyClock, batch, make_context, os_error
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_nth, fail_path
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.errors import StorageError, StorageFailed, TooManyOpenFiles
from quorate.storage import LogDirectory, PartitionKey, PartitionLog, StartKind

PATH = "/data"
KEY = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("A" * 22))
OTHER = KEY._replace(partition=PartitionId(1))


class Replica:
    """One log of one directory, and the checkpoint beside it."""

    def __init__(self) -> None:
        self.disk = SimDisk()

    async def open(self, start: StartKind = StartKind.CLEAN) -> HighWatermarkCheckpoint:
        self.logs = await LogDirectory.open(make_context(self.disk, HastyClock()), PATH, start=start)
        await self.logs.open_logs(lambda _: SMALL_CONFIG)
        checkpoint = HighWatermarkCheckpoint(self.disk, PATH, self.logs)
        await checkpoint.read()
        return checkpoint

    @property
    def log(self) -> PartitionLog:
        return dict(self.logs)[KEY]

    def append(self, count: int, *, epoch: int) -> None:
        self.log.become_leader(LeaderEpoch(epoch))
        for _ in range(count):
            self.log.append_as_leader(batch(), leader_epoch=LeaderEpoch(epoch))

    async def after_crash(self) -> Offset:
        """What the next process starts with."""
        self.disk.crash()
        return (await self.open(StartKind.PROCESS_CRASH)).load()[KEY]


async def replica_with(*, records: int, high_watermark: int) -> Replica:
    replica = Replica()
    checkpoint = await replica.open()
    await replica.logs.create(KEY, SMALL_CONFIG)
    replica.append(records, epoch=1)
    checkpoint.save({KEY: Offset(high_watermark)})
    return replica


async def test_high_watermark_survives_a_crash_of_the_process() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    assert await replica.after_crash() == 7


async def test_log_without_an_entry_begins_at_its_start() -> None:
    replica = await replica_with(records=3, high_watermark=3)
    await replica.logs.create(OTHER, SMALL_CONFIG)
    replica.disk.crash()
    loaded = (await replica.open(StartKind.PROCESS_CRASH)).load()
    assert loaded == {KEY: 3, OTHER: 0}


async def test_high_watermark_beyond_what_a_power_loss_left_is_forgotten() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    await replica.disk.fsync_directory(PATH)
    file = replica.disk.open(f"{PATH}/high-watermarks")
    await file.fdatasync()
    replica.disk.power_loss()
    checkpoint = await replica.open(StartKind.LOSSY)
    assert replica.log.log_end_offset == 0
    assert checkpoint.load()[KEY] == 0


async def test_high_watermark_of_a_log_that_was_fetched_anew_is_forgotten() -> None:
    """A recovery has accepted a loss: of the new leader's history nothing is known to be committed."""
    replica = await replica_with(records=10, high_watermark=7)
    await replica.log.reset_to(Offset(0))
    replica.append(9, epoch=5)
    assert await replica.after_crash() == 0


async def test_high_watermark_holds_where_the_log_was_cut_and_went_on_above_it() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    await replica.log.truncate_to(Offset(8))
    replica.append(4, epoch=2)
    assert await replica.after_crash() == 7


async def test_high_watermark_below_the_log_start_is_raised_to_it() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    await replica.log.advance_log_start(Offset(9))
    assert await replica.after_crash() == 9


async def test_damaged_checkpoint_is_none() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    size = replica.disk.size(f"{PATH}/high-watermarks")
    replica.disk.flip_bit(f"{PATH}/high-watermarks", 4 * size)
    assert await replica.after_crash() == 0


async def test_save_that_fails_is_on_record_as_a_storage_error_unless_there_was_no_room() -> None:
    replica = await replica_with(records=2, high_watermark=1)
    checkpoint = HighWatermarkCheckpoint(replica.disk, PATH, replica.logs)
    for number, is_on_record in ((errno.ENOSPC, False), (errno.EIO, True)):
        replica.disk.fault_hook = fail_nth(1, os_error(number), names={"pwrite"})
        checkpoint.save({KEY: Offset(2)})
        replica.disk.fault_hook = None
        assert (replica.logs.context.storage_error is not None) == is_on_record
    assert await replica.after_crash() == 1


@pytest.mark.parametrize(("number", "error"), [(errno.EIO, StorageFailed), (errno.EMFILE, TooManyOpenFiles)])
async def test_start_that_cannot_read_it_ends_and_leaves_the_evidence(
    number: int, error: type[StorageError]
) -> None:
    """It says whether a log has lost its end; whoever went on would write over it."""
    replica = await replica_with(records=10, high_watermark=7)
    replica.disk.crash()
    cut(replica, 0.1)
    replica.disk.fault_hook = fail_path("high-watermarks", lambda: os_error(number), names={"read_file"})
    with pytest.raises(error):
        await replica.open(StartKind.PROCESS_CRASH)
    replica.disk.fault_hook = None
    replica.disk.crash()
    assert await shortened_after_crash(replica) == [KEY]


async def test_want_of_a_descriptor_to_read_it_with_is_waited_for() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    replica.disk.fault_hook = fail_nth(1, os_error(errno.EMFILE), names={"read_file"})
    assert (await replica.open(StartKind.PROCESS_CRASH)).load()[KEY] == 7


# -- evidence of a log that lost its end (rules 30 and 44)


def cut(replica: Replica, share: float) -> None:
    segments = [name for name in replica.disk.list(replica.log.directory) if name.endswith(".log")]
    path = f"{replica.log.directory}/{segments[0]}"
    file = replica.disk.open(path)
    file.truncate(int(replica.disk.size(path) * share))
    file.close()
    for name in segments[1:]:
        replica.disk.unlink(f"{replica.log.directory}/{name}")


async def shortened_after_crash(replica: Replica) -> list[PartitionKey]:
    return (await replica.open(StartKind.PROCESS_CRASH)).find_shortened()


@pytest.mark.parametrize("start", [StartKind.CLEAN, StartKind.PROCESS_CRASH, StartKind.LOSSY])
@pytest.mark.parametrize("share", [0.0, 0.1])
async def test_log_that_ends_before_its_high_watermark_is_shortened(share: float, start: StartKind) -> None:
    """Also after a power loss: what was committed of a synced topic was on the device."""
    replica = await replica_with(records=10, high_watermark=7)
    replica.disk.crash()
    cut(replica, share)
    checkpoint = await replica.open(start)
    assert checkpoint.find_shortened() == [KEY]
    assert checkpoint.load()[KEY] == 0


async def test_log_whose_directory_is_gone_is_shortened() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    replica.disk.crash()
    for name in replica.disk.list(replica.log.directory):
        replica.disk.unlink(f"{replica.log.directory}/{name}")
    replica.disk.remove_directory(replica.log.directory)
    assert await shortened_after_crash(replica) == [KEY]


async def test_log_that_lost_nothing_below_its_high_watermark_is_not_shortened() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    await replica.log.truncate_to(Offset(7))
    replica.disk.crash()
    assert await shortened_after_crash(replica) == []


async def test_log_that_went_on_below_its_high_watermark_under_a_forced_leader_is_not_shortened() -> None:
    replica = await replica_with(records=10, high_watermark=7)
    await replica.log.truncate_to(Offset(2))
    replica.append(1, epoch=4)
    replica.disk.crash()
    assert await shortened_after_crash(replica) == []


@pytest.mark.parametrize("is_disk_full", [False, True])
async def test_shortened_log_is_told_of_until_the_controller_knows_and_not_again(is_disk_full: bool) -> None:
    """An operator may make it the leader then; the next crash must not take it out again."""
    replica = await replica_with(records=10, high_watermark=7)
    replica.disk.crash()
    cut(replica, 0.1)
    assert await shortened_after_crash(replica) == [KEY]
    replica.disk.crash()
    checkpoint = await replica.open(StartKind.PROCESS_CRASH)
    assert checkpoint.find_shortened() == [KEY]
    if is_disk_full:
        replica.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwrite"})
    checkpoint.forget_shortened()
    replica.disk.fault_hook = None
    replica.disk.crash()
    assert await shortened_after_crash(replica) == []
