"""How long to wait before another attempt: pauses that grow, each drawn at random.

Growth spares whoever is in trouble. Randomness keeps apart those who saw the same failure: everybody notices
the death of a node at the same moment, and without it all of them would come back at the same moment, too.
"""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Backoff"]

#: An election takes a few hundred milliseconds: the first pauses are short, to notice its end soon. The
#: longest add to every fail-over that takes longer, and a thousand clients that ask so often are bearable.
_FIRST_PAUSE_S: Final = 0.02
_PAUSE_S_MAX: Final = 0.4


class Backoff:
    """The pauses of one series of attempts. Each is drawn from the upper half of a doubling interval.

    With ``begins_at_once`` there is none before the second attempt: for those who ask somebody else then.
    """

    __slots__ = ("_before_second_s", "_first_s", "_pause_s_max", "_rng", "_upper_s", "failures")

    def __init__(
        self,
        rng: random.Random,
        *,
        first_s: float = _FIRST_PAUSE_S,
        pause_s_max: float = _PAUSE_S_MAX,
        begins_at_once: bool = False,
    ) -> None:
        assert 0 < first_s <= pause_s_max
        self._rng = rng
        self._first_s = first_s
        self._pause_s_max = pause_s_max
        self._before_second_s = 0.0 if begins_at_once else first_s
        self._upper_s = self._before_second_s
        #: attempts in a row
        self.failures = 0

    def next_s(self) -> float:
        """The pause after an attempt that failed."""
        self.failures += 1
        upper_s = self._upper_s
        self._upper_s = min(2 * upper_s, self._pause_s_max) if upper_s else self._first_s
        return self._rng.uniform(upper_s / 2, upper_s)

    def reset(self) -> None:
        """Something went well: the next trouble is a new one."""
        self.failures = 0
        self._upper_s = self._before_second_s
