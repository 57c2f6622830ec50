"""Producers whose batches are deleted are remembered, whatever happens on the way (rule 49)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log import deleted_producers_story
from quorate.chaos.models.log.deleted_producers_story import MANY, _log_that_went_on
from quorate.chaos.models.log.log_harness import producers_of
from quorate.core.ids import LeaderEpoch
from quorate.storage import StartKind


@pytest.mark.parametrize("story", deleted_producers_story.__all__)
async def test_producers_of_deleted_batches_are_remembered(story: str) -> None:
    await getattr(deleted_producers_story, story)()


async def test_clean_start_reads_nothing_of_what_has_expired_and_retention_lets_go_of_it() -> None:
    harness = await _log_that_went_on(MANY)
    log = await harness.restart()
    assert log.opening_report.start is StartKind.CLEAN
    assert log.opening_report.scanned_bytes == 0
    assert log.segment_count == 2, "then it was not kept"
    assert len(producers_of(log)) == MANY
    log.become_leader(LeaderEpoch(2))
    assert await log.apply_retention(below=log.log_end_offset) == 1, "it stays for good"
    await harness.crash()
    assert len(producers_of(harness.log)) == MANY


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_what_has_expired_is_not_in_the_way_of_a_start_on_a_full_disk(is_damaged: bool) -> None:
    """There is no room for its producers: whole it stays and tells of them, damaged it goes."""
    harness = await _log_that_went_on(MANY)
    if is_damaged:
        harness.disk.flip_bit(harness.path(f"{0:020}.log"), 8 * 600)
    harness.disk.capacity_bytes = harness.disk.used_bytes
    log = await harness.crash()
    assert log.damage is None
    assert (log.log_start_offset, log.log_end_offset) == (MANY, MANY + 1)
    assert log.segment_count == (1 if is_damaged else 2)
    if not is_damaged:
        assert len(producers_of(log)) == MANY
        harness.disk.capacity_bytes = None
        await harness.crash()
        assert harness.log.segment_count == 1
        assert len(producers_of(harness.log)) == MANY
