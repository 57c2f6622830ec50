"""Runs of batches that follow each other, as the recovery scan takes them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.unit.records.batches import TIMESTAMP as T
from tests.unit.records.batches import raw_batch, raw_record

SIZE = len(raw_batch(raw_record()))


def batch_at(base_offset: int, **fields: Any) -> bytes:
    return raw_batch(raw_record(), **{"base_offset": base_offset, "leader_epoch": 4, **fields})


def scan(codec: ModuleType, buffer: bytes, position: int = 0, **changed: int) -> Any:
    arguments = {
        "next_offset": 10,
        "end_offset": 2**63 - 1,
        "leader_epoch": 4,
        "max_timestamp": -1,
        "mark_from": 0,
        "mark_every": 1,
    }
    return codec.scan_run(buffer, position, **{**arguments, **changed})


def test_a_run_goes_to_the_end_of_what_follows_on(codec: ModuleType) -> None:
    log = batch_at(10) + batch_at(11, last_offset_delta=4) + batch_at(16)
    run = scan(codec, log)
    assert (run.end, run.next_offset, run.batch_count, run.record_count) == (3 * SIZE, 17, 3, 3)


def test_a_run_may_begin_anywhere_and_be_empty(codec: ModuleType) -> None:
    run = scan(codec, b"ab" + batch_at(10), 2)
    assert (run.end, run.batch_count) == (2 + SIZE, 1)
    assert scan(codec, b"") == (0, 10, -1, 0, 0, [], [])
    assert scan(codec, b"junk" * 30).batch_count == 0


def test_a_run_ends_before_a_gap_an_overlap_and_another_epoch(codec: ModuleType) -> None:
    for other in (batch_at(12), batch_at(10), batch_at(11, leader_epoch=5), batch_at(11, leader_epoch=3)):
        run = scan(codec, batch_at(10) + other)
        assert (run.end, run.next_offset, run.batch_count) == (SIZE, 11, 1)


def test_a_run_ends_before_what_is_torn_or_damaged(codec: ModuleType) -> None:
    good = batch_at(11)
    for other in (good[:-1], good[:30], good[:-1] + b"\x07", batch_at(11, magic=1)):
        run = scan(codec, batch_at(10) + other)
        assert (run.end, run.next_offset, run.batch_count) == (SIZE, 11, 1)


def test_a_run_ends_at_the_end_offset(codec: ModuleType) -> None:
    run = scan(codec, batch_at(10) + batch_at(11) + batch_at(12), end_offset=12)
    assert (run.end, run.next_offset) == (2 * SIZE, 12)


def test_the_largest_timestamp_is_carried_along(codec: ModuleType) -> None:
    log = batch_at(10, max_timestamp=T + 5) + batch_at(11, max_timestamp=T)
    assert scan(codec, log).max_timestamp == T + 5
    assert scan(codec, log, max_timestamp=T + 9).max_timestamp == T + 9


def test_a_batch_now_and_then_is_marked_for_the_index(codec: ModuleType) -> None:
    log = b"".join(batch_at(10 + row, max_timestamp=T - row) for row in range(6))
    marks = scan(codec, log, mark_from=1, mark_every=2 * SIZE).marks
    assert marks == [(SIZE, 11, T), (3 * SIZE, 13, T), (5 * SIZE, 15, T)]


def test_headers_of_idempotent_producers_are_kept(codec: ModuleType) -> None:
    log = batch_at(10) + batch_at(11, producer_id=77, producer_epoch=0, base_sequence=3) + batch_at(12)
    (header,) = scan(codec, log).producer_headers
    assert (header.base_offset, header.producer_id, header.base_sequence) == (11, 77, 3)
