"""Idempotent producers: duplicates, gaps, fencing, and state that the batches alone decide.

Rules 49 to 52.
"""

from __future__ import annotations

import asyncio
import errno
import json

import pytest

from quorate.chaos.models.log.log_checkers import (
    check_many_producers_are_remembered_while_they_may_repeat,
    check_snapshot_that_was_due_before_a_truncation,
    check_snapshot_that_would_be_due_during_a_cut,
)
from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    batch,
    image_of,
    producers_of,
    replay,
    small_config,
)
from quorate.core.ids import Offset, ProducerId
from quorate.core.records import BatchHeader, parse_header
from quorate.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    Overloaded,
    UnknownProducer,
)
from quorate.storage import log_writer, producer_snapshots, producer_state, sync_state
from quorate.storage.producer_snapshots import (
    load_snapshot,
    remove_snapshots,
    replay_producers,
    save_snapshot,
)
from quorate.storage.producer_state import BATCHES_REMEMBERED, ProducerStates
from quorate.storage.steps import run_at_once

PRODUCER = ProducerId(7)
LAST_SEQUENCE = 2**31 - 1


def header(sequence: int, *, count: int = 1, epoch: int = 0, timestamp: int = NOW_MS) -> BatchHeader:
    values = [b"v"] * count
    return parse_header(batch(*values, timestamp=timestamp, producer=(PRODUCER, epoch, sequence)))


def header_of(producer: int, sequence: int = 0) -> BatchHeader:
    return parse_header(batch(b"v", producer=(producer, 0, sequence)))


def expire(states: ProducerStates, *, now_s: float, after_s: float) -> int:
    return states.expire(now_s=now_s, wall_ms=NOW_MS, after_s=after_s)


def states_after(*headers: BatchHeader) -> ProducerStates:
    """Each batch one offset after the other, beginning at 100."""
    states, offset = ProducerStates(), Offset(100)
    for each in headers:
        states.apply(each, offset)
        offset = Offset(offset + each.last_offset_delta + 1)
    states.validate()
    return states


# -- what a leader answers


def test_unknown_producer_starts_at_sequence_zero() -> None:
    assert ProducerStates().check(header(0)) is None
    with pytest.raises(UnknownProducer):
        ProducerStates().check(header(1))


def test_next_sequence_follows_the_last_record_not_the_last_batch() -> None:
    states = states_after(header(0, count=5))
    assert states.check(header(5)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(6))


def test_each_of_the_last_five_batches_is_answered_with_its_original_place() -> None:
    states = states_after(*(header(2 * n, count=2) for n in range(7)))
    for n in range(2, 7):
        original = states.check(header(2 * n, count=2))
        assert original is not None
        assert (original.base_offset, original.last_offset) == (100 + 2 * n, 101 + 2 * n)
        assert original.max_timestamp == NOW_MS


def test_an_older_duplicate_is_never_called_out_of_order() -> None:
    """Rule 51: the client would bump its epoch and write it a second time."""
    states = states_after(*(header(n) for n in range(BATCHES_REMEMBERED + 1)))
    with pytest.raises(DuplicateSequence):
        states.check(header(0))


def test_a_batch_that_only_overlaps_a_remembered_one_is_no_duplicate_of_it() -> None:
    states = states_after(header(0, count=4), header(4, count=4))
    for overlapping in (header(0, count=3), header(1, count=3), header(4, count=5), header(7)):
        with pytest.raises(DuplicateSequence):
            states.check(overlapping)


def test_gap_is_out_of_order_and_leaves_the_state_alone() -> None:
    states = states_after(header(0))
    before = states.copy()
    with pytest.raises(OutOfOrderSequence) as caught:
        states.check(header(2))
    assert caught.value.facts["next_sequence"] == 1
    assert states == before


def test_sequence_wraps_from_the_largest_to_zero() -> None:
    states = states_after(header(LAST_SEQUENCE))
    assert states.check(header(0)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(1))


def test_batch_that_spans_the_wrap_is_followed_and_recognised() -> None:
    spanning = header(LAST_SEQUENCE - 1, count=4)  # ..., 2^31-2, 2^31-1, 0, 1
    states = states_after(spanning)
    assert states.check(header(2)) is None
    original = states.check(spanning)
    assert original is not None
    assert (original.base_sequence, original.last_sequence) == (LAST_SEQUENCE - 1, 1)


