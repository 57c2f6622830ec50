"""Nothing but the node's log tells people why appends are refused, or why old records stay."""

from __future__ import annotations

from contextlib import suppress

import structlog

from quorate.chaos.models.log.log_checkers import check_retention_when_the_wall_clock_jumps
from quorate.chaos.models.log.log_harness import LogHarness, batch, small_config
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
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


async def test_wall_clock_that_jumps_is_told() -> None:
    with structlog.testing.capture_logs() as told:
        await check_retention_when_the_wall_clock_jumps()
    assert [(each["event"], each["by_s"]) for each in told] == [("wall_clock_jumped", 30 * 86_400)]
