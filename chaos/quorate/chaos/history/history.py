"""What clients saw: every record that was sent, and what they were told became of it.

Each value is unique and names its producer and its place in that producer's order, so that a record found in
a log says where it comes from. There are three outcomes, kept apart (rule 19): acknowledged at an offset,
refused, or unknown, in which case it may be in the log, now or later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.ids import Offset, TopicPartition
from quorate.errors import QuorateError

__all__ = ["History", "Sent"]


@dataclass(slots=True)
class Sent:
    value: bytes
    producer: str
    #: among the records of this producer, in the order in which they were sent
    number: int
    partition: TopicPartition
    #: None: not acknowledged
    offset: Offset | None = None
    #: None: acknowledged, or not answered yet
    error: QuorateError | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.offset is not None

    @property
    def is_refused(self) -> bool:
        """Surely not written."""
        return self.error is not None and not self.error.outcome_unknown


@dataclass(slots=True)
class History:
    sent: list[Sent] = field(default_factory=list)
    #: what readers saw, in order: (reader, partition, offset, value)
    read: list[tuple[str, TopicPartition, Offset, bytes]] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def begin(self, producer: str, partition: TopicPartition) -> Sent:
        number = self._counts[producer]
        self._counts[producer] += 1
        value = f"{producer}/{number}".encode()
        sent = Sent(value, producer, number, partition)
        self.sent.append(sent)
        return sent

    @property
    def acknowledged(self) -> Iterator[Sent]:
        return (each for each in self.sent if each.is_acknowledged)
