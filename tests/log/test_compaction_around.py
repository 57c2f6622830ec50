"""What the rest of a log has to do with compaction: followers, cuts, disks that fill or fail, maintenance."""

from __future__ import annotations

import asyncio
import errno
from typing import Final

import pytest

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    ProcessEnded,
    image_of,
    maintain,
    make_context,
    os_error,
    read_all,
    record_operations,
    replay,
    split_batches,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_nth, fail_path
from quorate.core.config import CleanupPolicy
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.records import filler, parse_header
from quorate.errors import CorruptBatch, DiskFull, LogDamaged, StorageError
from quorate.storage import Compacted, LogDirectory, PartitionKey, StartKind
from quorate.storage.batch_cleaner import RECORDS_PER_STEP
from quorate.storage.checkpoint import write_durably
from quorate.storage.compaction_checkpoint import load_compaction, save_compaction
from quorate.storage.inspect import dump_segment, verify
from tests.log.compaction_harness import KeyedLog, compacted_config, keyed, latest_by_key, records_of

A, B = b"a", b"b"
KEY: Final = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("AAAAAAAAAAAAAAAAAAAAAA"))


async def log_of(count: int, *, segment_bytes: int = 600) -> KeyedLog:
    log = KeyedLog(compacted_config(segment_bytes=segment_bytes))
    await log.lead(1)
    log.put(*[(b"%d" % (n % 3), b"%d" % n) for n in range(count)])
    await log.seal()
    return log


# -- followers


async def copy_of(leader: KeyedLog) -> LogHarness:
    """A follower that fetches everything, in many small answers."""
    follower = LogHarness(leader.harness.config, disk=SimDisk(), directory=leader.harness.directory)
    await follower.open()
    await fetch(follower, leader)
    return follower


async def fetch(follower: LogHarness, leader: KeyedLog) -> None:
    while follower.log.log_end_offset < leader.log.log_end_offset:
        read = leader.log.read(follower.log.log_end_offset, bytes_max=150)
        follower.log.append_as_follower(read.batches)


async def test_follower_copies_a_compacted_log() -> None:
    leader = await log_of(30)
    await leader.compact()
    follower = await copy_of(leader)
    assert image_of(follower.log) == image_of(leader.log)


@pytest.mark.parametrize("end", range(1, 27))
async def test_follower_that_ends_within_what_the_leader_has_compacted_goes_on(end: int) -> None:
    """The leader answers with an empty batch that begins before the follower's end."""
    leader = await log_of(30)
    follower = LogHarness(leader.harness.config, disk=SimDisk(), directory=leader.harness.directory)
    await follower.open()
    while follower.log.log_end_offset < end:
        follower.log.append_as_follower(leader.log.read(follower.log.log_end_offset, bytes_max=1).batches)
    before = read_all(follower.log)
    await leader.compact()
    await fetch(follower, leader)
    image = image_of(follower.log)
    assert image == replay(image.batches)
    assert image.batches.startswith(before)
    assert image.log_end_offset == 30
    assert latest_by_key(records_of(follower.log)) == latest_by_key(records_of(leader.log))
    await follower.crash()
    assert image_of(follower.log) == image


async def test_batch_with_records_that_begins_before_the_end_is_refused() -> None:
    """Only an empty one may be cut: records of another batch there would be another log's."""
    log = await log_of(3)
    full = bytearray(keyed((A, b"1"), (B, b"1")))
    full[:8] = (2).to_bytes(8, "big")
    full[12:16] = (1).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="3 was due"):
        log.log.append_as_follower(bytes(full))
    empty = filler(base_offset=0, last_offset=2, leader_epoch=1, max_timestamp=-1)
    with pytest.raises(CorruptBatch, match="3 was due"):
        log.log.append_as_follower(empty)
    log.check()