def test_behind_and_ahead_are_told_apart_across_the_wrap() -> None:
    states = states_after(*(header((LAST_SEQUENCE - 2 + n) % 2**31) for n in range(7)))  # next is 4
    with pytest.raises(DuplicateSequence):
        states.check(header(LAST_SEQUENCE - 2))
    with pytest.raises(OutOfOrderSequence):
        states.check(header(5))


def test_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    states = states_after(header(0), header(1))
    with pytest.raises(OutOfOrderSequence):
        states.check(header(2, epoch=1))
    assert states.check(header(0, epoch=1)) is None
    states.apply(header(0, epoch=1), Offset(102))
    entry = states.get(PRODUCER)
    assert entry is not None
    assert [b.base_offset for b in entry.batches] == [102]


def test_older_epoch_is_fenced_even_for_a_batch_that_was_written() -> None:
    states = states_after(header(0), header(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        states.check(header(0))


# -- keeping and forgetting


def test_undo_restores_an_entry_and_forgets_a_new_one() -> None:
    states = states_after(header(0))
    before = states.get(PRODUCER)
    states.apply(header(1), Offset(101))
    states.restore(PRODUCER, before)
    assert states == states_after(header(0))
    states.restore(PRODUCER, None)
    states.restore(PRODUCER, None)
    assert len(states) == 0


@pytest.mark.parametrize("timestamp", [-1, 0, 1 << 60])
def test_producers_expire_by_our_clock_whatever_time_their_batches_name(timestamp: int) -> None:
    """Else a producer that fills in old data is forgotten while it retries, and written twice."""
    states = states_after(header(0, timestamp=timestamp))
    assert expire(states, now_s=5, after_s=1) == 0
    assert expire(states, now_s=6, after_s=1) == 0
    states.apply(header(1, timestamp=timestamp), Offset(101))
    assert expire(states, now_s=7, after_s=1) == 0
    assert expire(states, now_s=8.001, after_s=1) == 1
    with pytest.raises(UnknownProducer):
        states.check(header(2))


def test_state_survives_json() -> None:
    states = states_after(header(LAST_SEQUENCE, count=3), header(2))
    restored = ProducerStates()
    restored.take(json.loads(json.dumps(list(states.rows()))))
    restored.validate()
    assert restored == states


# -- many producers

_HOUR_S = 3600


def known(states: ProducerStates) -> list[int]:
    return [producer for producer in range(100) if states.get(ProducerId(producer)) is not None]


@pytest.fixture
def room_for_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 8)


@pytest.mark.usefixtures("room_for_eight")
def test_no_new_producer_is_taken_where_too_many_may_still_repeat_a_batch() -> None:
    states = ProducerStates()
    for producer in range(8):
        assert states.check(header_of(producer)) is None
        states.apply(header_of(producer), Offset(producer))
    with pytest.raises(Overloaded) as refused:
        states.check(header_of(8))
    assert refused.value.retriable
    assert not refused.value.outcome_unknown
    # Those that are known go on, and are known again.
    assert states.check(header_of(3, 1)) is None
    assert states.check(header_of(0)) is not None
    assert states.check(parse_header(batch(b"v", producer=(5, 1, 0)))) is None


@pytest.mark.usefixtures("room_for_eight")
def test_of_many_producers_those_silent_for_longer_than_any_tries_go_early_the_oldest_first() -> None:
    states = ProducerStates()
    for producer in range(8):
        states.apply(header_of(producer), Offset(producer))
    states.apply(header_of(0, 1), Offset(8))
    assert expire(states, now_s=0, after_s=24 * _HOUR_S) == 0
    states.apply(header_of(1, 1), Offset(9))
    assert expire(states, now_s=_HOUR_S, after_s=24 * _HOUR_S) == 0
    assert expire(states, now_s=_HOUR_S + 1, after_s=24 * _HOUR_S) == 4
    assert known(states) == [0, 1, 6, 7]
    # Half full is not many.
    assert expire(states, now_s=3 * _HOUR_S, after_s=24 * _HOUR_S) == 0
    assert expire(states, now_s=25 * _HOUR_S + 1, after_s=24 * _HOUR_S) == 4


async def test_nobody_who_may_still_repeat_a_batch_is_forgotten_to_make_room() -> None:
    await check_many_producers_are_remembered_while_they_may_repeat()


@pytest.mark.usefixtures("room_for_eight")
def test_whoever_applies_far_too_many_keeps_the_newest_by_the_log() -> None:
    """A replay of a whole log, or a follower that does not look at its clock; all of them agree."""
    states = ProducerStates()
    for producer in range(16):
        states.apply(header_of(producer), Offset(producer))
    states.apply(header_of(2, 1), Offset(16))
    assert len(states) == 16
    states.apply(header_of(16), Offset(17))
    assert known(states) == [2, *range(10, 17)]
    assert expire(states, now_s=0, after_s=1) == 0
    assert expire(states, now_s=2, after_s=1) == 8
    states.validate()


# -- in the log


async def test_duplicate_is_answered_with_the_original_offset_and_written_once() -> None:
    harness = LogHarness()
    log = await harness.lead()
    first = log.append_as_leader(batch(b"a", b"b", producer=(7, 0, 0)), leader_epoch=log.latest_leader_epoch)
    again = log.append_as_leader(batch(b"a", b"b", producer=(7, 0, 0)), leader_epoch=log.latest_leader_epoch)
    assert again == first._replace(is_duplicate=True)
    assert log.log_end_offset == 2


@pytest.mark.parametrize("segment_bytes", [100, 100_000])
async def test_state_after_any_restart_is_the_replay_of_the_batches(segment_bytes: int) -> None:
    harness = LogHarness(small_config(segment_bytes=segment_bytes))
    await harness.lead(3)
    for n in range(8):
        harness.append(batch(b"a", producer=(7, 0, n)), batch(b"b", b"c", producer=(8, n, 0)), batch(b"d"))
    await harness.log.flush()
    expected = image_of(harness.log)
    assert expected == replay(expected.batches)
    for reopen in (harness.crash, harness.restart, harness.power_loss):
        await reopen()
        assert image_of(harness.log) == expected, reopen


async def test_silent_producers_are_forgotten_by_the_clock() -> None:
    harness = LogHarness(small_config(producer_id_expiration_ms=1000))
    log = await harness.lead()
    harness.append(batch(producer=(7, 0, 0)), batch(producer=(8, 0, 0)))
    assert log.expire_producers() == 0
    harness.clock.now_ms += 1000
    harness.append(batch(producer=(8, 0, 1)))
    assert log.expire_producers() == 0
    harness.clock.now_ms += 1
    assert log.expire_producers() == 1
    assert set(producers_of(log)) == {8}


async def test_producers_are_not_forgotten_because_the_wall_clock_jumps() -> None:
    """Else a batch that is sent again is written twice."""
    harness = LogHarness(small_config(producer_id_expiration_ms=1000))
    log = await harness.lead()
    harness.append(batch(producer=(7, 0, 0)))
    assert log.expire_producers() == 0
    harness.clock.wall_jump_ms = 1_000_000_000
    assert log.expire_producers() == 0


# -- snapshots


async def test_snapshot_of_many_producers_is_written_by_a_checkpoint_and_not_while_an_append_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "HEADERS_PER_STEP", 2)
    monkeypatch.setattr(producer_snapshots, "HEADERS_PER_STEP", 2)
    harness = LogHarness(small_config(segment_bytes=300))
    await harness.lead()
    for n in range(8):
        harness.append(batch(b"x" * 50, producer=(n, 0, 0)))
    log = harness.log
    last = log._state.active.base_offset
    assert load_snapshot(harness.disk, harness.directory, last) is None
    await log.checkpoint()
    snapshot = load_snapshot(harness.disk, harness.directory, last)
    assert snapshot is not None
    replay = replay_producers(harness.disk, harness.directory, log._state.segments, last)
    assert snapshot == run_at_once(replay)
    assert len(snapshot) == last
    expected = image_of(log)
    for reopen in (harness.crash, harness.restart, harness.power_loss):
        await reopen()
        assert image_of(harness.log) == expected, reopen


