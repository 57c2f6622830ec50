"""What was sent, what was acknowledged, and the proof that the log agrees.

A value can be computed from its partition and its number, so the ledger keeps numbers and the proof
compares whole values: a torn or altered record cannot pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Ledger", "Proof", "value_of"]


def value_of(partition: int, number: int) -> bytes:
    """About a hundred bytes that nobody would come up with by accident."""
    name = f"{partition}/{number}/"
    return name.encode() + hashlib.sha256(name.encode()).hexdigest().encode()


@dataclass(slots=True)
class Ledger:
    """One partition's history as its producer saw it."""

    partition: int
    #: numbers below this were sent
    next_number: int = 0
    #: offset -> number, for every record whose append was acknowledged
    acknowledged: dict[int, int] = field(default_factory=dict)
    #: numbers that were sent and never answered: in the log or not, both is right
    unknown: set[int] = field(default_factory=set)

    def send(self, count: int) -> list[int]:
        """The next numbers; unknown until they are acknowledged."""
        numbers = list(range(self.next_number, self.next_number + count))
        self.next_number += count
        self.unknown.update(numbers)
        return numbers

    def acknowledge(self, numbers: list[int], base_offset: int) -> None:
        self.unknown.difference_update(numbers)
        self.acknowledged.update(zip(range(base_offset, base_offset + len(numbers)), numbers, strict=True))


@dataclass(slots=True)
class Proof:
    """What comparing a ledger with the log gave."""

    records: int = 0
    #: unanswered ones that turned out to be there
    unknown_found: int = 0
    faults: list[str] = field(default_factory=list)

    def compare(self, ledger: Ledger, log: Iterable[tuple[int, bytes]]) -> None:
        """``log`` is every (offset, value) of the partition, in order."""
        where = f"partition {ledger.partition}"
        seen: set[int] = set()
        next_offset = 0
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
            seen.add(number)
            self._check_offset(ledger, offset, number, where)
        for offset in ledger.acknowledged.keys() - range(next_offset):
            self.faults.append(f"{where}: offset {offset} was acknowledged and is gone")

    def _check_offset(self, ledger: Ledger, offset: int, number: int, where: str) -> None:
        promised = ledger.acknowledged.get(offset)
        if promised is not None and promised != number:
            self.faults.append(f"{where}: offset {offset} was promised to record {promised}, not to {number}")
        elif promised is None and number not in ledger.unknown:
            self.faults.append(f"{where}: record {number} is at offset {offset}, not where it was promised")
        elif promised is None:
            self.unknown_found += 1


def _number_in(value: bytes, partition: int) -> int | None:
    """The number of the record with exactly this value; None if there is none."""
    parts = value.split(b"/")
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    number = int(parts[1])
    return number if value_of(partition, number) == value else None
