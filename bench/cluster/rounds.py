"""What was measured so far, in a file that a run adds to and the next one goes on from.

A line for each work of each side in each round, written when it is known: whatever ends a run, the machine or
its user, the next one does what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.cluster.comparison import Measures

__all__ = ["Rounds"]


class Rounds:
    def __init__(self, path: Path | None = None) -> None:
        """Without a path nothing outlives the process."""
        self._path = path
        self._found: dict[tuple[str, int, str], Mapping[str, Sequence[float]]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                side, number, work, found = json.loads(line)
                self._found[side, number, work] = found

    def has(self, side: str, number: int, work: str) -> bool:
        return (side, number, work) in self._found

    def add(self, side: str, number: int, work: str, found: Mapping[str, Sequence[float]]) -> None:
        """What was known of it before stays: a cluster that is started for other works starts once more."""
        if self.has(side, number, work):
            return
        self._found[side, number, work] = found
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps([side, number, work, found]) + "\n")

    def measures(self, sides: Iterable[str]) -> dict[str, Measures]:
        """By side and name, in the order of the rounds."""
        measured: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
        for (side, _, _), found in sorted(self._found.items(), key=lambda item: item[0][1]):
            for name, values in found.items():
                if side in measured:
                    measured[side].setdefault(name, []).extend(values)
        return dict(measured)
