"""What the control's world asks of a voter, whoever implements it: stock pysyncobj, or our own core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.chaos.raft_control.connections import End
from quorate.metadata.raft.entries import Index, Term

__all__ = ["ControlVoter", "OnAcknowledged"]

OnAcknowledged: TypeAlias = Callable[[Index], None]


class ControlVoter(End, Protocol):
    """A process with a disk. ``start`` and ``crash`` take turns; the disk outlives both."""

    @property
    def is_leader(self) -> bool:
        """It is up, and believes to lead."""

    @property
    def machine(self) -> RegisterMachine:
        """The state that it serves."""

    def may_be_counted(self, index: Index, term: Term) -> bool:
        """Whether this entry is on its disk, so that a leader was right to count it."""

    def start(self) -> None: ...

    def crash(self) -> None: ...

    def propose(self, command: bytes, on_acknowledged: OnAcknowledged) -> None:
        """``on_acknowledged`` is called with the command's index, or never."""

    def compact(self) -> None:
        """Replace the beginning of the log by a snapshot, as soon as it can be done."""