async def test_snapshot_of_many_producers_is_written_where_no_checkpoint_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All is synced before it is acknowledged, and retention has written the checkpoint already."""
    monkeypatch.setattr(log_writer, "HEADERS_PER_STEP", 2)
    harness = LogHarness(small_config(segment_bytes=300))
    log = await harness.lead()
    for n in range(8):
        harness.append(batch(b"x" * 50, producer=(n, 0, 0)))
    await log.flush()
    await log.advance_log_start(Offset(1))
    assert not log._sync_state.is_checkpoint_due
    await log.checkpoint()
    assert load_snapshot(harness.disk, harness.directory, log._state.active.base_offset) is not None


async def test_snapshot_that_was_due_before_a_cut_is_not_written_after_it() -> None:
    await check_snapshot_that_was_due_before_a_truncation()


async def test_no_snapshot_becomes_due_of_what_is_about_to_be_cut_off() -> None:
    await check_snapshot_that_would_be_due_during_a_cut()


async def test_snapshot_that_is_being_made_while_the_log_is_cut_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The maintenance of a leader that is deposed rolls its log and checkpoints it between order and cut."""
    monkeypatch.setattr(log_writer, "HEADERS_PER_STEP", 2)
    monkeypatch.setattr(producer_snapshots, "HEADERS_PER_STEP", 1)
    harness = LogHarness(small_config(segment_bytes=100_000, segment_ms=1000))
    log = await harness.lead()
    for n in range(200):
        harness.append(batch(b"v", producer=(n, 0, 0)))
    old_end = log.log_end_offset
    harness.clock.now_ms += 1000
    async with log._sync_state.files_lock:
        cut = asyncio.create_task(log.truncate_to(Offset(1)))
        await asyncio.sleep(0)
        log.roll_if_old()
        checkpoint = asyncio.create_task(log.checkpoint())
        await asyncio.sleep(0)
    await asyncio.gather(cut, checkpoint)
    assert load_snapshot(harness.disk, harness.directory, old_end) is None


