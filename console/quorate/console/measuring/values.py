"""What the records of a measurement hold."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["values_of"]

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def values_of(value_bytes: int, count: int = 1_000) -> list[bytes]:
    """Random letters, always the same ones: as compressible as what Kafka's own tool sends."""
    rng = random.Random(value_bytes)
    return [bytes(rng.choices(_LETTERS, k=value_bytes)) for _ in range(count)]
