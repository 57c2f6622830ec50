"""How long the transports are compared by random calls, and which calls those are."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["CALLS", "SEEDS"]

_FIRST_SEED: Final = int(os.environ.get("QUORATE_AGREE_SEED", "0"))
_RUNS: Final = int(os.environ.get("QUORATE_AGREE_RUNS", "4"))
#: of each run
CALLS: Final = 60
SEEDS: Final = range(_FIRST_SEED, _FIRST_SEED + _RUNS)
