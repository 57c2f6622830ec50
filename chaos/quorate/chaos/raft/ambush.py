"""Faults that wait for their moment.

A crash at a random time rarely hits the few milliseconds between a write and its sync. So some faults lie in
wait: for the next node that has just been elected, say, or that syncs a vote.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.chaos.raft.node import SimulatedNode

__all__ = ["Ambush", "Moment"]


class Moment(enum.Enum):
    ELECTED = "just elected"
    #: syncs a term or a vote
    VOTING = "syncs its vote"
    #: syncs entries that are on their way to the others
    LEADING = "syncs as leader"
    #: syncs entries that it will then acknowledge
    FOLLOWING = "syncs as follower"
    INSTALLING = "installs a snapshot"
    RECOVERED = "has just recovered from damage"


class Ambush:
    def __init__(self) -> None:
        self._springs: dict[Moment, Callable[[SimulatedNode], None]] = {}

    @property
    def is_armed(self) -> bool:
        return bool(self._springs)

    def arm(self, moment: Moment, spring: Callable[[SimulatedNode], None]) -> None:
        self._springs[moment] = spring

    def disarm(self) -> None:
        self._springs.clear()

    def passes(self, node: SimulatedNode, moment: Moment) -> None:
        """``spring`` must plan what it does: the node is in the middle of a step."""
        spring = self._springs.pop(moment, None)
        if spring is not None:
            spring(node)
