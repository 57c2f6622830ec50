"""The observer's invariants of compacted topics: what may be missing from a copy, and what must be."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.invariants.broker_view import _segments_in
from quorate.chaos.invariants.compacted_log import CompactedLog
from quorate.chaos.invariants.copies import Batch, Copy, KeyedRecord, batches_in
from quorate.chaos.invariants.partition_watch import PartitionWatch
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.core.records import decode_keys, encode_values, filler, parse_header, stamped_prefix, thinned
from quorate.core.records.format import LEADER_EPOCH_END
from tests.simulation.ghost_world import ALL, GhostWorld, broken, partition_image

RETENTION_S: Final = 10.0
EPOCH: Final = LeaderEpoch(0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def record(offset: int, key: bytes, value: bytes | None) -> KeyedRecord:
    return KeyedRecord(Offset(offset), key, value)


def batch(base: int, *records: KeyedRecord, end: int | None = None, epoch: int = 0) -> Batch:
    """``end``: exclusive; else behind its last record."""
    next_offset = records[-1].offset + 1 if end is None else end
    return Batch(Offset(base), Offset(next_offset), LeaderEpoch(epoch), hash(records), records)


#: a is written twice and then deleted, b is written once
A1, A2, B1 = record(0, b"a", b"1"), record(1, b"a", b"2"), record(2, b"b", b"1")
DELETED: Final = record(3, b"a", None)
WRITTEN: Final = (batch(0, A1), batch(1, A2), batch(2, B1), batch(3, DELETED))


def copy_of(*batches: Batch) -> Copy:
    copy = Copy()
    copy.add(batches)
    return copy


def committed_log() -> tuple[CompactedLog, Clock]:
    clock = Clock()
    log = CompactedLog(now_s=clock, delete_retention_s=RETENTION_S)
    log.extend(WRITTEN, EPOCH)
    return log, clock


def complete_to(log: CompactedLog, *batches: Batch) -> int:
    copy = copy_of(*batches)
    log.compare(copy)
    return copy.complete_to


def test_a_copy_as_it_was_written_is_complete() -> None:
    log, _ = committed_log()
    assert complete_to(log, *WRITTEN) == 4
    assert complete_to(log, *WRITTEN[:2]) == 2


def test_what_something_newer_has_replaced_may_be_gone() -> None:
    log, _ = committed_log()
    assert complete_to(log, batch(0, end=2), *WRITTEN[2:]) == 4
    assert complete_to(log, batch(0, A2, end=2), *WRITTEN[2:]) == 4


def test_also_in_a_copy_that_has_not_come_to_what_replaces_it() -> None:
    log, _ = committed_log()
    assert complete_to(log, batch(0, end=2)) == 2


def test_the_last_word_on_a_key_may_not_be_gone() -> None:
    log, _ = committed_log()
    assert complete_to(log, *WRITTEN[:2], batch(2, end=3), WRITTEN[3]) == 2


def test_a_tombstone_may_be_gone_after_its_time_and_not_before() -> None:
    log, clock = committed_log()
    without = (batch(0, end=2), WRITTEN[2], batch(3, end=4))
    clock.now_s = RETENTION_S / 2
    assert complete_to(log, *without) == 3
    clock.now_s = RETENTION_S
    assert complete_to(log, *without) == 4
    assert log.resurrected is None


def test_a_tombstone_is_not_gone_while_something_of_its_key_is_left() -> None:
    log, clock = committed_log()
    clock.now_s = RETENTION_S
    assert complete_to(log, batch(0, end=1), *WRITTEN[1:3], batch(3, end=4)) == 4
    assert log.resurrected == A2


@pytest.mark.parametrize(
    "wrong",
    [
        batch(0, record(0, b"a", b"other"), end=2),
        batch(0, record(0, b"x", b"1"), end=2),
        batch(0, A2._replace(offset=Offset(0)), end=2),
        batch(0, end=2, epoch=1),
        batch(0, end=1),
    ],
    ids=["value", "key", "offset", "epoch", "gap"],
)
def test_what_is_left_is_what_was_written(wrong: Batch) -> None:
    log, _ = committed_log()
    rest = WRITTEN[2:] if wrong.next_offset == 2 else ()
    assert complete_to(log, wrong, *rest) <= 1


def test_a_batch_in_which_something_was_put_is_another_one() -> None:
    log, _ = committed_log()
    assert complete_to(log, batch(0, end=2), batch(2, B1, record(2, b"c", b"1")), WRITTEN[3]) == 2


# -- in a partition


class CompactedWorld(GhostWorld):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        log = CompactedLog(now_s=self.clock, delete_retention_s=RETENTION_S)
        self.watch = PartitionWatch("t-0", self.examined, self.clock, compacted=log)
        self.image = partition_image()
        for broker_id in ALL:
            copy = self.watch.copies[BrokerId(broker_id)] = copy_of(*WRITTEN)
            copy.durable_end = copy.log_end_offset
        self.commit_metadata()
        self.lead(1, epoch=0, high_watermark=4)
        self.follow(2, high_watermark=4)
        self.follow(3, high_watermark=4)

    def compacted(self, broker_id: int, *batches: Batch) -> None:
        copy = self.copy(broker_id)
        copy.empty(Offset(0))
        copy.add(batches)
        self.follow(broker_id, high_watermark=4)


def test_a_member_of_the_isr_may_have_compacted_its_log() -> None:
    world = CompactedWorld()
    world.compacted(2, batch(0, end=2), *WRITTEN[2:])
    world.clock.now_s = RETENTION_S
    world.compacted(3, batch(0, end=2), WRITTEN[2], batch(3, end=4))


def test_a_copy_that_has_lost_the_last_word_on_a_key_is_found() -> None:
    world = CompactedWorld()
    with broken("log-matching"):
        world.compacted(2, *WRITTEN[:2], batch(2, end=3), WRITTEN[3])


def test_a_copy_in_which_a_deleted_key_is_back_is_found() -> None:
    world = CompactedWorld()
    world.clock.now_s = RETENTION_S
    with broken("deleted-key"):
        world.compacted(2, *WRITTEN[:3], batch(3, end=4))


def test_passes_and_tombstones_that_go_are_counted() -> None:
    world = CompactedWorld()
    world.watch.log_compacted()
    world.watch.tombstones_removed()
    assert world.examined["logs compacted"] == world.examined["tombstones removed"] == 1
    assert world.examined["logs of offsets compacted"] == 0


# -- reading


def _written(base: int, *pairs: tuple[bytes, bytes | None]) -> bytes:
    encoded = encode_values([value for _, value in pairs], keys=[key for key, _ in pairs], timestamp_ms=1)
    prefix = stamped_prefix(parse_header(encoded), base_offset=Offset(base), leader_epoch=EPOCH)
    return bytes(prefix) + encoded[LEADER_EPOCH_END:]


def test_records_of_compacted_batches_are_read_at_their_offsets() -> None:
    whole = _written(5, (b"a", b"1"), (b"b", b"1"), (b"a", None))
    assert len(decode_keys(whole)) == 3
    left = bytes(thinned(parse_header(whole), whole, [False, True, True]))
    empty = filler(base_offset=Offset(8), last_offset=Offset(11), leader_epoch=EPOCH, max_timestamp=1)
    found = list(batches_in(left + empty, is_sound=False, is_compacted=True))
    assert [(each.base_offset, each.next_offset) for each in found] == [(5, 8), (8, 12)]
    assert found[0].records == (record(6, b"b", b"1"), record(7, b"a", None))
    assert found[1].records == ()
    assert not any(each.records for each in batches_in(whole, is_sound=True))


def test_a_batch_that_has_rotted_is_the_same_until_somebody_reads_it() -> None:
    """Whoever reads what a process has written does not look at checksums, and comes upon it."""
    rotten = bytearray(_written(5, (b"a", b"1")))
    [sound] = batches_in(bytes(rotten), is_sound=True, is_compacted=True)
    rotten[-1] ^= 1
    [found] = batches_in(bytes(rotten), is_sound=True, is_compacted=True)
    assert (found.is_same(sound), found.records) == (True, ())
    assert list(batches_in(bytes(rotten), is_sound=False, is_compacted=True)) == []
    assert copy_of(found).has_held(sound, is_synced=False)


def test_a_cleaned_segment_is_in_the_place_of_what_it_replaces() -> None:
    files = {
        f"{0:020}.log": b"old",
        f"{4:020}.log": b"old, too",
        f"{9:020}.log": b"next",
        f"{0:020}-{9:020}.swap": b"cleaned",
        f"{9:020}-{12:020}.cleaned": b"not decided",
        f"{0:020}.index": b"index",
    }
    assert _segments_in(files) == [(0, b"cleaned"), (9, b"next")]
