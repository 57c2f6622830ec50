"""The log against a plain list of batches: any operations in any order, deaths and full disks included.

After every step the log's files, reads, epochs and producers must be what the list says. A process
may be told to die at its n-th change of the disk, whatever it is doing then, and the power may fail
with it; ``log_model`` says what may be left.

`make test` runs the same few examples every time. For more, and other ones each time:

    QUORATE_MODEL_EXAMPLES=5000 pytest tests/log/test_model_log.py
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import Compression, decode_batch, parse_header
from quorate.errors import (
    CorruptBatch,
    DiskFull,
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    QuorateError,
    StorageFailed,
    UnknownProducer,
)
from quorate.storage import Appended, LogConfig, PartitionLog, StartKind
from quorate.storage.inspect import ProblemKind, verify
from tests.log.log_harness import LogHarness, ProducerImage, batch
from tests.log.log_model import LogModel, Stages, StoredBatch, adopt, adopt_after_power_loss, stamped

_EXAMPLES: Final = os.environ.get("QUORATE_MODEL_EXAMPLES")

_CONFIG: Final = LogConfig(
    segment_bytes=700,
    segment_ms=1_000,
    index_interval_bytes=150,
    retention_ms=3_000,
    retention_bytes=2_500,
    max_message_bytes=100_000,
)
#: a disk operation that leaves nothing behind is no place to die at
_CHANGES: Final = frozenset(
    {"pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory"}
)
_SEQUENCES: Final = 1 << 31


class Content(NamedTuple):
    """The records of a batch to be."""

    value_sizes: list[int]
    #: of each record, relative to now; cycles
    ages_ms: list[int]
    compression: Compression


class Sender(NamedTuple):
    """Who sends a batch: an idempotent producer, and how it follows from what it sent before."""

    producer_id: int
    epoch_step: int
    #: 0: the next; -1: the last batch again, -2: the one before it, and so on; 1: after a gap
    sequence_step: int

    def epoch(self, known: ProducerImage | None) -> int:
        return max(0, self.epoch_step + (0 if known is None else known.epoch))

    def sequence(self, known: ProducerImage | None, count: int) -> tuple[int, int]:
        """Base sequence and number of records."""
        if known is None or self.epoch(known) != known.epoch:
            return max(0, self.sequence_step), count
        if self.sequence_step >= 0:
            return (known.batches[-1][1] + 1 + self.sequence_step) % _SEQUENCES, count
        if -self.sequence_step <= len(known.batches):
            base, last, *_ = known.batches[self.sequence_step]
            return base, (last - base) % _SEQUENCES + 1
        return max(0, known.batches[0][0] - 1), count


class Answer(NamedTuple):
    """What a leader must answer: where the batch lies, or which error."""

    base_offset: int
    last_offset: int
    is_new: bool
    error: type[QuorateError] | None = None

    @classmethod
    def to(cls, sent: bytes, model: LogModel) -> Answer:
        header = parse_header(sent)
        end = model.log_end_offset
        append = cls(end, end + header.last_offset_delta, is_new=True)
        if header.producer_id < 0:
            return append
        known = model.producers.get(header.producer_id)
        if known is None:
            return append if header.base_sequence == 0 else cls.refusal(UnknownProducer)
        if header.producer_epoch < known.epoch:
            return cls.refusal(InvalidProducerEpoch)
        if header.producer_epoch > known.epoch:
            return append if header.base_sequence == 0 else cls.refusal(OutOfOrderSequence)
        ahead = (header.base_sequence - known.batches[-1][1] - 1) % _SEQUENCES
        if ahead == 0:
            return append
        for base_sequence, last_sequence, base_offset, last_offset, _ in known.batches:
            if (base_sequence, last_sequence) == (header.base_sequence, header.last_sequence):
                return cls(base_offset, last_offset, is_new=False)
        return cls.refusal(OutOfOrderSequence if ahead < _SEQUENCES // 2 else DuplicateSequence)

    @classmethod
    def refusal(cls, error: type[QuorateError]) -> Answer:
        return cls(-1, -1, is_new=False, error=error)

    def check(self, outcome: Appended | QuorateError) -> None:
        if isinstance(outcome, QuorateError):
            assert type(outcome) is self.error
        else:
            assert self.error is None
            assert (outcome.base_offset, outcome.last_offset) == (self.base_offset, self.last_offset)
            assert outcome.is_duplicate == (not self.is_new)


contents = st.builds(
    Content,
    st.lists(st.integers(0, 150), min_size=1, max_size=4),
    st.lists(st.integers(-300, 2_000), min_size=1, max_size=3),
    st.sampled_from(Compression),
)
senders = st.none() | st.builds(
    Sender,
    st.integers(1, 2),
    st.sampled_from((0, 0, 0, 0, 1, -1)),
    st.sampled_from((0, 0, 0, 0, -1, -2, -5, -6, 1)),
)
#: an offset, a position in the log: taken modulo what there is
places = st.integers(0, 1 << 16)


def _append(log: PartitionLog, sent: list[bytes], epoch: LeaderEpoch) -> list[Appended | QuorateError]:
    """One by one and several at once are two ways through the log."""
    try:
        if len(sent) == 1:
            return [log.append_as_leader(sent[0], leader_epoch=epoch)]
        return log.append_all_as_leader(sent, leader_epoch=epoch)
    except QuorateError as error:
        return [error] * len(sent)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.harness = LogHarness(_CONFIG)
        self.model = LogModel()
        #: what to do when the process dies in an operation: None, or the seed of a power loss
        self.death: int | None = None
        self.value_count = 0

    @property
    def log(self) -> PartitionLog:
        return self.harness.log

    def follow(self, stages: Stages, *, after_crash: bool = False) -> None:
        """The log is in one of the stages, and its segments are no larger than allowed."""
        self.model = adopt(stages, self.log, after_crash=after_crash)
        for segment in self.log._state.segments:
            offsets = range(segment.base_offset, segment.next_offset)
            batches = [each for each in self.model.in_files if each.base_offset in offsets]
            assert segment.size <= _CONFIG.segment_bytes or len(batches) == 1

    def teardown(self) -> None:
        self.loop.close()

    # -- running operations

    def run(self, result: Any) -> Any:
        return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

    def perform(self, stages: Stages, operation: Callable[[], object]) -> Any:
        """Run one operation of the log and follow it with the model. None if it did not return."""
        try:
            result = self.run(operation())
        except ProcessDied:
            self.die(stages)
            return None
        except DiskFull:
            assert self.disk_is_full
            self.follow(stages)
            return None
        self.follow(stages[-1:])
        return result

    def die(self, stages: Stages) -> None:
        """The process is gone; what the disk has is one of the stages, or less after a power loss."""
        self.harness.disk.fault_hook = None
        death, self.death = self.death, None
        if death is None:
            self.harness.disk.crash()
            self.reopen(stages, StartKind.PROCESS_CRASH)
        else:
            self.harness.disk.power_loss(random.Random(death))
            self.reopen(stages, StartKind.LOSSY)

    def reopen(self, stages: Stages, start: StartKind) -> None:
        if start is StartKind.PROCESS_CRASH:
            self.check_that_a_dead_process_leaves_no_damage()
        try:
            self.run(self.harness.open(start))
        except ProcessDied:
            # In the middle of the recovery. If that was a lossy one, the next is too.
            death, self.death = self.death, None
            self.harness.disk.fault_hook = None
            if death is None:
                self.harness.disk.crash()
            else:
                self.harness.disk.power_loss(random.Random(death))
                start = StartKind.LOSSY
            self.reopen(stages, start)
            return
        except StorageFailed:
            assert self.disk_is_full
            self.make_room()
            self.harness.disk.crash()
            self.reopen(stages, start)
            return
        assert self.log.damage is None, self.log.damage
        if start is StartKind.LOSSY:
            self.model = adopt_after_power_loss(stages, self.log)
        else:
            was_clean = self.log.opening_report.start is StartKind.CLEAN
            self.follow(stages, after_crash=not was_clean)
            # What was recovered does not depend on the page cache any more.
            self.model = self.model.flush()[-1]

    def check_that_a_dead_process_leaves_no_damage(self) -> None:
        if not self.harness.files(".log"):
            return
        for report in verify(self.harness.disk, self.harness.directory):
            assert not report.is_damaged, report.problems
            assert all(problem.kind is not ProblemKind.DAMAGE for problem in report.problems)

    # -- the world

    @initialize()
    def start(self) -> None:
        self.run(self.harness.lead(0))
        self.model = self.model.lead(0)[-1]

    @property
    def is_doomed(self) -> bool:
        return self.harness.disk.fault_hook is not None

    @property
    def disk_is_full(self) -> bool:
        return self.harness.disk.capacity_bytes is not None

    @rule(milliseconds=st.sampled_from((1, 400, 1_500)))
    def let_time_pass(self, milliseconds: int) -> None:
        self.harness.clock.now_ms += milliseconds

    @precondition(lambda self: not self.disk_is_full)
    @rule(room=st.integers(0, 600))
    def fill_the_disk(self, room: int) -> None:
        self.harness.disk.capacity_bytes = self.harness.disk.used_bytes + room

    @precondition(lambda self: self.disk_is_full)
    @rule()
    def make_room(self) -> None:
        self.harness.disk.capacity_bytes = None

    @precondition(lambda self: not self.is_doomed)
    @rule(
        changes=st.integers(1, 25),
        written=st.sampled_from((0, 1, 61, 100, 10_000)),
        power_loss=st.none() | st.integers(0, 1 << 16),
    )
    def doom_the_process(self, changes: int, written: int, power_loss: int | None) -> None:
        """It dies at its n-th change of the disk from now."""
        self.death = power_loss
        hook = fail_nth(changes, ProcessDied(written=written), names=_CHANGES)
        self.harness.disk.fault_hook = hook

    # -- appending

    @rule(step=st.integers(0, 2))
    def become_leader(self, step: int) -> None:
        epoch = max(0, self.model.latest_epoch) + step
        self.perform(self.model.lead(epoch), lambda: self.log.become_leader(LeaderEpoch(epoch)))

    @rule(members=st.lists(st.tuples(contents, senders), min_size=1, max_size=5))
    def append_as_leader(self, members: list[tuple[Content, Sender | None]]) -> None:
        if self.model.latest_epoch < 0:
            return
        if self.disk_is_full and self.is_doomed:
            del members[1:]  # which of several had room when it died cannot be known
        sent, expected, added = self.plan(members)
        stages = self.model.append(*added)
        leader_epoch = LeaderEpoch(self.model.latest_epoch)
        try:
            outcomes = _append(self.log, sent, leader_epoch)
        except ProcessDied:
            self.die(stages)
            return
        if any(isinstance(outcome, DiskFull) for outcome in outcomes):
            assert self.disk_is_full
            stages = self.model.append(*self.accepted(sent, outcomes))
        else:
            for outcome, answer in zip(outcomes, expected, strict=True):
                answer.check(outcome)
        self.follow(stages[-1:])

    def plan(
        self, members: list[tuple[Content, Sender | None]]
    ) -> tuple[list[bytes], list[Answer], list[bytes]]:
        """What a client sends, what it must be answered, and what of it gets into the log."""
        epoch, after = self.model.latest_epoch, self.model
        sent, expected = [], []
        for content, sender in members:
            sent.append(self.client_batch(content, sender, after.producers))
            expected.append(Answer.to(sent[-1], after))
            if expected[-1].is_new:
                stored = stamped(sent[-1], base_offset=after.log_end_offset, leader_epoch=epoch)
                after = after.append(stored)[-1]
        return sent, expected, [each.content for each in after.batches[len(self.model.batches) :]]

    def accepted(self, sent: list[bytes], outcomes: list[Appended | QuorateError]) -> list[bytes]:
        """On a full disk each batch is in the log if, and only if, its answer says so."""
        return [
            stamped(each, base_offset=outcome.base_offset, leader_epoch=self.model.latest_epoch)
            for each, outcome in zip(sent, outcomes, strict=True)
            if isinstance(outcome, Appended) and not outcome.is_duplicate
        ]

    def client_batch(
        self, content: Content, sender: Sender | None, producers: dict[int, ProducerImage]
    ) -> bytes:
        sizes, producer = content.value_sizes, None
        if sender is not None:
            sequence, count = sender.sequence(producers.get(sender.producer_id), len(sizes))
            epoch = sender.epoch(producers.get(sender.producer_id))
            producer = (sender.producer_id, epoch, sequence)
            sizes = (sizes * count)[:count]
        self.value_count += 1
        label = b"%d" % self.value_count
        ages = (content.ages_ms * len(sizes))[: len(sizes)]
        return batch(
            *[label + b"." * size for size in sizes],
            timestamps=[self.harness.clock.now_ms - age for age in ages],
            producer=producer,
            compression=content.compression,
        )

    @rule(
        members=st.lists(st.tuples(contents, senders, st.sampled_from((0, 0, 1, 3))), min_size=1, max_size=5)
    )
    def append_as_follower(self, members: list[tuple[Content, Sender | None, int]]) -> None:
        stages = [self.model]
        for content, sender, epoch_step in members:
            model = stages[-1]
            sent = self.client_batch(content, sender, model.producers)
            epoch = max(0, model.last_batch_epoch) + epoch_step
            stored = stamped(sent, base_offset=model.log_end_offset, leader_epoch=epoch)
            stages += model.append(stored)[1:]
        added = [each.content for each in stages[-1].batches[len(self.model.batches) :]]
        self.perform(tuple(stages), lambda: self.log.append_as_follower(b"".join(added)))

    @rule(content=contents, fault=st.sampled_from(("gap", "overlap", "epoch", "bit", "cut")))
    def refuse_what_does_not_follow(self, content: Content, fault: str) -> None:
        if fault in {"epoch", "overlap"} and not self.model.in_files:
            return
        end, epoch = self.model.log_end_offset, self.model.last_batch_epoch
        shift = {"gap": 1, "overlap": -1}.get(fault, 0)
        epoch = epoch - 1 if fault == "epoch" else max(epoch, 0)
        bad = bytearray(
            stamped(self.client_batch(content, None, {}), base_offset=end + shift, leader_epoch=epoch)
        )
        if fault == "bit":
            bad[-1] ^= 1
        elif fault == "cut":
            del bad[-1]

        def refuse() -> None:
            with pytest.raises(CorruptBatch):
                self.log.append_as_follower(bytes(bad))

        self.perform((self.model,), refuse)

    # -- durability

    @rule()
    def flush(self) -> None:
        self.perform(self.model.flush(), lambda: self.log.flush())

    @rule(content=contents)
    def append_while_flushing(self, content: Content) -> None:
        """What is appended while the device works is not covered."""
        flushed = self.model.flush()
        stored = stamped(
            self.client_batch(content, None, {}),
            base_offset=self.model.log_end_offset,
            leader_epoch=max(0, self.model.last_batch_epoch),
        )

        async def flush_and_append() -> None:
            flush = asyncio.ensure_future(self.log.flush())
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                self.log.append_as_follower(stored)
            finally:
                await flush

        self.perform((*flushed, flushed[-1].append(stored)[-1]), flush_and_append)

    @rule()
    def checkpoint(self) -> None:
        self.perform((self.model,), lambda: self.log.checkpoint())

    # -- shrinking

    @rule(place=places)
    def truncate(self, place: int) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        offset = start + place % (end - start + 2)
        self.perform(self.model.truncate(offset), lambda: self.log.truncate_to(Offset(offset)))

    @rule(place=places)
    def advance_log_start(self, place: int) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        offset = start + place % (end - start + 1)
        stages = self.model.raise_log_start(offset)
        self.perform(stages, lambda: self.log.advance_log_start(Offset(offset)))

    @rule(place=places)
    def apply_retention(self, place: int) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        high_watermark = start + place % (end - start + 1)
        new_start = self.log_start_after_retention(high_watermark)
        stages = self.model.raise_log_start(new_start)
        self.perform(stages, lambda: self.log.apply_retention(high_watermark=Offset(high_watermark)))

    def log_start_after_retention(self, high_watermark: int) -> int:
        """The log decides where segments end; which of them may go follows from the batches."""
        start = self.model.log_start_offset
        excess = sum(len(each.content) for each in self.model.in_files) - _CONFIG.retention_bytes
        for segment in self.log._state.segments:
            held = [
                each
                for each in self.model.in_files
                if segment.base_offset <= each.base_offset < segment.next_offset
            ]
            size = sum(len(each.content) for each in held)
            if not held or held[-1].next_offset > high_watermark:
                break
            newest = max(parse_header(each.content).max_timestamp for each in held)
            if excess < size and self.harness.clock.now_ms - newest <= _CONFIG.retention_ms:
                break
            excess -= size
            start = max(start, held[-1].next_offset)
        return start

    @rule(offset=places)
    def reset(self, offset: int) -> None:
        self.perform(self.model.reset(offset), lambda: self.log.reset_to(Offset(offset)))

    # -- the end of a process

    @rule(power_loss=st.none() | st.integers(0, 1 << 16))
    def close_and_open(self, power_loss: int | None) -> None:
        """After a clean stop nothing is lost, not even with the power."""
        stages = (self.model,)
        try:
            is_clean = self.run(self.log.close())
        except ProcessDied:
            self.die(stages)
            return
        assert is_clean or self.disk_is_full
        if not is_clean:
            self.harness.disk.crash()
            self.reopen(stages, StartKind.PROCESS_CRASH)
            return
        if power_loss is not None:
            self.harness.disk.power_loss(random.Random(power_loss))
        self.reopen(stages, StartKind.CLEAN)

    @rule()
    def crash(self) -> None:
        self.death = None
        self.die((self.model,))

    @rule(seed=st.integers(0, 1 << 16))
    def lose_power(self, seed: int) -> None:
        self.death = seed
        self.die((self.model,))

    # -- reading

    @rule(place=places, bytes_max=st.sampled_from((1, 200, 500, 1 << 20)), until=st.none() | places)
    def read(self, place: int, bytes_max: int, until: int | None) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        offset = start + place % (end - start + 1)
        end_offset = end if until is None else start + until % (end - start + 1)
        due = self.due_from_read(offset, bytes_max, end_offset)
        found = self.log.read(
            Offset(offset), bytes_max=bytes_max, end_offset=None if until is None else Offset(end_offset)
        )
        assert found.batches == b"".join(each.content for each in due)
        assert found.next_offset == (due[-1].next_offset if due else offset)

    def due_from_read(self, offset: int, bytes_max: int, end_offset: int) -> list[StoredBatch]:
        if offset >= end_offset:
            return []
        segment = self.log._state.segment_of(Offset(offset))
        due: list[StoredBatch] = []
        room = bytes_max
        for each in self.model.in_files:
            if each.next_offset <= offset or each.base_offset >= segment.next_offset:
                continue
            room -= len(each.content)
            if each.next_offset > end_offset or (due and room < 0):
                break
            due.append(each)
        return due

    @rule(age_ms=st.integers(-400, 6_000))
    def find_timestamp(self, age_ms: int) -> None:
        timestamp = self.harness.clock.now_ms - age_ms
        records = (record for each in self.model.readable for record in decode_batch(each.content))
        due = (
            (record.offset, record.timestamp)
            for record in records
            if record.timestamp >= timestamp and record.offset >= self.model.log_start_offset
        )
        assert self.log.find_timestamp(TimestampMs(timestamp)) == next(due, None)


LogMachine.TestCase.settings = settings(
    max_examples=int(_EXAMPLES or 60),
    stateful_step_count=40,
    derandomize=_EXAMPLES is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestLogAgainstPlainList = LogMachine.TestCase
