"""What a story has done to the files of replicas, and what their brokers have said of it since.

A broker that has noticed damage drops the log and fetches it anew, so each time that it is damaged is noticed
by itself: what is logged between one damage of a replica and the next belongs to the first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from quorate.chaos.checks.final_state import StoredDamage
from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.faults.damage import Damage

__all__ = ["WatchedDamage", "WatchedDamages"]

#: what a broker logs then: of bytes that are not what they were, and of those that are missing
_NOTICED: Final = ("log_damaged", "log_shortened")


@dataclass(slots=True)
class WatchedDamage:
    node: str
    damage: Damage
    #: what had been noticed in that directory before
    noticed_before: int
    #: it was seen to be gone before anybody could read it
    is_gone: bool = False

    @property
    def directory(self) -> str:
        """The replica's, by its name."""
        return os.path.basename(os.path.dirname(self.damage.path))


class WatchedDamages:
    def __init__(self, agent: ClusterAgent) -> None:
        self._agent = agent
        self._done: list[WatchedDamage] = []

    def add(self, node: str, damage: Damage) -> WatchedDamage:
        """It was done just now, to a node that does not run."""
        watched = WatchedDamage(node, damage, 0)
        watched.noticed_before = self._times_noticed(watched)
        self._done.append(watched)
        return watched

    def is_noticed(self, watched: WatchedDamage) -> bool:
        """For as long as nothing else is done to that replica."""
        return self._times_noticed(watched) > watched.noticed_before

    def outcomes(self) -> tuple[StoredDamage, ...]:
        outcomes = []
        #: where the next one begins, by replica
        ends: dict[tuple[str, str], int] = {}
        for each in reversed(self._done):
            key = (each.node, each.directory)
            end = ends[key] if key in ends else self._times_noticed(each)
            ends[key] = each.noticed_before
            detections = end - each.noticed_before
            outcomes.append(StoredDamage(":".join(key), str(each.damage), detections, each.is_gone))
        return tuple(reversed(outcomes))

    def _times_noticed(self, watched: WatchedDamage) -> int:
        return sum(
            self._agent.times_logged(event, node=watched.node, about=watched.directory) for event in _NOTICED
        )
