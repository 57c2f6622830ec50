"""What is told while a drill runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Progress", "Silence", "Status"]


@dataclass(frozen=True, slots=True)
class Status:
    """How far it is, twice a second."""

    elapsed_s: float
    total_s: float
    acknowledged: int
    #: over the last moment
    acknowledged_per_s: float
    faults: int
    elections: int


class Progress(Protocol):
    def tell(self, line: str) -> None:
        """Something has happened."""

    def update(self, status: Status) -> None: ...


class Silence:
    def tell(self, line: str) -> None:
        """To nobody."""

    def update(self, status: Status) -> None:
        """To nobody."""
