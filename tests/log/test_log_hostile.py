"""What clients and callers may do without harming the log: lies in batches, and giving up half-way."""

from __future__ import annotations

import asyncio
import struct

import pytest
from crc32c import crc32c

from quorate.chaos.models.log.log_harness import NOW_MS, LogHarness, batch, read_all, small_config
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import BatchTooLarge, LogBusy
from quorate.storage import LogConfig, PartitionLog, StartKind

DAY_MS = 24 * 3600 * 1000


def with_valid_checksum(content: bytearray) -> bytes:
    struct.pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    return bytes(content)


async def test_batch_of_nonsense_records_does_not_quarantine_the_log() -> None:
    """Its checksum holds: it is what a client wrote, and the others' records are none the worse."""
    nonsense = bytearray(batch(b"x" * 20, timestamp=NOW_MS + 5))
    nonsense[61] ^= 0x7F
    harness = LogHarness()
    log = await harness.lead()
    harness.append(batch(b"good"), with_valid_checksum(nonsense), batch(b"good"))
    assert log.find_timestamp(TimestampMs(NOW_MS + 1)) == (1, NOW_MS + 5)
    assert log.damage is None
    assert len(read_all(log)) > 0


async def test_batch_that_claims_more_records_than_fit_is_refused() -> None:
    """A compressed body can claim any number; believed, it would burn offsets and segments."""
    lie = bytearray(batch(b"x" * 50))
    struct.pack_into(">h", lie, 21, 4)
    struct.pack_into(">i", lie, 23, (1 << 31) - 2)
    struct.pack_into(">i", lie, 57, (1 << 31) - 1)
    log = await LogHarness().lead()
    with pytest.raises(BatchTooLarge):
        log.append_as_leader(with_valid_checksum(lie), leader_epoch=LeaderEpoch(0))


async def roll_a_segment_that_was_open_at_a_clean_stop(harness: LogHarness) -> PartitionLog:
    """Its indexes are on the device as they were at the stop, and every batch since is synced."""
    await harness.lead(1)
    harness.append(batch(b"old"))
    await harness.restart()
    harness.log.become_leader(LeaderEpoch(2))
    harness.clock.now_ms = NOW_MS + 7 * DAY_MS
    harness.append(batch(b"new", timestamp=harness.clock.now_ms))
    await harness.log.flush()
    harness.clock.now_ms += 8 * DAY_MS
    harness.log.roll_if_old()
    harness.clock.now_ms -= 8 * DAY_MS
    assert harness.log.segment_count == 2
    return harness.log


@pytest.mark.parametrize("stop", ["power loss", "clean stop, then power loss"])
async def test_an_older_index_never_comes_back_for_a_sealed_segment(stop: str) -> None:
    """It would hide the newest records from a search by time, and retention would delete them."""
    harness = LogHarness(LogConfig(index_interval_bytes=64))
    log = await roll_a_segment_that_was_open_at_a_clean_stop(harness)
    newest = TimestampMs(harness.clock.now_ms)
    if stop == "power loss":
        await log.checkpoint()
        await harness.power_loss()
    else:
        assert await log.close()
        harness.disk.power_loss()
        await harness.open(StartKind.CLEAN)
    assert harness.log.find_timestamp(newest) == (1, newest)
    assert await harness.log.apply_retention(below=Offset(2)) == 0


@pytest.mark.parametrize("operation", ["truncate_to", "reset_to"])
async def test_caller_who_gives_up_leaves_no_log_half_cut(operation: str) -> None:
    harness = LogHarness(small_config(segment_bytes=100_000))
    log = await harness.lead(1)
    harness.append(*[batch(b"old")] * 6)
    await log.flush()
    device_is_done = asyncio.Event()

    async def device_round(path: str) -> None:
        await device_is_done.wait()

    harness.disk.device_round = device_round  # type: ignore[method-assign]  # a device under control
    cut = asyncio.create_task(getattr(log, operation)(Offset(2)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cut.cancel()
    await asyncio.wait([cut])
    with pytest.raises(LogBusy):
        log.append_as_leader(batch(b"new"), leader_epoch=LeaderEpoch(1))
    device_is_done.set()
    while log.is_being_cut:  # noqa: ASYNC110  # whoever would be told has given up
        await asyncio.sleep(0)
    assert log.log_end_offset == 2
    log.become_leader(LeaderEpoch(2))
    harness.append(batch(b"new"))
    await log.flush()
    expected = read_all(log)
    await harness.power_loss()
    assert harness.log.damage is None
    assert read_all(harness.log) == expected
