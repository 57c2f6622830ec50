"""Which partition a key belongs to: Kafka's choice, so that mixed clients agree."""

from __future__ import annotations

from typing import Final

__all__ = ["murmur2", "partition_for_key"]

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
