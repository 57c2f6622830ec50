"""Kafka's hash of keys, and batches that get another number."""

from __future__ import annotations

from types import ModuleType

import pytest

from quorate.core.records import Compression, renumbered
from quorate.errors import InvalidRecord


# As Kafka's own tests have them, in UtilsTest.testMurmur2; there they are signed.
@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_kafkas(codec: ModuleType, key: bytes, signed_hash: int) -> None:
    assert codec.murmur2(key) == signed_hash & 0xFFFFFFFF
    assert codec.partitions_for_keys([key, None], 7) == [(signed_hash & 0x7FFFFFFF) % 7, -1]


def test_key_that_is_not_bytes_is_refused(codec: ModuleType) -> None:
    with pytest.raises(InvalidRecord):
        codec.partitions_for_keys([b"a", "b"], 7)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_renumbered_batch_is_as_if_made_with_that_number(codec: ModuleType, compression: Compression) -> None:
    def make(producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
        batch = codec.encode_values(
            [b"value"] * 50,
            timestamp_ms=5,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        assert isinstance(batch, bytes)
        return batch

    again = renumbered(make(1, 0, 77), 1, 1, 0)
    assert again == make(1, 1, 0)
    assert codec.check_batch(again).base_sequence == 0
