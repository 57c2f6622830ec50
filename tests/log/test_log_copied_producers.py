"""Producers that were not seen when they wrote: copied or replayed, they keep nobody out for being many.

Rule 50.
"""

from __future__ import annotations

import pytest

from quorate.chaos.models.log.copied_producers_story import (
    many_who_fill_in_old_data_are_remembered_by_their_leader,
    the_newest_that_were_copied_are_remembered,
)
from quorate.chaos.models.log.log_harness import LogHarness, batch, producers_of
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import LeaderEpoch
from quorate.errors import Overloaded
from quorate.storage import producer_state

_HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def room_for_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 8)


async def a_copy_of(leader: LogHarness) -> LogHarness:
    """Made just now, by a replica that leads then."""
    copy = LogHarness(disk=SimDisk())
    copy.clock.now_ms = leader.clock.now_ms
    await copy.open()
    while copy.log.log_end_offset < leader.log.log_end_offset:
        copy.log.append_as_follower(leader.log.read(copy.log.log_end_offset, bytes_max=1 << 20).batches)
    copy.log.become_leader(LeaderEpoch(1))
    return copy


def write(harness: LogHarness, *producers: int) -> None:
    for producer in producers:
        harness.append(batch(b"v", timestamp=harness.clock.now_ms, producer=(producer, 0, 0)))


async def log_of_many_hours(producers: int) -> LogHarness:
    """A new producer every twenty minutes: never many who may repeat a batch."""
    leader = LogHarness()
    log = await leader.lead()
    for producer in range(producers):
        leader.clock.now_ms += _HOUR_MS // 3
        log.expire_producers()
        write(leader, producer)
        assert len(producers_of(log)) <= 5
    return leader


@pytest.mark.parametrize("producers", [9, 16, 17, 24, 40])
async def test_a_copy_of_a_long_log_takes_new_producers_at_once(producers: int) -> None:
    copy = await a_copy_of(await log_of_many_hours(producers))
    write(copy, 100, 101, 102)
    assert {100, 101, 102} <= set(producers_of(copy.log))


async def test_a_replay_of_a_long_log_takes_new_producers_at_once() -> None:
    harness = await log_of_many_hours(16)
    for name in harness.files(".snapshot"):
        harness.disk.unlink(harness.path(name))
    await harness.crash()
    assert len(producers_of(harness.log)) == 16
    harness.log.become_leader(LeaderEpoch(1))
    write(harness, 100)


async def test_who_wrote_lately_is_counted_by_a_copy_too() -> None:
    leader = LogHarness()
    await leader.lead()
    write(leader, *range(8))
    copy = await a_copy_of(leader)
    with pytest.raises(Overloaded):
        write(copy, 100)
    assert set(producers_of(copy.log)) == set(range(8))
    copy.clock.now_ms += _HOUR_MS + 1
    copy.log.expire_producers()
    write(copy, 100)


async def test_newcomers_are_counted_from_the_first_moment_on() -> None:
    copy = await a_copy_of(await log_of_many_hours(8))
    young = 3 + 1  # an hour has three, and one at its very beginning
    write(copy, *range(100, 100 + 8 - young))
    with pytest.raises(Overloaded):
        write(copy, 200)
    copy.log.expire_producers()
    with pytest.raises(Overloaded):
        write(copy, 200)


def test_many_who_fill_in_old_data_are_remembered_by_their_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    many_who_fill_in_old_data_are_remembered_by_their_leader()


def test_the_newest_that_were_copied_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    the_newest_that_were_copied_are_remembered()
