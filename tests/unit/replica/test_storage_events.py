"""Nothing but the node's log tells people why appends are refused, or why old records stay."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest
import structlog

from quorate.chaos.models.log.log_checkers import check_retention_when_the_wall_clock_jumps
from quorate.chaos.models.log.log_harness import LogHarness, batch, os_error, small_config
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.ids import LeaderEpoch
from quorate.errors import DiskFull
from quorate.storage import PartitionLog, StartKind

BATCH = batch(b"x" * 60)


async def test_full_disk_is_told_at_once_then_every_half_minute_and_when_it_is_over() -> None:
    harness = LogHarness(small_config(segment_bytes=100_000))
    harness.context.clock = clock = SteppedClock()
    log = await PartitionLog.open(
        harness.context, harness.config, harness.directory, start=StartKind.PROCESS_CRASH
    )
    log.become_leader(LeaderEpoch(1))

    def told_of(batch: bytes) -> list[tuple[str, int]]:
        with structlog.testing.capture_logs() as told, suppress(DiskFull):
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(1))
        assert all(each["log_level"] == "warning" and each["path"] == harness.directory for each in told)
        return [(each["event"], each["refused"]) for each in told]

    harness.disk.capacity_bytes = harness.disk.used_bytes + 10
    assert told_of(BATCH) == [("disk_full", 1)]
    assert told_of(BATCH) == told_of(BATCH) == []
    clock.advance(30.0)
    assert told_of(BATCH) == [("disk_full", 3)]
    harness.disk.capacity_bytes = None
    assert told_of(BATCH) == [("disk_has_room", 0)]
    assert told_of(BATCH) == []
    harness.disk.capacity_bytes = harness.disk.used_bytes + 10
    assert told_of(BATCH) == [], "full and not full by turns is told no more often"
    harness.disk.capacity_bytes = None
    assert told_of(BATCH) == []


def told_of_looking(log: PartitionLog) -> tuple[bool, list[str]]:
    with structlog.testing.capture_logs() as told:
        lacks_room = log.lacks_room()
    return lacks_room, [each["event"] for each in told]


async def full_log() -> LogHarness:
    """Full by a refusal of just now."""
    harness = LogHarness(small_config(segment_bytes=100_000, max_message_bytes=1_000))
    await harness.lead(1)
    harness.disk.capacity_bytes = harness.disk.used_bytes + 10
    with suppress(DiskFull):
        harness.append(BATCH)
    return harness


async def test_disk_that_has_room_again_is_told_of_a_log_that_nobody_writes_to() -> None:
    harness = await full_log()
    harness.clock.now_ms += 60_000
    assert told_of_looking(harness.log) == (True, [])
    harness.disk.capacity_bytes = harness.disk.used_bytes + 999
    assert told_of_looking(harness.log) == (True, []), "the largest batch would still be refused"
    harness.disk.capacity_bytes = harness.disk.used_bytes + 1_000
    assert told_of_looking(harness.log) == (False, ["disk_has_room"])
    assert told_of_looking(harness.log) == (False, [])
    end = harness.log.log_end_offset
    harness.disk.capacity_bytes = harness.disk.used_bytes + 10
    with structlog.testing.capture_logs() as told, pytest.raises(DiskFull):
        harness.append(BATCH)
    assert [each["event"] for each in told] == ["disk_full"], "what was told made nothing succeed"
    assert harness.log.log_end_offset == end
    assert told_of_looking(harness.log) == (True, [])


async def test_a_refusal_counts_for_half_a_minute_whatever_room_the_disk_claims_to_have() -> None:
    """A quota, or a want of inodes, shows in no number of bytes."""
    harness = await full_log()
    for _ in range(3):
        harness.clock.now_ms += 29_000
        assert told_of_looking(harness.log) == (True, [])
        with structlog.testing.capture_logs(), pytest.raises(DiskFull):
            harness.append(BATCH)
    harness.disk.capacity_bytes = None
    harness.clock.now_ms += 29_000
    assert told_of_looking(harness.log) == (True, [])
    harness.clock.now_ms += 1_000
    assert told_of_looking(harness.log) == (False, ["disk_has_room"])


async def test_disk_that_does_not_tell_its_room_is_as_full_as_it_was() -> None:
    harness = await full_log()
    harness.disk.capacity_bytes = None
    harness.clock.now_ms += 30_000
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"free_bytes"})
    assert told_of_looking(harness.log) == (True, [])
    assert told_of_looking(harness.log) == (False, ["disk_has_room"])


async def test_leader_whose_epoch_found_no_room_lacks_none_once_there_is_some() -> None:
    harness = await full_log()
    harness.disk.capacity_bytes = None
    harness.append(BATCH)
    assert not harness.log.lacks_room()
    harness.clock.now_ms += 30_000
    harness.disk.capacity_bytes = harness.disk.used_bytes
    harness.log.become_leader(LeaderEpoch(2))
    assert harness.log.lacks_room()
    harness.disk.capacity_bytes = None
    harness.clock.now_ms += 30_000
    assert not harness.log.lacks_room()


async def test_wall_clock_that_jumps_is_told() -> None:
    with structlog.testing.capture_logs() as told:
        await check_retention_when_the_wall_clock_jumps()
    assert [(each["event"], each["by_s"]) for each in told] == [("wall_clock_jumped", 30 * 86_400)]
