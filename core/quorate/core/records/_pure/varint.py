"""Zigzag varints: 7 bits to a byte, least significant first, the sign in the lowest bit."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["VarintOverflow", "read_varint", "read_varlong", "varint"]

_UINT32_MAX: Final = 2**32 - 1
_UINT64_MAX: Final = 2**64 - 1
_VARINT_SHIFT_MAX: Final = 28
_VARLONG_SHIFT_MAX: Final = 63


class VarintOverflow(Exception):
    """More bytes or bits than the type has. It never leaves the codec."""


@lru_cache(maxsize=4096)
def varint(value: int) -> bytes:
    """`value`, of at most 64 bits, encoded. Deltas and lengths repeat, hence the cache."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(source: bytes, position: int) -> tuple[int, int]:
    """A signed 32-bit value and the position after it; IndexError if `source` ends before it does."""
    byte = source[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(source, position, _VARINT_SHIFT_MAX, _UINT32_MAX)


def read_varlong(source: bytes, position: int) -> tuple[int, int]:
    """A signed 64-bit value and the position after it; IndexError if `source` ends before it does."""
    byte = source[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(source, position, _VARLONG_SHIFT_MAX, _UINT64_MAX)


def _read_long(source: bytes, position: int, shift_max: int, zigzag_max: int) -> tuple[int, int]:
    zigzag = 0
    for shift in range(0, shift_max + 1, 7):
        byte = source[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise VarintOverflow
    if zigzag > zigzag_max:
        raise VarintOverflow
    return (zigzag >> 1) ^ -(zigzag & 1), position
