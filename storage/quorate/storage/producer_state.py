"""What the log says of idempotent producers (rules 49 to 52).

State is derived from the batches alone, on leader and follower alike: every batch that enters the
log is applied, whether appended, replicated or replayed. So any replica that becomes leader knows
the same duplicates. Snapshots only shorten the replay.

Of each producer the last five batches are remembered, because a producer may have five in flight
and retry any of them. Sequences count records and wrap from 2^31-1 to 0.

What a leader answers to a batch of a known producer and its current epoch:

    sequence follows the last batch        append
    equal to one of the last five          duplicate: the original offset (rule 50)
    before the last batch otherwise        DuplicateSequence: written, offset forgotten (rule 51)
    after a gap                            OutOfOrderSequence: something before it is missing

A batch of an unknown producer must start at sequence 0. Kafka accepts any sequence there, which
lets a second batch overtake a first one that got lost on the way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from quorate.core.ids import Offset, ProducerEpoch, ProducerId, TimestampMs
from quorate.core.records import BatchHeader
from quorate.errors import DuplicateSequence, InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer

__all__ = ["BATCHES_REMEMBERED", "ProducerEntry", "ProducerStates", "RememberedBatch"]

BATCHES_REMEMBERED: Final = 5

_SEQUENCES: Final = 1 << 31


class RememberedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    max_timestamp: TimestampMs


class ProducerEntry(NamedTuple):
    """Immutable, so that a failed append restores the old entry by putting it back."""

    epoch: ProducerEpoch
    #: oldest first, at least one, at most BATCHES_REMEMBERED, all of this epoch
    batches: tuple[RememberedBatch, ...]

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1].last_sequence + 1) % _SEQUENCES


class ProducerStates:
    __slots__ = ("_active", "_entries", "_last_seen_s")

    def __init__(self) -> None:
        self._entries: dict[ProducerId, ProducerEntry] = {}
        #: producers that wrote since the last look at who is silent, and when each wrote, by our own
        #: monotonic clock: what is sent again by one that was forgotten is written twice. The timestamps in
        #: batches are the clients' and may lie in any past or future, and a wall clock may jump
        self._active: set[ProducerId] = set()
        self._last_seen_s: dict[ProducerId, float] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerStates):
            return NotImplemented
        return self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # mutable: equality is for tests and verification

    def get(self, producer_id: ProducerId) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """May the leader append this batch? The original's batch if it is a duplicate, else None."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            if header.base_sequence != 0:
                raise UnknownProducer(
                    f"producer {producer_id} is not known here and its batch starts at sequence "
                    f"{header.base_sequence}, not 0",
                    producer_id=producer_id,
                    base_sequence=header.base_sequence,
                )
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} epoch {header.producer_epoch} is fenced by epoch {entry.epoch}",
                producer_id=producer_id,
                producer_epoch=header.producer_epoch,
                current_epoch=entry.epoch,
            )
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise self._out_of_order(header, expected=0)
            return None
        if header.base_sequence == entry.next_sequence:
            return None
        return self._duplicate_of(header, entry)

    def _duplicate_of(self, header: BatchHeader, entry: ProducerEntry) -> RememberedBatch:
        for batch in entry.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        ahead = (header.base_sequence - entry.next_sequence) % _SEQUENCES
        if ahead < _SEQUENCES // 2:
            raise self._out_of_order(header, expected=entry.next_sequence)
        # Never OUT_OF_ORDER for something already written: the client would bump its epoch and
        # write it a second time (rule 51).
        raise DuplicateSequence(
            f"producer {header.producer_id} wrote sequence {header.base_sequence} before; "
            f"the next expected is {entry.next_sequence}",
            producer_id=header.producer_id,
            base_sequence=header.base_sequence,
            next_sequence=entry.next_sequence,
        )

    @staticmethod
    def _out_of_order(header: BatchHeader, *, expected: int) -> OutOfOrderSequence:
        return OutOfOrderSequence(
            f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
            f"{header.base_sequence} where {expected} is next",
            producer_id=header.producer_id,
            base_sequence=header.base_sequence,
            next_sequence=expected,
        )

    def apply(self, header: BatchHeader, base_offset: Offset) -> ProducerEntry | None:
        """The batch is in the log at ``base_offset``; what the log says is true.

        Returns what was known of the producer before, for ``restore``.
        """
        batch = RememberedBatch(
            header.base_sequence,
            header.last_sequence,
            base_offset,
            Offset(base_offset + header.last_offset_delta),
            header.max_timestamp,
        )
        producer_id = header.producer_id
        self._active.add(producer_id)
        entry = self._entries.get(producer_id)
        if entry is not None and entry.epoch == header.producer_epoch:
            kept = entry.batches[1 - BATCHES_REMEMBERED :]
            self._entries[producer_id] = ProducerEntry(entry.epoch, (*kept, batch))
        else:
            self._entries[producer_id] = ProducerEntry(header.producer_epoch, (batch,))
        return entry

    def apply_all(self, headers: list[BatchHeader]) -> None:
        """As ``apply`` for batches that carry their offsets, in order. Only the last ones leave a trace."""
        newest: dict[int, list[BatchHeader]] = {}
        for header in reversed(headers):
            batches = newest.setdefault(header.producer_id, [])
            if len(batches) < BATCHES_REMEMBERED:
                batches.append(header)
        for batches in newest.values():
            for header in reversed(batches):
                self.apply(header, header.base_offset)

    def restore(self, producer_id: ProducerId, entry: ProducerEntry | None) -> None:
        """Undo ``apply`` after a write that failed."""
        if entry is None:
            self._entries.pop(producer_id, None)
        else:
            self._entries[producer_id] = entry

    def expire(self, *, now_s: float, after_s: float) -> int:
        """Forget producers that were silent for ``after_s``; they start anew as unknown ones.

        To be called now and then: that a producer wrote is noticed at the next call.
        """
        unseen = self._active | (self._entries.keys() - self._last_seen_s.keys())
        self._last_seen_s.update(dict.fromkeys(unseen, now_s))
        self._active.clear()
        silent = [pid for pid, seen_s in self._last_seen_s.items() if now_s - seen_s > after_s]
        for producer_id in silent:
            del self._last_seen_s[producer_id]
            self._entries.pop(producer_id, None)
        return len(silent)

    def remembered_offsets(self) -> set[Offset]:
        """Base offsets of all batches that are remembered."""
        return {batch.base_offset for entry in self._entries.values() for batch in entry.batches}

    def to_state(self) -> dict[str, Any]:
        return {
            "producers": [
                [producer_id, entry.epoch, [list(batch) for batch in entry.batches]]
                for producer_id, entry in sorted(self._entries.items())
            ]
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ProducerStates:
        states = cls()
        for producer_id, epoch, batches in state["producers"]:
            states._entries[producer_id] = ProducerEntry(epoch, tuple(RememberedBatch(*b) for b in batches))
        return states

    def validate(self) -> None:
        for entry in self._entries.values():
            assert 1 <= len(entry.batches) <= BATCHES_REMEMBERED
            for earlier, later in zip(entry.batches, entry.batches[1:], strict=False):
                assert earlier.last_offset < later.base_offset