async def test_snapshot_that_cannot_be_written_costs_a_longer_replay_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(log_writer, "HEADERS_PER_STEP", 2)
    monkeypatch.setattr(sync_state, "write_snapshot", full)
    harness = LogHarness(small_config(segment_bytes=300))
    await harness.lead()
    for n in range(8):
        harness.append(batch(b"x" * 50, producer=(n, 0, 0)))
    await harness.log.checkpoint()
    last = harness.log._state.active.base_offset
    assert load_snapshot(harness.disk, harness.directory, last) is None
    expected = image_of(harness.log)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_snapshot_is_taken_at_every_roll_of_the_state_before_it() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    await harness.lead()
    for n in range(6):
        harness.append(batch(b"x" * 50, producer=(7, 0, n)))
    log = harness.log
    bases = [segment.base_offset for segment in log._state.segments]
    assert len(bases) > 2
    for base in bases[1:]:
        snapshot = load_snapshot(harness.disk, harness.directory, base)
        assert snapshot is not None
        replay = replay_producers(harness.disk, harness.directory, log._state.segments, base)
        assert snapshot == run_at_once(replay)
        entry = snapshot.get(PRODUCER)
        assert entry is not None
        assert entry.batches[-1].last_offset == base - 1


async def test_damaged_snapshot_costs_a_longer_replay_and_nothing_else() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    await harness.lead()
    for n in range(6):
        harness.append(batch(b"x" * 50, producer=(7, 0, n)))
    expected = image_of(harness.log)
    for name in harness.files(".snapshot"):
        harness.disk.flip_bit(harness.path(name), 300)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_snapshots_are_removed_where_they_are_of_no_use() -> None:
    harness = LogHarness()
    await harness.open()
    disk, directory = harness.disk, harness.directory
    for offset in (3, 5, 8):
        save_snapshot(disk, directory, ProducerStates(), Offset(offset))
    remove_snapshots(disk, directory, below=Offset(5))
    assert sorted(harness.files(".snapshot")) == [f"{offset:020d}.snapshot" for offset in (5, 8)]
    remove_snapshots(disk, directory, above=Offset(5))
    assert sorted(harness.files(".snapshot")) == [f"{5:020d}.snapshot"]


async def test_a_snapshot_never_speaks_for_another_offset() -> None:
    harness = LogHarness()
    await harness.open()
    save_snapshot(harness.disk, harness.directory, states_after(header(0)), Offset(5))
    assert load_snapshot(harness.disk, harness.directory, Offset(4)) is None
    assert load_snapshot(harness.disk, harness.directory, Offset(5)) == states_after(header(0))
