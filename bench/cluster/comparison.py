"""Ours beside another system's: one row of the table, and the bar it is held to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

__all__ = ["Comparison", "Measures", "Result", "compare"]

#: What one side measured, by name; one number for each round, or several where a round has several.
Measures = Mapping[str, Sequence[float]]


class Comparison(NamedTuple):
    name: str
    unit: str
    #: the names of the measures that are compared; they differ where the sides' clients do
    ours: str
    theirs: str
    better: Literal["higher", "lower"]
    #: of the ratio ours / theirs, or of ours itself where it ``is_absolute``
    bar: float | None = None
    aim: float | None = None
    is_absolute: bool = False
    #: the side that it is held against
    against: str = "kafka"


class Result(NamedTuple):
    comparison: Comparison
    ours: float | None
    theirs: float | None

    @property
    def ratio(self) -> float | None:
        if self.ours is None or self.theirs is None:
            return None
        return self.ours / self.theirs

    @property
    def passed(self) -> bool | None:
        """None: there is no bar, or nothing to hold against it."""
        value = self.ours if self.comparison.is_absolute else self.ratio
        if value is None or self.comparison.bar is None:
            return None
        if self.comparison.better == "higher":
            return value >= self.comparison.bar
        return value <= self.comparison.bar


def compare(comparisons: Sequence[Comparison], ours: Measures, theirs: Measures) -> list[Result]:
    return [
        Result(row, _value(ours.get(row.ours), row), _value(theirs.get(row.theirs), row))
        for row in comparisons
        if row.ours in ours or row.theirs in theirs
    ]


def _value(measured: Sequence[float] | None, row: Comparison) -> float | None:
    """The median; where the bar is absolute it holds for every single one, so the worst."""
    if not measured:
        return None
    if row.is_absolute:
        return max(measured) if row.better == "lower" else min(measured)
    return statistics.median(measured)