async def test_empty_batch_of_an_older_epoch_means_that_the_log_is_damaged() -> None:
    log = await log_of(3)
    log.log.become_leader(LeaderEpoch(4))
    log.put((A, b"1"))
    empty = filler(base_offset=2, last_offset=9, leader_epoch=2, max_timestamp=-1)
    with pytest.raises(LogDamaged, match="epoch"):
        log.log.append_as_follower(empty)


# -- cuts


async def test_log_that_is_cut_where_it_is_compacted_is_dropped() -> None:
    """Of what was removed for the sake of records behind the cut nothing would be left (rule 11)."""
    log = await log_of(30)
    await log.compact()
    await log.log.truncate_to(Offset(29))
    assert log.log.log_end_offset == 0
    assert log.log.first_dirty_offset == 0
    assert not log.harness.files("compaction-checkpoint")
    await log.die(power_loss=True)
    assert (log.log.log_start_offset, log.log.log_end_offset) == (0, 0)


async def test_log_that_is_cut_behind_what_is_compacted_is_only_cut() -> None:
    log = await log_of(30)
    await log.compact()
    log.put((A, b"1"), (A, b"2"), (A, b"3"))
    await log.log.truncate_to(Offset(31))
    del log.appended[31], log.appended[32]
    log.check()
    assert log.log.first_dirty_offset == 30
    await log.die(power_loss=True)
    log.check()


async def test_no_pass_begins_while_the_log_is_being_cut() -> None:
    """It would find the segments of before, and after the cut none of them to clean, and call them clean."""
    log = await log_of(30)
    log.put((A, b"0"))
    cut = asyncio.ensure_future(log.log.truncate_to(Offset(30)))
    await asyncio.sleep(0)
    assert log.log.is_being_cut
    report = await log.compact(below=30)
    await cut
    del log.appended[30]
    assert report is None
    assert log.log.first_dirty_offset == 0
    log.log.become_leader(LeaderEpoch(2))
    log.put((A, b"1"), (A, b"2"))
    await log.clean()
    log.check()


@pytest.mark.parametrize("turns", range(1, 40))
async def test_cut_during_a_pass_ends_it_and_nothing_true_is_lost(turns: int) -> None:
    """The newer records are gone, so the older ones have to be there, or nothing."""
    log = await log_of(30)
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.log.truncate_to(Offset(20))
    await task
    if log.log.log_end_offset:
        log.appended = {offset: record for offset, record in log.appended.items() if offset < 20}
        log.check_truth()
    else:
        log.appended.clear()
    log.log.become_leader(LeaderEpoch(2))
    log.put((A, b"1"), (A, b"2"))
    await log.clean()
    log.check()
    await log.die(power_loss=False)
    log.check()
    log.check_tidy()


@pytest.mark.parametrize("turns", range(1, 40))
async def test_reset_during_a_pass_leaves_nothing_of_it(turns: int) -> None:
    log = await log_of(30)
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.log.reset_to(Offset(0))
    await task
    log.appended.clear()
    assert log.log.compacted.superseded_below == 0
    left_over = (".cleaned", ".swap", "compaction-checkpoint")
    assert not [name for name in log.harness.files() if name.endswith(left_over)]
    log.log.become_leader(LeaderEpoch(2))
    log.put((A, b"1"), (A, b"2"))
    log.check()
    await log.die(power_loss=True)
    assert log.log.first_dirty_offset == 0


@pytest.mark.parametrize("turns", range(1, 40))
async def test_retention_during_a_pass_is_no_damage(turns: int) -> None:
    log = await log_of(30)
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.log.advance_log_start(Offset(12))
    await task
    assert log.log.damage is None
    assert log.harness.context.storage_error is None
    log.log.validate()
    read_all(log.log)
    await log.compact()
    assert latest_by_key(records_of(log.log)) == {b"0": b"27", b"1": b"28", b"2": b"29"}


