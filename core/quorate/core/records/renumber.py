"""Another producer's number for a batch that is made already."""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from quorate.core.records.format import ATTRIBUTES_POSITION, CRC_POSITION

__all__ = ["renumbered"]

_PRODUCER_POSITION: Final = 43
_PRODUCER: Final = Struct(">qhi")
_CRC: Final = Struct(">I")


def renumbered(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The same records under another number; neither encoded nor compressed again."""
    copy = bytearray(batch)
    _PRODUCER.pack_into(copy, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(copy, CRC_POSITION, crc32c(memoryview(copy)[ATTRIBUTES_POSITION:]))
    return bytes(copy)
