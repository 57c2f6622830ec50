"""What the model-based test once found, each in as few steps as it takes."""

from __future__ import annotations

import errno
import random

import pytest

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    ProcessEnded,
    batch,
    epochs_of,
    image_of,
    os_error,
    producers_of,
    read_all,
)
from quorate.chaos.sim.disk_faults import fail_nth, fail_path
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import DiskFull, StorageError, StorageFailed
from quorate.storage import StartKind
from quorate.storage.inspect import verify
from tests.log.log_model import stamped


def fill(harness: LogHarness, *, room: int) -> None:
    harness.disk.capacity_bytes = harness.disk.used_bytes + room


def make_room(harness: LogHarness) -> None:
    harness.disk.capacity_bytes = None


async def test_batch_that_was_refused_for_want_of_room_never_comes_back() -> None:
    """The bytes that did fit are cut off, and a power loss can undo that, also after a clean stop."""
    for seed in range(100):
        harness = LogHarness()
        log = await harness.lead()
        fill(harness, room=190)
        sent = [stamped(batch(b"%d" % n), base_offset=n, leader_epoch=0) for n in range(3)]
        with pytest.raises(DiskFull):
            log.append_as_follower(b"".join(sent))
        before = image_of(log)
        assert before.batches == b"".join(sent[:2])
        make_room(harness)
        if seed % 2:
            assert await log.close()
            harness.disk.power_loss(random.Random(seed))
            assert image_of(await harness.open(StartKind.CLEAN)) == before
        else:
            log = await harness.power_loss(random.Random(seed))
            assert before.batches.startswith(read_all(log))


async def test_follower_keeps_of_a_group_what_fitted() -> None:
    harness = LogHarness()
    log = await harness.lead(9)
    sent = [stamped(batch(b"v"), base_offset=offset, leader_epoch=5 + offset) for offset in range(3)]
    fill(harness, room=190)
    with pytest.raises(DiskFull):
        log.append_as_follower(b"".join(sent))
    assert read_all(log) == b"".join(sent[:2])
    assert epochs_of(log) == [(5, 0), (6, 1)]
    make_room(harness)
    log.append_as_follower(sent[2])
    before = image_of(log)
    assert image_of(await harness.crash()) == before


async def test_damaged_snapshot_is_made_anew_before_the_batches_it_stands_for_are_deleted() -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(batch(b"v" * 300, producer=(7, 0, 0)), batch(b"v" * 300))
    (snapshot,) = harness.files(".snapshot")
    before = producers_of(log)
    assert before.keys() == {7}
    harness.disk.flip_bit(harness.path(snapshot), 400)
    log = await harness.crash()
    await log.advance_log_start(Offset(1))
    assert log.segment_count == 1
    assert producers_of(await harness.crash()) == before
    assert producers_of(await harness.power_loss(random.Random(1))) == before


async def test_snapshot_of_producers_whose_batches_are_deleted_is_on_the_device_after_a_recovery() -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(batch(b"v" * 300, producer=(7, 0, 0)))
    await log.advance_log_start(Offset(1))
    harness.append(batch(b"v" * 300))
    before = producers_of(log)
    log = await harness.crash()
    assert log.segment_count == 1
    assert producers_of(await harness.power_loss()) == before


async def test_epoch_whose_first_batch_did_not_fit_is_not_read_back_after_a_clean_stop() -> None:
    harness = LogHarness()
    log = await harness.lead(1)
    harness.append(batch())
    fill(harness, room=200)
    with pytest.raises(DiskFull):
        log.append_as_follower(stamped(batch(b"v" * 300), base_offset=1, leader_epoch=3))
    make_room(harness)
    assert epochs_of(await harness.restart()) == [(1, 0)]


async def test_leader_whose_epochs_on_disk_are_others_writes_them_anew_before_it_appends() -> None:
    harness = LogHarness()
    log = await harness.lead(1)
    fill(harness, room=200)
    with pytest.raises(DiskFull):
        log.append_as_follower(stamped(batch(b"v" * 300), base_offset=0, leader_epoch=0))
    make_room(harness)
    harness.append(batch())
    log = await harness.crash()
    assert log.damage is None
    assert epochs_of(log) == [(1, 0)]


async def test_log_start_stays_where_the_device_has_it_when_a_new_one_does_not_fit() -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(*[batch(b"%d" % number) for number in range(3)])
    harness.disk.fault_hook = fail_path("log-checkpoint", lambda: os_error(errno.ENOSPC))
    with pytest.raises(DiskFull):
        await log.advance_log_start(Offset(2))
    assert log.log_start_offset == 0
    harness.disk.fault_hook = None
    assert (await harness.crash()).log_start_offset == 0


async def test_half_finished_reset_is_no_damage_to_who_looks_at_the_files() -> None:
    harness = LogHarness()
    log = await harness.lead()
    harness.append(*[batch(b"v" * 300) for _ in range(3)])
    await log.flush()
    await log.checkpoint()
    harness.disk.fault_hook = fail_path(".log", lambda: os_error(errno.EIO), names={"unlink"})
    with pytest.raises(StorageFailed):
        await log.reset_to(Offset(1))
    harness.disk.fault_hook = None
    (report,) = verify(harness.disk, harness.directory)
    assert not report.is_damaged
    assert [problem.reason for problem in report.problems] == ["a reset to offset 1 is unfinished"]


async def test_what_is_appended_after_a_reset_that_failed_is_not_dropped_by_the_next_start() -> None:
    for number in range(1, 40):
        harness = LogHarness()
        log = await harness.lead()
        harness.append(*[batch(b"v" * 300) for _ in range(2)])
        harness.disk.fault_hook = fail_nth(number, os_error(errno.ENOSPC))
        try:
            await log.reset_to(Offset(10))
        except ProcessEnded:
            continue  # a sync failed (rule 45)
        except StorageError:
            harness.disk.fault_hook = None
        else:
            break
        end = log.log_end_offset
        try:
            log.append_as_follower(stamped(batch(b"new"), base_offset=end, leader_epoch=5))
        except StorageError:
            continue
        before = image_of(log)
        assert image_of(await harness.crash()) == before
    else:
        pytest.fail("the reset never got through")


async def test_epochs_that_a_full_disk_keeps_off_do_not_make_sound_batches_look_damaged() -> None:
    harness = LogHarness()
    log = await harness.lead(1)
    harness.append(batch())
    name = "leader-epoch-checkpoint"
    older = harness.files()[name]
    log.become_leader(LeaderEpoch(2))
    harness.append(batch())
    await log.flush()
    before = read_all(log)
    harness.disk.power_loss()
    # As if the batch had reached the device and the epoch had not.
    await harness.disk.write_file(harness.path(name), older)
    fill(harness, room=10)
    await harness.open(StartKind.LOSSY)
    assert read_all(harness.log) == before
    await harness.crash()
    assert harness.log.damage is None, harness.log.damage
    assert epochs_of(harness.log) == [(1, 0), (2, 1)]