@pytest.mark.parametrize("turns", range(1, 40))
async def test_segment_that_retention_deletes_while_it_is_read_is_no_damage(turns: int) -> None:
    """With its batches go their epochs: what the pass has yet to read of it looks as if it had none."""
    log = KeyedLog(compacted_config(segment_bytes=1 << 20))
    await log.lead(1)
    for _ in range(2):
        for _ in range(5):
            log.append(keyed(*[(b"%d" % (n % 50), b"x") for n in range(RECORDS_PER_STEP)]))
        await log.seal()
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.log.advance_log_start(Offset(5 * RECORDS_PER_STEP))
    await task
    assert log.log.damage is None
    assert log.harness.context.storage_error is None
    log.put((A, b"1"))
    assert await log.clean() is not None


@pytest.mark.parametrize("turns", range(1, 60, 2))
async def test_topic_that_is_deleted_while_it_is_compacted_is_no_error_of_the_disk(turns: int) -> None:
    disk = SimDisk()
    directory = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
    log = await directory.create(KEY, compacted_config())
    log.become_leader(LeaderEpoch(1))
    for n in range(50):
        log.append_as_leader(keyed((A, b"%d" % n)), leader_epoch=LeaderEpoch(1))
    await maintain(directory, below=Offset(0))
    task = asyncio.ensure_future(log.compact(below=Offset(50)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await directory.remove(KEY)
    await task
    assert directory.context.storage_error is None
    assert disk.list("/data") == []


# -- disks


async def test_full_disk_ends_a_pass_without_harm_and_a_later_one_succeeds() -> None:
    log = KeyedLog(compacted_config(segment_bytes=3_000))
    await log.lead(1)
    log.put(*[(b"%d" % n, b"1") for n in range(100)], *[(b"%d" % n, b"2") for n in range(90, 95)])
    await log.seal()
    disk = log.disk
    for room in range(0, 3_000, 200):
        disk.capacity_bytes = disk.used_bytes + room
        with pytest.raises(DiskFull):
            await log.compact()
        assert not log.harness.files(".cleaned")
        disk.capacity_bytes = None
        log.check_truth()
    assert log.harness.context.storage_error is None
    await log.compact()
    log.check()


async def test_half_of_the_room_is_left_to_appends() -> None:
    log = KeyedLog(compacted_config(segment_bytes=10_000_000, max_message_bytes=10_000_000))
    await log.lead(1)
    for n in range(40):
        log.append(keyed((b"%d" % n, b"x" * 100_000)))
    log.append(keyed((b"1", b"y")))
    await log.seal()
    disk = log.disk
    disk.capacity_bytes = disk.used_bytes + 6_000_000
    trace = record_operations(disk)
    with pytest.raises(DiskFull):
        await log.compact()
    written = sum(op.length for op in trace if op.name == "pwrite" and op.path.endswith(".cleaned"))
    assert 2_000_000 < written <= 3_000_000


async def test_error_of_the_disk_is_told_and_what_can_be_read_stays_true() -> None:
    names = ("open", "pwrite", "rename", "unlink", "truncate")
    for number in range(1, 200):
        log = await log_of(30)
        log.disk.fault_hook = fail_nth(number, os_error(errno.EIO), names=names)
        try:
            if await log.compact() is not None:
                assert number > 20
                return
        except StorageError:
            assert log.harness.context.storage_error is not None
        log.disk.fault_hook = None
        assert latest_by_key(records_of(log.log)) == {b"0": b"27", b"1": b"28", b"2": b"29"}
        await log.die(power_loss=False)
        log.check_truth()
        await log.clean()
        log.check()
    raise AssertionError("a pass with very many changes")


@pytest.mark.parametrize("name", ["fdatasync", "fsync_directory"])
async def test_failed_sync_ends_the_process_and_the_next_one_finds_the_truth(name: str) -> None:
    for number in range(1, 100):
        log = await log_of(30)
        log.disk.fault_hook = fail_nth(number, os_error(errno.EIO), names=(name,))
        try:
            if await log.compact() is not None:
                return
        except ProcessEnded:
            pass
        await log.die(power_loss=True)
        log.check_truth()
    raise AssertionError("a pass with very many syncs")


async def test_pass_without_descriptors_is_tried_again() -> None:
    log = await log_of(30)
    log.disk.fault_hook = fail_path(".cleaned", lambda: os_error(errno.EMFILE), names=("open",))
    with pytest.raises(StorageError):
        await log.compact()
    log.disk.fault_hook = None
    await log.compact()
    log.check()


async def test_the_checkpoint_of_compaction_keeps_its_form_on_the_device() -> None:
    disk, state = SimDisk(), {"first_dirty_offset": 5, "superseded_below": 9, "tombstones_removed_below": 3}
    disk.make_directory("/log")
    await write_durably(disk, "/log/compaction-checkpoint", state | {"horizons": [[4, 1000], [5, 2000]]})

    known = await load_compaction(disk, "/log", log_end_offset=Offset(9))
    assert (known.first_dirty_offset, known.compacted) == (5, Compacted(Offset(9), Offset(3)))
    assert known.horizons == ((4, 1000), (5, 2000))

    written = disk.read_file("/log/compaction-checkpoint")
    await save_compaction(disk, "/log", known)
    assert disk.read_file("/log/compaction-checkpoint") == written


async def test_damaged_checkpoint_of_compaction_is_no_loss() -> None:
    log = await log_of(30)
    await log.compact()
    assert await log.log.close()
    log.disk.flip_bit(log.harness.path("compaction-checkpoint"), 8 * 50)
    (report,) = verify(log.disk, log.harness.directory)
    assert [problem.kind.value for problem in report.problems] == ["rebuildable"]
    await log.open(StartKind.CLEAN)
    assert log.log.first_dirty_offset == 0
    log.check_truth()
    # For the sake of what something is missing, nobody knows, until somebody says that all of it is here.
    assert log.log.compacted.is_unknown
    log.log.become_leader(LeaderEpoch(2))
    log.put((A, b"1"))
    await log.clean()
    log.check()
    assert log.log.compacted.is_unknown
    log.log.note_complete()
    assert log.log.compacted == Compacted(Offset(31), Offset(30))
    log.put((A, b"2"))
    log.log.note_complete()
    assert log.log.compacted == Compacted(Offset(31), Offset(30))
    await log.clean()
    await log.die(power_loss=True)
    assert log.log.compacted == Compacted(Offset(32), Offset(30))
    log.check()


@pytest.mark.parametrize(
    ("cut_at", "is_complete", "end"),
    [(12, False, 0), (30, False, 0), (33, False, 33), (30, True, 30), (31, True, 31), (33, True, 33)],
)
async def test_cut_of_a_log_that_does_not_know_what_it_lacks(
    cut_at: int, *, is_complete: bool, end: int
) -> None:
    """It goes, unless its owner knows that what is cut off has replaced nothing."""
    log = await log_of(30)
    await log.compact()
    log.put(*[(A, b"never committed")] * 3)
    assert await log.log.close()
    log.disk.flip_bit(log.harness.path("compaction-checkpoint"), 8 * 50)
    await log.open(StartKind.CLEAN)
    await log.log.truncate_to(Offset(cut_at), is_complete=is_complete)
    assert log.log.log_end_offset == end
    # One that is empty lacks nothing.
    assert log.log.compacted.is_unknown is (end > 0)


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_checkpoint_of_compaction_that_is_damaged_is_damaged_for_one_start(is_full: bool) -> None:
    """What is not known of some records is not said of those that come later: copies had to begin anew."""
    log = await log_of(30)
    await log.compact()
    assert await log.log.close()
    log.disk.flip_bit(log.harness.path("compaction-checkpoint"), 8 * 50)
    if is_full:
        log.disk.capacity_bytes = log.disk.used_bytes
    await log.open(StartKind.PROCESS_CRASH)
    assert (log.log.compacted.is_unknown, log.log.compacted.tombstones_removed_below) == (True, 30)
    log.disk.capacity_bytes = None
    log.log.become_leader(LeaderEpoch(2))
    log.put((A, b"1"))
    await log.die(power_loss=False)
    assert log.log.compacted.is_unknown
    assert log.log.compacted.tombstones_removed_below == (31 if is_full else 30)
    log.check_truth()
    (report,) = verify(log.disk, log.harness.directory)
    assert report.problems == []


# -- all logs, and tools


async def test_maintenance_compacts_and_one_full_log_is_no_trouble_for_others() -> None:
    disk = SimDisk()
    directory = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
    keys = [KEY._replace(partition=PartitionId(n)) for n in range(3)]
    for key in keys:
        config = compacted_config(segment_ms=1, cleanup_policy=(CleanupPolicy.COMPACT,))
        log = await directory.create(key, config)
        log.become_leader(LeaderEpoch(1))
        for n in range(20):
            log.append_as_leader(keyed((A, b"%d" % n)), leader_epoch=LeaderEpoch(1))
    directory.context.clock.now_ms += 10  # type: ignore[attr-defined]
    disk.fault_hook = fail_path("orders-1", lambda: os_error(errno.ENOSPC), names=("pwrite",))
    await maintain(directory, below=Offset(20))
    ends = {key.partition: log.first_dirty_offset for key, log in directory}
    assert ends == {0: 20, 1: 0, 2: 20}
    disk.fault_hook = None
    await maintain(directory, below=Offset(20))
    for _, log in directory:
        assert [record.offset for record in records_of(log)] == [19]
    assert await directory.close()


async def test_tools_show_compacted_segments() -> None:
    log = await log_of(30, segment_bytes=100_000)
    await log.compact()
    (first, *_) = sorted(log.harness.files(".log"))
    dumps = list(dump_segment(log.disk, log.harness.path(first), with_records=True))
    assert all(dump.problem is None for dump in dumps)
    assert [
        (dump.header.base_offset, dump.header.last_offset, len(dump.records)) for dump in dumps if dump.header
    ] == [
        (0, 26, 0),
        (27, 27, 1),
        (28, 28, 1),
        (29, 29, 1),
    ]
    (report,) = verify(log.disk, log.harness.directory)
    assert report.problems == []
    assert (report.records, report.batches, report.log_end_offset) == (3, 4, 30)
    assert [parse_header(batch).record_count for batch in split_batches(read_all(log.log))] == [0, 1, 1, 1]


async def test_logs_are_maintained_while_one_is_compacted() -> None:
    """Those others, and that one too: a pass goes on beside retention, new segments and recovery points."""
    directory = await LogDirectory.open(make_context(SimDisk()), "/data", start=StartKind.CLEAN)
    long = await directory.create(KEY, compacted_config(cleanup_policy=(CleanupPolicy.COMPACT,)))
    short_config = compacted_config(cleanup_policy=(CleanupPolicy.DELETE,), retention_bytes=600)
    short = await directory.create(KEY._replace(partition=PartitionId(1)), short_config)
    for log in (long, short):
        log.become_leader(LeaderEpoch(1))
    for n in range(40):
        long.append_as_leader(keyed((b"%d" % (n % 3), b"%d" % n)), leader_epoch=LeaderEpoch(1))
    await long.checkpoint()
    compaction = asyncio.create_task(
        directory.compact(high_watermark_of=lambda _: Offset(40), on_damage=lambda *_: None)
    )
    rounds = 0
    while not compaction.done():
        for _ in range(20):
            short.append_as_leader(keyed((A, b"x")), leader_epoch=LeaderEpoch(1))
        long.append_as_leader(keyed((A, b"later")), leader_epoch=LeaderEpoch(1))
        begins = short.log_start_offset
        await directory.maintain(deletable_below=lambda _: short.log_end_offset, on_damage=lambda *_: None)
        assert short.log_start_offset > begins
        assert short.size_in_bytes <= 1200
        rounds += 1
        await asyncio.sleep(0)
    await compaction
    assert rounds > 1
    assert long.first_dirty_offset > 30
    assert latest_by_key(records_of(long)) == {b"0": b"39", b"1": b"37", b"2": b"38", A: b"later"}
    assert await directory.close()
