"""Which offset is the newest of each key, within a bound of memory.

A key may be as long as a batch, so what is kept of it is a digest of 16 bytes. Two keys with the same digest
would pass for one, and the older record would be lost. By chance that does not happen; on purpose neither, as
BLAKE2 is no hash for which anyone can find two such keys (for Kafka's MD5 anyone can).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

__all__ = ["BYTES_PER_KEY", "OffsetMap"]

#: a digest, an offset, and their place in a dictionary, as Python keeps them
BYTES_PER_KEY: Final = 180

_DIGEST_BYTES: Final = 16


class OffsetMap:
    __slots__ = ("_keys_max", "_newest")

    def __init__(self, *, bytes_max: int) -> None:
        self._newest: dict[bytes, int] = {}
        self._keys_max = bytes_max // BYTES_PER_KEY

    def __len__(self) -> int:
        return len(self._newest)

    def has_room_for(self, count: int) -> bool:
        """For so many more keys. The first ones always find room: else nothing would ever get on."""
        return not self._newest or len(self._newest) + count <= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in ascending order."""
        self._newest[_digest(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Nothing in the map is newer than this record of the key."""
        return self._newest.get(_digest(key), offset) <= offset


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
