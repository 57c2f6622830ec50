"""What clients did, were told and saw, in the order in which it happened.

Every value is unique and names its producer and its place in that producer's order. There are three outcomes,
kept apart (rule 19): acknowledged, refused, or unknown, in which case the record may be in the log, now or
later. A send that has no outcome when the run ends is unknown as well.

Times and records of what happened come from here alone, so that nobody can forget one of them. A recorder is
told of each entry when it begins and when it ends: see ``quorate.chaos.history.ledger_file``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from quorate.chaos.history.by_partition import by_partition
from quorate.chaos.history.entries import (
    Acks,
    Assignment,
    Commit,
    Entry,
    FaultWindow,
    Outcome,
    PartitionChange,
    Poll,
    ReadRecord,
    Sent,
    TopicDeletion,
    WatermarkSeen,
)
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import QuorateError

__all__ = ["History", "Recorder"]

E = TypeVar("E", bound=Entry)

_SYSTEM_CLOCK: Final = SystemClock()


class Recorder(Protocol):
    """Writes down what a history collects."""

    def begun(self, entry: Entry) -> None: ...

    def ended(self, entry: Entry) -> None: ...

    def flush(self) -> None:
        """What was told up to here outlives this process."""


class History:
    def __init__(
        self, now_s: Callable[[], float] = _SYSTEM_CLOCK.monotonic, *, recorder: Recorder | None = None
    ) -> None:
        self.sent: list[Sent] = []
        self.assignments: list[Assignment] = []
        self.polls: list[Poll] = []
        self.commits: list[Commit] = []
        self.watermarks: list[WatermarkSeen] = []
        self.changes: list[PartitionChange] = []
        self.faults: list[FaultWindow] = []
        self.deletions: list[TopicDeletion] = []
        self._kept: dict[type[Entry], list[Any]] = {
            Sent: self.sent,
            Assignment: self.assignments,
            Poll: self.polls,
            Commit: self.commits,
            WatermarkSeen: self.watermarks,
            PartitionChange: self.changes,
            FaultWindow: self.faults,
            TopicDeletion: self.deletions,
        }
        self.now_s = now_s
        self._recorder = recorder
        self._serial = 0
        self._numbers: Counter[str] = Counter()

    @property
    def last_serial(self) -> int:
        """Of the entry that began last; 0: there is none."""
        return self._serial

    def flush(self) -> None:
        """Before anything is done that the record of it has to precede: see the ledger file."""
        if self._recorder is not None:
            self._recorder.flush()

    # -- producers

    def begin(
        self, producer: str, partition: TopicPartition, *, acks: Acks = "all", value_bytes: int = 0
    ) -> Sent:
        """A record that is about to be sent. ``value_bytes``: its value has at least that length."""
        number = self._numbers[producer]
        self._numbers[producer] += 1
        value = f"{producer}/{number}/".encode().ljust(value_bytes, b".")
        return self._begin(Sent(self._next(), value, producer, number, partition, acks, self.now_s()))

    def acknowledge(self, sent: Sent, offset: Offset | None) -> None:
        assert sent.ended_s is None, "a record has one outcome"
        assert (offset is None) == (sent.acks == "0"), "an acknowledgement tells the offset (rule 20)"
        sent.outcome, sent.offset = Outcome.ACKNOWLEDGED, offset
        self._end(sent)

    def fail(self, sent: Sent, error: QuorateError) -> None:
        """Refused or unknown: the error says which."""
        assert sent.ended_s is None, "a record has one outcome"
        sent.outcome = Outcome.UNKNOWN if error.outcome_unknown else Outcome.REFUSED
        sent.error = error.code
        self._end(sent)

    def _end(self, sent: Sent) -> None:
        sent.ended_s = self.now_s()
        self._ended(sent)

    @property
    def acknowledged(self) -> Iterator[Sent]:
        return (each for each in self.sent if each.is_acknowledged)

    def outcomes(self) -> Counter[Outcome]:
        return Counter(each.outcome for each in self.sent)

    # -- readers

    def assign(self, reader: str, starts: Mapping[TopicPartition, Offset | None]) -> Assignment:
        """A reader begins at these offsets; None: it says so with its first record."""
        return self._begin(Assignment(self._next(), reader, dict(starts), self.now_s()))

    def give(
        self,
        group: str,
        member: str,
        partition: TopicPartition,
        *,
        start: Offset | None,
        member_epoch: int | None = None,
        at_s: float | None = None,
    ) -> Assignment:
        """A member of a group is given a partition. ``at_s``: when it was told; None: now."""
        return self._begin(
            Assignment(
                self._next(),
                member,
                {partition: start},
                self._at(at_s),
                group=group,
                member_epoch=member_epoch,
            )
        )

    def polled(self, assignment: Assignment, records: Iterable[ConsumerRecord]) -> None:
        """What one call has returned."""
        for partition, found in by_partition(records).items():
            read = (ReadRecord(Offset(record.offset), record.value or b"") for record in found)
            self.read(assignment, partition, read)

    def read(
        self,
        assignment: Assignment,
        partition: TopicPartition,
        records: Iterable[ReadRecord],
        *,
        at_s: float | None = None,
    ) -> None:
        """Of one partition. ``at_s``: when; None: now."""
        self._begin(Poll(self._next(), assignment, partition, tuple(records), self._at(at_s)))

    def begin_commit(
        self, assignment: Assignment, partition: TopicPartition, offset: Offset, *, at_s: float | None = None
    ) -> Commit:
        return self._begin(Commit(self._next(), assignment, partition, offset, self._at(at_s)))

    def end_commit(self, commit: Commit, error: str | None = None, *, at_s: float | None = None) -> None:
        """``error``: the code of what it ended with; None: it is acknowledged."""
        assert commit.ended_s is None, "a commit has one outcome"
        commit.ended_s, commit.error = self._at(at_s), error
        self._ended(commit)

    def caught_up(self, assignment: Assignment) -> None:
        """It has read all that there is, and nobody writes any more."""
        assignment.caught_up_s = self.now_s()
        self._ended(assignment)

    def read_counts(self, assignment: Assignment | None = None) -> Counter[TopicPartition]:
        """How many records of each partition were read, by all or by this one."""
        counts: Counter[TopicPartition] = Counter()
        for poll in self.polls:
            if assignment is None or poll.assignment is assignment:
                counts[poll.partition] += len(poll.records)
        return counts

    # -- what was looked at

    def saw_watermark(
        self,
        partition: TopicPartition,
        high_watermark: Offset,
        *,
        begun_s: float,
        log_start_offset: Offset | None = None,
    ) -> None:
        """The answer of a leader that was asked at ``begun_s``, and came now."""
        self._begin(
            WatermarkSeen(self._next(), partition, high_watermark, log_start_offset, begun_s, self.now_s())
        )

    def saw_partition(
        self,
        source: str,
        partition: TopicPartition,
        *,
        topic_id: TopicId,
        leader: BrokerId | None,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        isr: tuple[BrokerId, ...],
        elr: tuple[BrokerId, ...],
    ) -> None:
        """``source`` has applied this; it tells all that it sees of a partition, in order."""
        self._begin(
            PartitionChange(
                self._next(),
                source,
                partition,
                topic_id,
                leader,
                leader_epoch,
                partition_epoch,
                isr,
                elr,
                self.now_s(),
            )
        )

    # -- what was done

    def inflict(self, kind: str, target: str) -> FaultWindow:
        return self._begin(FaultWindow(self._next(), kind, target, self.now_s()))

    def heal(self, fault: FaultWindow) -> None:
        fault.ended_s = self.now_s()
        self._ended(fault)

    def delete_topic(self, topic: TopicName) -> TopicDeletion:
        return self._begin(TopicDeletion(self._next(), topic, self.now_s()))

    def topic_deleted(self, deletion: TopicDeletion) -> None:
        deletion.ended_s = self.now_s()
        self._ended(deletion)

    # -- for the recorder

    def restore(self, entry: Entry) -> None:
        """One that was recorded before; they come in the order in which they began."""
        if entry.serial <= self._serial:
            raise ValueError(f"entry {entry.serial} after {self._serial}")
        self._serial = entry.serial
        if isinstance(entry, Sent):
            self._numbers[entry.producer] = entry.number + 1
        self._keep(entry)

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _at(self, at_s: float | None) -> float:
        return self.now_s() if at_s is None else at_s

    def _keep(self, entry: Entry) -> None:
        self._kept[type(entry)].append(entry)

    def _begin(self, entry: E) -> E:
        self._keep(entry)
        if self._recorder is not None:
            self._recorder.begun(entry)
        return entry

    def _ended(self, entry: Entry) -> None:
        if self._recorder is not None:
            self._recorder.ended(entry)
