"""What was sent, what was acknowledged, and the proof that a log agrees.

A value can be computed from its partition and its number, so the ledger keeps numbers and the proof
compares whole values: a torn or altered record cannot pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Ledger", "Proof", "value_of"]


def value_of(partition: int, number: int) -> bytes:
    """Some seventy bytes that nobody would come up with by accident."""
    name = f"{partition}/{number}/"
    return name.encode() + hashlib.sha256(name.encode()).hexdigest().encode()


@dataclass(slots=True)
class Ledger:
    """One partition's history as its one producer saw it."""

    partition: int
    #: numbers below this were sent
    next_number: int = 0
    #: offset -> number, for every record whose append was acknowledged
    acknowledged: dict[int, int] = field(default_factory=dict)
    #: numbers that were sent and never answered: in the log or not, both is right
    unknown: set[int] = field(default_factory=set)
    #: numbers that were answered with "certainly not written"
    refused: set[int] = field(default_factory=set)

    def send(self, count: int) -> list[int]:
        """The next numbers; unknown until they are answered."""
        numbers = list(range(self.next_number, self.next_number + count))
        self.next_number += count
        self.unknown.update(numbers)
        return numbers

    def acknowledge(self, numbers: Sequence[int], offsets: Iterable[int]) -> None:
        self.unknown.difference_update(numbers)
        self.acknowledged.update(zip(offsets, numbers, strict=True))

    def refuse(self, numbers: Sequence[int]) -> None:
        self.unknown.difference_update(numbers)
        self.refused.update(numbers)


@dataclass(slots=True)
class Proof:
    """What comparing ledgers with logs gave."""

    records: int = 0
    #: unanswered ones that turned out to be there
    unknown_found: int = 0
    faults: list[str] = field(default_factory=list)

    def compare(self, ledger: Ledger, log: Iterable[tuple[int, bytes]]) -> None:
        """``log`` is every (offset, value) of the partition, in order."""
        where = f"partition {ledger.partition}"
        seen: set[int] = set()
        next_offset = 0
        last_number = -1
        for offset, value in log:
            self.records += 1
            if offset != next_offset:
                self.faults.append(f"{where}: offset {next_offset} is missing, {offset} follows")
            next_offset = offset + 1
            number = _number_in(value, ledger.partition)
            if number is None or not 0 <= number < ledger.next_number:
                self.faults.append(f"{where}: the record at offset {offset} was never sent: {value[:40]!r}")
                continue
            if number in seen:
                self.faults.append(f"{where}: record {number} is there twice, again at offset {offset}")
            elif number < last_number:
                self.faults.append(f"{where}: record {number} comes after {last_number}, at offset {offset}")
            seen.add(number)
            last_number = number
            self._check_offset(ledger, offset, number, where)
        for offset in sorted(ledger.acknowledged.keys() - range(next_offset)):
            self.faults.append(f"{where}: offset {offset} was acknowledged and is gone")

    def _check_offset(self, ledger: Ledger, offset: int, number: int, where: str) -> None:
        promised = ledger.acknowledged.get(offset)
        if promised is not None:
            if promised != number:
                self.faults.append(
                    f"{where}: offset {offset} was promised to record {promised}, not to {number}"
                )
        elif number in ledger.unknown:
            self.unknown_found += 1
        elif number in ledger.refused:
            self.faults.append(f"{where}: record {number} was refused, and is there, at offset {offset}")
        else:
            self.faults.append(f"{where}: record {number} is at offset {offset}, not where it was promised")


def _number_in(value: bytes, partition: int) -> int | None:
    """The number of the record with exactly this value; None if there is none."""
    parts = value.split(b"/")
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    number = int(parts[1])
    return number if value_of(partition, number) == value else None
