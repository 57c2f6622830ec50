"""How a drill is to be run."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.chaos.drills.drill import Pace

__all__ = ["DrillOptions"]


@dataclass(frozen=True, slots=True)
class DrillOptions:
    seed: int
    #: At least one round is told, however little it is; a round that has begun is told to its end.
    seconds: float
    #: where the ledger and the report go
    directory: str
    #: how to see it again
    command: str
    pace: Pace = field(default_factory=Pace)
    #: of all writers with acks=all together; those who ask for less write as many
    records_per_s: float = 500.0
