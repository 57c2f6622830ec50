"""What the simulation knows of each log: the ghosts.

A ghost of a log is what can be said about it without its records: where each batch lies, of which leader
epoch it is, and its checksum. Two batches that agree in these are the same batch. ``Copy`` is the ghost of
one broker's log, which it has whether its process runs or not. ``CommittedLog`` is the ghost of what a
leader has ever committed; it only grows, and no broker knows it as a whole.

Both are kept up to date batch by batch. A copy remembers how far it agrees with the committed log
(``complete_to``), so that to ask whether it holds everything is to compare two integers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import HEADER_BYTES, check_batch, decode_batch, parse_header
from quorate.errors import CorruptBatch, UnsupportedBatch

__all__ = ["Batch", "CommittedLog", "Copy", "KeyedRecord", "Loss", "batches_in"]

_START = Offset(0)
#: of a ``Batch``: all but its records
_HEADER_FIELDS = 4


class KeyedRecord(NamedTuple):
    """A record of a compacted topic."""

    offset: Offset
    key: bytes
    #: None: a tombstone
    value: bytes | None


class Batch(NamedTuple):
    base_offset: Offset
    #: exclusive
    next_offset: Offset
    epoch: LeaderEpoch
    crc: int
    #: of a compacted topic, which may have lost some of them since; none if they have rotted
    records: tuple[KeyedRecord, ...] = ()
    size_in_bytes: int = 0

    def is_same(self, other: Batch | None) -> bool:
        """By its header: what has rotted behind that, nobody can tell before somebody reads it."""
        return other is not None and self[:_HEADER_FIELDS] == other[:_HEADER_FIELDS]


def batches_in(content: bytes, *, is_sound: bool, is_compacted: bool = False) -> Iterator[Batch]:
    """Whole batches, end to end. Unless the content ``is_sound``, up to the first that fails its checksum.

    ``is_compacted``: with their records.
    """
    view = memoryview(content)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        try:
            header = parse_header(view, position)
            end = position + header.size_in_bytes
            if end > len(view):
                return
            if not is_sound:
                check_batch(view[position:end])
        except (CorruptBatch, UnsupportedBatch):
            return
        records = _keyed_records(view[position:end]) if is_compacted and header.record_count else ()
        yield Batch(
            header.base_offset,
            Offset(header.last_offset + 1),
            header.leader_epoch,
            header.crc,
            records,
            header.size_in_bytes,
        )
        position = end


def _keyed_records(batch: memoryview) -> tuple[KeyedRecord, ...]:
    """None of a batch that has rotted."""
    try:
        records = decode_batch(batch)
    except (CorruptBatch, UnsupportedBatch):
        return ()
    return tuple(KeyedRecord(Offset(record.offset), record.key or b"", record.value) for record in records)


class Loss(Enum):
    """Whether a fault has taken something of a log, and who knows."""

    NONE = auto()
    #: until the broker is back and unfenced, by when it must be out of ISR and ELR (rules 30 and 32)
    UNREPORTED = auto()
    #: since then, until the log is seen to be complete
    REPORTED = auto()


class Copy:
    """One broker's log of one partition, as it is on its disk.

    A copy that a fault has made worthless is *excused*: the cluster is not told of such things, it has to
    find out.
    """

    __slots__ = (
        "_bases",
        "batches",
        "complete_to",
        "durable_end",
        "forgotten",
        "is_out_of_service",
        "is_quarantined",
        "is_rotten",
        "log_end_offset",
        "log_start_offset",
        "loss",
        "reported",
    )

    def __init__(self) -> None:
        #: by base offset, ascending
        self.batches: dict[Offset, Batch] = {}
        self._bases: list[Offset] = []
        self.log_start_offset = _START
        #: exclusive
        self.log_end_offset = _START
        #: exclusive: what a loss of power leaves, at least
        self.durable_end = _START
        #: exclusive: everything that is committed is here up to there
        self.complete_to = _START
        #: what was here before a fault took it: it counts where copies are counted at an acknowledgement
        self.forgotten: dict[Offset, Batch] = {}
        #: what was forgotten until its broker came back: it counts for a leader that was deposed meanwhile
        self.reported: dict[Offset, Batch] = {}
        self.loss = Loss.NONE
        #: for as long as the broker itself says that the replica is of no use, for whatever reason
        self.is_out_of_service = False
        #: the reason is that the broker has found damage in it
        self.is_quarantined = False
        #: until the log is made anew, for nobody knows before somebody reads it (rule 44)
        self.is_rotten = False

    @property
    def is_excused(self) -> bool:
        return self.loss is Loss.UNREPORTED or self.is_out_of_service or self.is_rotten

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.batches[batch.base_offset] = batch
            self._bases.append(batch.base_offset)
            self.log_end_offset = batch.next_offset

    def between(self, start: Offset, end: Offset) -> list[Batch]:
        """The batches that begin there; ``start`` is near the end of the log, so that is where to look."""
        found = []
        for batch in reversed(self.batches.values()):
            if batch.base_offset < start:
                break
            if batch.base_offset < end:
                found.append(batch)
        return found[::-1]

    def covering(self, offset: Offset) -> Batch | None:
        """The batch that the offset lies in, or in whose place an empty one is."""
        index = bisect_right(self._bases, offset) - 1
        found = self.batches[self._bases[index]] if index >= 0 else None
        return found if found is not None and found.next_offset > offset else None

    def record_at(self, offset: Offset) -> KeyedRecord | None:
        """Of a compacted topic."""
        batch = self.covering(offset)
        records = () if batch is None else batch.records
        return next((record for record in records if record.offset == offset), None)

    def empty(self, log_start_offset: Offset) -> None:
        """To be read anew."""
        self.batches = {}
        self._bases = []
        self.log_start_offset = self.log_end_offset = log_start_offset
        self.complete_to = _START

    def lose(self, *, is_synced: bool) -> None:
        """A fault takes some or all of it."""
        self.loss = Loss.UNREPORTED
        self.remember(is_synced=is_synced)

    def report_loss(self) -> None:
        """Its broker is back: what was lost is known, and counts no longer."""
        self.loss = Loss.REPORTED
        self.reported.update(self.forgotten)
        self.forgotten.clear()

    def remember(self, *, is_synced: bool) -> None:
        """What is here, whatever becomes of it. ``is_synced``: only what was on the device ever counted."""
        for base, batch in self.batches.items():
            if not is_synced or batch.next_offset <= self.durable_end:
                self.forgotten[base] = batch

    def has_held(self, batch: Batch, *, is_synced: bool, is_deposed: bool = False) -> bool:
        """Now, or until a fault took it; ``is_synced``: on the device.

        ``is_deposed``: the leader that asks is, and may still hear what the follower said before its loss.
        """
        base = batch.base_offset
        is_reported = is_deposed and batch.is_same(self.reported.get(base))
        if is_reported or batch.is_same(self.forgotten.get(base)):
            return True
        is_here = batch.is_same(self.batches.get(base))
        return is_here and (not is_synced or batch.next_offset <= self.durable_end)


class CommittedLog:
    """What leaders have committed, whoever holds it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._bases: list[Offset] = []
        #: inclusive: what retention has left
        self.start = _START
        #: exclusive
        self.end = _START
        #: (leader epoch, end of what was committed in it), in the order in which it was
        self._marks: list[tuple[LeaderEpoch, Offset]] = []

    def extend(self, batches: Iterable[Batch], epoch: LeaderEpoch) -> None:
        for batch in batches:
            self.batches.append(batch)
            self._bases.append(batch.base_offset)
            self.end = batch.next_offset
        if self._marks and self._marks[-1][0] == epoch:
            self._marks.pop()
        self._marks.append((epoch, self.end))

    def committed_before(self, epoch: LeaderEpoch) -> Offset:
        """Up to where leaders of earlier epochs have committed (exclusive)."""
        return max((end for marked, end in self._marks if marked < epoch), default=_START)

    def trim(self, log_start_offset: Offset) -> None:
        """Retention has taken what is before."""
        self.start = max(self.start, log_start_offset)

    def cut_to(self, offset: Offset) -> list[Batch]:
        """An operator has given up what follows (rule 33); that is what is returned."""
        given_up = []
        while self.batches and self.batches[-1].next_offset > offset:
            given_up.append(self.batches.pop())
            self._bases.pop()
        self.end = self.batches[-1].next_offset if self.batches else _START
        self._marks = [(epoch, min(end, self.end)) for epoch, end in self._marks]
        return given_up

    def compare(self, copy: Copy) -> None:
        """Bring ``complete_to`` up to date, from where it is."""
        if copy.log_start_offset > self.start:
            copy.complete_to = self.start
            return
        position = max(copy.complete_to, self.start)
        index = bisect_right(self._bases, position) - 1
        if index < 0 or self.batches[index].next_offset <= position:
            index += 1
        while index < len(self.batches) and self._holds(copy, self.batches[index]):
            position = self.batches[index].next_offset
            index += 1
        copy.complete_to = position

    def _holds(self, copy: Copy, batch: Batch) -> bool:
        return batch.is_same(copy.batches.get(batch.base_offset))

    def first_missing(self, copy: Copy) -> Batch | None:
        """For reports: what comes first of all that the copy lacks, or has differently."""
        return next(
            (each for each in self.batches if each.next_offset > self.start and not self._holds(copy, each)),
            None,
        )
