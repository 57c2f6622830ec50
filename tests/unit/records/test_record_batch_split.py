"""Batches that lie end to end, one by one."""

from __future__ import annotations

import pytest

from quorate.core.records import decode_batch, encode_values, split_batches
from quorate.errors import CorruptBatch

BATCHES = [encode_values([b"x" * size] * size, timestamp_ms=1) for size in (1, 7, 300)]


def test_split_gives_every_batch_in_order() -> None:
    for count in range(len(BATCHES) + 1):
        assert [bytes(batch) for batch in split_batches(b"".join(BATCHES[:count]))] == BATCHES[:count]


def test_split_takes_views_and_copies_nothing() -> None:
    buffer = bytearray(b"".join(BATCHES))
    first, *_ = split_batches(memoryview(buffer))
    assert first.obj is buffer


@pytest.mark.parametrize("missing", [1, len(BATCHES[-1]) - 1])
def test_batch_that_is_cut_off_does_not_pass_for_a_whole_one(missing: int) -> None:
    cut = b"".join(BATCHES)[:-missing]
    with pytest.raises(CorruptBatch):
        [decode_batch(batch) for batch in split_batches(cut)]
