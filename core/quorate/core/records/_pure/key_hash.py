"""Kafka's hash of a key, which decides its partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.core.records import faults

__all__ = ["murmur2", "partition_for_key", "partitions_for_keys"]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash that Kafka's clients use, as an unsigned number."""
    length = len(key)
    whole = length & ~3
    state = _SEED ^ length
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The same key goes to the same partition for as long as their number does not change."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partitions_for_keys(keys: Sequence[bytes | None], partition_count: int) -> list[int]:
    """The partition of each key, -1 for a key that is None: one call for many keys."""
    partitions = []
    for row, key in enumerate(keys):
        if key is not None and not isinstance(key, bytes):
            raise faults.wrong_type("key", key, row)
        partitions.append(-1 if key is None else partition_for_key(key, partition_count))
    return partitions
