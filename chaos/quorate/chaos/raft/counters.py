"""What happened in a run.

A run in which nothing went wrong proves nothing, so the tests set floors for these.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    # what the voters went through
    steps: int = 0
    elections: int = 0
    truncations: int = 0
    snapshots_taken: int = 0
    snapshots_installed: int = 0
    voter_changes: int = 0
    transfers: int = 0
    recoveries: int = 0
    # what was done to them
    crashes: int = 0
    lost_unsynced_writes: int = 0
    damaged_tails: int = 0
    wipes: int = 0
    pauses: int = 0
    clock_changes: int = 0
    slow_disks: int = 0
    partitions: int = 0
    alarms: int = 0
    messages_sent: int = 0
    messages_cut_off: int = 0
    messages_dropped: int = 0
    messages_duplicated: int = 0
    messages_reordered: int = 0
    messages_straggling: int = 0
    # what the clients saw
    proposals_acknowledged: int = 0
    proposals_refused: int = 0
    proposals_unknown: int = 0
    reads_checked: int = 0

    @property
    def faults(self) -> int:
        return (
            self.crashes
            + self.damaged_tails
            + self.wipes
            + self.pauses
            + self.clock_changes
            + self.slow_disks
            + self.partitions
            + self.messages_cut_off
            + self.messages_dropped
            + self.messages_duplicated
            + self.messages_reordered
            + self.messages_straggling
        )

    def rows(self) -> list[tuple[str, int]]:
        """For people, in the order of declaration."""
        named = [
            (field.name.replace("_", " "), getattr(self, field.name)) for field in dataclasses.fields(self)
        ]
        return [*named, ("faults in all", self.faults)]
