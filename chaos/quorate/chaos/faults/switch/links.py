"""What is wrong between each two ends, one direction at a time. Both carriers ask here."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["CLIENTS", "Links"]

#: everybody who is not a node of the cluster
CLIENTS: Final = "clients"


@dataclass(slots=True)
class _Link:
    """From one end to another; the way back is another link."""

    is_blocked: bool = False
    delay_s: float = 0.0
    #: up to so much more or less than ``delay_s``
    jitter_s: float = 0.0
    #: 0 to 1
    loss: float = 0.0


_SOUND: Final = _Link()


class Links:
    """Sound, until told otherwise."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._links: dict[tuple[str, str], _Link] = {}

    def block(self, source: str, target: str) -> None:
        self._link(source, target).is_blocked = True

    def partition(self, sides: Collection[Collection[str]]) -> None:
        """Nobody reaches anybody on another side; who is on no side reaches all."""
        for number, side in enumerate(sides):
            for other_number, other in enumerate(sides):
                if number != other_number:
                    for source in side:
                        for target in other:
                            self.block(source, target)

    def delay(self, source: str, target: str, delay_s: float, jitter_s: float) -> None:
        link = self._link(source, target)
        link.delay_s, link.jitter_s = delay_s, jitter_s

    def lose(self, source: str, target: str, share: float) -> None:
        self._link(source, target).loss = share

    def heal(self) -> None:
        self._links.clear()

    def is_blocked(self, source: str, target: str) -> bool:
        return self._links.get((source, target), _SOUND).is_blocked

    def is_lost(self, source: str, target: str) -> bool:
        """Of one packet: decided anew for each."""
        link = self._links.get((source, target), _SOUND)
        return link.is_blocked or (link.loss > 0 and self._rng.random() < link.loss)

    def delay_s(self, source: str, target: str) -> float:
        """Of one packet."""
        link = self._links.get((source, target), _SOUND)
        if not link.delay_s and not link.jitter_s:
            return 0.0
        return max(0.0, link.delay_s + self._rng.uniform(-link.jitter_s, link.jitter_s))

    def _link(self, source: str, target: str) -> _Link:
        return self._links.setdefault((source, target), _Link())
