"""What the records of a measurement hold."""

from __future__ import annotations

import random
from itertools import cycle, islice
from typing import Final

__all__ = ["values_of"]

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTER_OF_BYTE: Final = bytes(_LETTERS[byte % len(_LETTERS)] for byte in range(256))
#: Of values that differ: making them must not take longer than sending them.
_BYTES_MAX: Final = 16 << 20


def values_of(value_bytes: int, count: int = 1_000) -> list[bytes]:
    """Random letters, always the same ones: as compressible as what Kafka's own tool sends.

    Large ones repeat.
    """
    rng = random.Random(value_bytes)
    distinct = max(1, min(count, _BYTES_MAX // value_bytes))
    made = [rng.randbytes(value_bytes).translate(_LETTER_OF_BYTE) for _ in range(distinct)]
    return list(islice(cycle(made), count))
