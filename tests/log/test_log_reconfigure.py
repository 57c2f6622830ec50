"""A log's settings change while it is in use."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log.log_harness import LogHarness, batch, image_of, small_config
from quorate.core.ids import Offset
from quorate.errors import BatchTooLarge

BATCH = batch(b"x" * 60)


async def test_new_segment_size_counts_from_the_next_append_on() -> None:
    harness = LogHarness(small_config(segment_bytes=100_000))
    log = await harness.lead()
    harness.append(*[BATCH] * 5)
    assert log.segment_count == 1
    log.reconfigure(small_config(segment_bytes=2 * len(BATCH)))
    harness.append(*[BATCH] * 4)
    assert log.segment_count == 3
    assert log.config.segment_bytes == 2 * len(BATCH)


async def test_new_limit_of_a_batch_counts_at_once() -> None:
    harness = LogHarness()
    log = await harness.lead()
    log.reconfigure(small_config(max_message_bytes=len(BATCH) - 1))
    with pytest.raises(BatchTooLarge):
        harness.append(BATCH)
    log.reconfigure(small_config(max_message_bytes=len(BATCH)))
    harness.append(BATCH)


async def test_new_retention_counts_at_the_next_round() -> None:
    harness = LogHarness(small_config(segment_bytes=len(BATCH)))
    log = await harness.lead()
    harness.append(*[BATCH] * 6)
    assert await log.apply_retention(below=Offset(6)) == 0
    log.reconfigure(small_config(segment_bytes=len(BATCH), retention_bytes=2 * len(BATCH)))
    assert await log.apply_retention(below=Offset(6)) == 4


async def test_density_of_an_index_may_change_within_a_segment() -> None:
    harness = LogHarness(small_config(segment_bytes=100_000, index_interval_bytes=0))
    log = await harness.lead()
    for interval in (0, 10_000, 100):
        log.reconfigure(small_config(segment_bytes=100_000, index_interval_bytes=interval))
        harness.append(*(batch(b"%d" % n) for n in range(20)))
    expected = image_of(log)
    for n in range(60):
        assert log.read(Offset(n), bytes_max=1).batches
    assert await log.close()
    await harness.open()
    assert image_of(harness.log) == expected
