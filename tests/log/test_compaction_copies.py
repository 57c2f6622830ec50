"""A log that was copied from a compacted one knows what it lacks, whatever becomes of its process."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from quorate.core.ids import LeaderEpoch, Offset
from quorate.storage import Compacted
from tests.log.compaction_harness import KeyedLog, compacted_config, keyed

A, B = b"a", b"b"
LACKING: Final = Compacted(Offset(20), Offset(10))


async def copying_log() -> KeyedLog:
    """Emptied, to be copied from a leader that lacks that."""
    log = KeyedLog(compacted_config(segment_bytes=100_000))
    await log.lead(1)
    log.put((A, b"1"), (B, b"1"))
    await log.log.reset_to(Offset(0), compacted=LACKING)
    log.appended.clear()
    log.log.become_leader(LeaderEpoch(2))
    return log


@pytest.mark.parametrize("is_power_lost", [False, True])
async def test_what_a_copy_lacks_is_known_before_its_first_batch(*, is_power_lost: bool) -> None:
    log = await copying_log()
    assert log.log.compacted == LACKING
    await log.die(power_loss=is_power_lost)
    assert log.log.compacted == LACKING


@pytest.mark.parametrize("is_power_lost", [False, True])
async def test_what_is_noted_later_is_on_the_device(*, is_power_lost: bool) -> None:
    log = await copying_log()
    await log.log.note_superseded(Offset(30))
    # What was told before, and comes late, takes nothing back.
    await log.log.note_superseded(Offset(25))
    await log.die(power_loss=is_power_lost)
    assert log.log.compacted == Compacted(Offset(30), Offset(10))


async def test_copy_that_is_cut_where_it_lacks_something_is_dropped() -> None:
    log = await copying_log()
    log.append(*[keyed((A, b"%d" % number)) for number in range(5)])
    await log.log.truncate_to(Offset(3))
    assert (log.log.log_end_offset, log.log.compacted) == (0, Compacted())


async def test_copy_that_is_emptied_for_another_reason_lacks_nothing() -> None:
    log = await copying_log()
    await log.log.reset_to(Offset(0))
    assert log.log.compacted == Compacted()
    await log.die(power_loss=True)
    assert log.log.compacted == Compacted()


@pytest.mark.parametrize("turns", range(20))
async def test_what_is_noted_during_a_pass_is_not_forgotten(turns: int) -> None:
    log = await copying_log()
    log.append(*[keyed((A, b"%d" % number), (B, b"x" * 100)) for number in range(30)])
    await log.seal()
    task = asyncio.ensure_future(log.compact())
    for _ in range(turns):
        await asyncio.sleep(0)
    await log.log.note_superseded(Offset(200))
    await task
    assert log.log.compacted == Compacted(Offset(200), Offset(10))
    await log.die(power_loss=True)
    assert log.log.compacted == Compacted(Offset(200), Offset(10))
    assert log.log.first_dirty_offset > 0
