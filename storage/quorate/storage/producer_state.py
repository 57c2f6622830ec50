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

Memory is bounded by count, and nobody is forgotten who may still repeat a batch, for that would be written
twice. A leader takes no producer that it does not know while ``PRODUCERS_MAX`` wrote so lately that they may
(*young* ones). From half of that on, ``expire`` forgets those early that were silent for longer than any
producer tries, those first whose last batch comes first in the log.

Whoever has copied or replayed a log did not see when its producers wrote. Those whose batches tell of a time
that is long ago do not keep others out; but such times are the clients', and may lie. So the newest
``PRODUCERS_MAX`` of those stay for as long as any producer tries, beside as many young ones: who may still
repeat is among the newest in the log, for no leader took more of them. Whoever applies more than twice as
many, as a follower that looks at its clock less often, or a replay of the whole log, keeps the newest
``PRODUCERS_MAX``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from quorate.core.ids import Offset, ProducerEpoch, ProducerId, TimestampMs
from quorate.core.limits import PRODUCER_REMEMBERED_MS_MIN
from quorate.core.records import BatchHeader
from quorate.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    Overloaded,
    UnknownProducer,
)

__all__ = ["BATCHES_REMEMBERED", "PRODUCERS_MAX", "ProducerEntry", "ProducerStates", "RememberedBatch"]

BATCHES_REMEMBERED: Final = 5
#: of one partition; each takes about 400 bytes of memory, and a fourth of that in a snapshot
PRODUCERS_MAX: Final = 50_000

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
    __slots__ = ("_active", "_entries", "_last_seen_s", "_witnessed", "_young_max")

    def __init__(self) -> None:
        self._entries: dict[ProducerId, ProducerEntry] = {}
        #: producers that wrote since the last look at who is silent, and when each wrote, by our own
        #: monotonic clock: what is sent again by one that was forgotten is written twice. The timestamps in
        #: batches are the clients' and may lie in any past or future, and a wall clock may jump
        self._active: set[ProducerId] = set()
        self._last_seen_s: dict[ProducerId, float] = {}
        #: whose batch was appended here, by this leader: when they were seen is when they wrote
        self._witnessed: set[ProducerId] = set()
        #: so many may be young: those of the last look, and all that came since
        self._young_max = 0

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
            if self._young_max >= PRODUCERS_MAX or len(self._entries) >= 2 * PRODUCERS_MAX:
                raise _crowded(producer_id)
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
            self._young_max += entry is None
            if len(self._entries) > 2 * PRODUCERS_MAX:
                self._keep_newest()
        return entry

    def apply_appended(self, header: BatchHeader, base_offset: Offset) -> None:
        """As ``apply``, of a batch that was written just now: this is its leader."""
        self.apply(header, base_offset)
        self._witnessed.add(header.producer_id)

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

    def expire(self, *, now_s: float, wall_ms: int, after_s: float) -> int:
        """Forget producers that were silent for ``after_s``; they start anew as unknown ones.

        To be called now and then, and when this begins to lead: that a producer wrote is noticed at the next
        call.
        """
        unseen = self._active | (self._entries.keys() - self._last_seen_s.keys())
        self._last_seen_s.update(dict.fromkeys(unseen, now_s))
        self._active.clear()
        silent = [pid for pid, seen_s in self._last_seen_s.items() if now_s - seen_s > after_s]
        self._forget(silent)
        early = self._early(now_s)
        self._forget(early)
        young = self._young(now_s, wall_ms)
        self._young_max = len(young)
        copied = self._copied_beyond_room(young)
        self._forget(copied)
        return len(silent) + len(early) + len(copied)

    @property
    def are_many(self) -> bool:
        """More are known than there is room for in the long run."""
        return len(self._entries) > PRODUCERS_MAX // 2

    def _early(self, now_s: float) -> list[ProducerId]:
        """Of too many producers the oldest ones, as far as none of them may repeat a batch any more."""
        if not self.are_many:
            return []
        done_s = now_s - PRODUCER_REMEMBERED_MS_MIN / 1000
        done = [pid for pid in self._entries if self._last_seen_s[pid] < done_s]
        done.sort(key=self._last_offset)
        return done[: len(self._entries) - PRODUCERS_MAX // 2]

    def _young(self, now_s: float, wall_ms: int) -> set[ProducerId]:
        """Those who may repeat a batch, as far as is known here."""
        seen_s, written_ms = now_s - PRODUCER_REMEMBERED_MS_MIN / 1000, wall_ms - PRODUCER_REMEMBERED_MS_MIN
        return {
            producer_id
            for producer_id, entry in self._entries.items()
            if self._last_seen_s[producer_id] >= seen_s
            and (producer_id in self._witnessed or entry.batches[-1].max_timestamp >= written_ms)
        }

    def _copied_beyond_room(self, young: set[ProducerId]) -> list[ProducerId]:
        """If the times in their batches lie, those who may repeat one are among the newest all the same."""
        if len(self._entries) <= PRODUCERS_MAX:
            return []
        copied = sorted(self._entries.keys() - young, key=self._last_offset)
        return copied[:-PRODUCERS_MAX]

    def _forget(self, producer_ids: list[ProducerId]) -> None:
        for producer_id in producer_ids:
            del self._last_seen_s[producer_id]
            self._witnessed.discard(producer_id)
            self._entries.pop(producer_id, None)

    def _keep_newest(self) -> None:
        for producer_id in sorted(self._entries, key=self._last_offset)[:-PRODUCERS_MAX]:
            del self._entries[producer_id]
            self._active.discard(producer_id)
            self._witnessed.discard(producer_id)
            self._last_seen_s.pop(producer_id, None)

    def _last_offset(self, producer_id: ProducerId) -> Offset:
        return self._entries[producer_id].batches[-1].last_offset

    def remembered_offsets(self) -> set[Offset]:
        """Base offsets of all batches that are remembered."""
        return {batch.base_offset for entry in self._entries.values() for batch in entry.batches}

    def copy(self) -> ProducerStates:
        """What is known now, to be written while more comes; entries are shared, for they never change."""
        states = ProducerStates()
        states._entries = self._entries.copy()
        return states

    def rows(self) -> Iterator[list[Any]]:
        """Each producer as JSON has it; to be taken in again by ``take``."""
        for producer_id in sorted(self._entries):
            entry = self._entries[producer_id]
            yield [producer_id, entry.epoch, [list(batch) for batch in entry.batches]]

    def take(self, rows: Iterable[list[Any]]) -> None:
        """To be called of what knows nobody of them yet."""
        for producer_id, epoch, batches in rows:
            self._entries[producer_id] = ProducerEntry(epoch, tuple(RememberedBatch(*b) for b in batches))
        self._young_max = len(self._entries)

    def validate(self) -> None:
        for entry in self._entries.values():
            assert 1 <= len(entry.batches) <= BATCHES_REMEMBERED
            for earlier, later in zip(entry.batches, entry.batches[1:], strict=False):
                assert earlier.last_offset < later.base_offset


def _crowded(producer_id: ProducerId) -> Overloaded:
    return Overloaded(
        f"producer {producer_id} is new here, and {PRODUCERS_MAX} wrote to the partition lately, as many as "
        f"there may be: there is room when some were silent for long. Programs should keep their producer",
        producer_id=producer_id,
        producers_max=PRODUCERS_MAX,
    )
