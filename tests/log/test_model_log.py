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
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quorate.chaos.models.log.log_harness import LogHarness
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import decode_batch, parse_header
from quorate.errors import CorruptBatch, DiskFull, QuorateError, StorageFailed
from quorate.storage import Appended, LogConfig, PartitionLog, StartKind, log_writer
from quorate.storage.inspect import verify
from quorate.storage.segment import NO_TIMESTAMP, Segment
from tests.log.log_model import LogModel, Stages, StoredBatch, adopt, adopt_after_power_loss, stamped
from tests.log.model_clients import Answer, Message, messages

_EXAMPLES: Final = os.environ.get("QUORATE_MODEL_EXAMPLES")

_CONFIG: Final = LogConfig(
    segment_bytes=700,
    segment_ms=1_000,
    index_interval_bytes=150,
    retention_ms=3_000,
    retention_bytes=2_500,
    max_message_bytes=100_000,
)
#: a disk operation that changes nothing is no place to die at
_CHANGES: Final = frozenset(
    {"pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory"}
)

#: an offset or a position: taken modulo what there is
places = st.integers(0, 1 << 16)
seeds = st.integers(0, 1 << 16)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.harness = LogHarness(_CONFIG)
        self.model = LogModel()
        #: the seed of the power loss that the process dies of; None: of something else
        self.power_loss: int | None = None
        self.label = 0
        self.patch = pytest.MonkeyPatch()

    def teardown(self) -> None:
        self.patch.undo()
        self.loop.close()

    @property
    def log(self) -> PartitionLog:
        return self.harness.log

    @property
    def is_doomed(self) -> bool:
        return self.harness.disk.fault_hook is not None

    @property
    def disk_is_full(self) -> bool:
        return self.harness.disk.capacity_bytes is not None

    @initialize(snapshots_wait=st.booleans())
    def start(self, snapshots_wait: bool) -> None:
        """``snapshots_wait``: two producers are many, whose snapshot is written with the next checkpoint."""
        if snapshots_wait:
            self.patch.setattr(log_writer, "HEADERS_PER_STEP", 1)
        self.loop.run_until_complete(self.harness.lead(0))
        self.model = self.model.lead(0)[-1]

    # -- one operation of the log, and what may come of it

    def run(self, result: Awaitable[object] | object) -> object:
        return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

    def perform(self, stages: Stages, operation: Callable[[], object]) -> None:
        try:
            self.run(operation())
        except ProcessDied:
            self.die(stages)
        except DiskFull:
            assert self.disk_is_full
            self.follow(stages)
        else:
            self.follow(stages[-1:])

    def follow(self, stages: Stages, *, after_crash: bool = False) -> None:
        """The log is in one of the stages, and its segments are no larger than allowed."""
        self.model = adopt(stages, self.log, after_crash=after_crash)
        for segment in self.log._state.segments:
            assert segment.size <= _CONFIG.segment_bytes or len(self.batches_in(segment)) == 1

    def batches_in(self, segment: Segment) -> list[StoredBatch]:
        offsets = range(segment.base_offset, segment.next_offset)
        return [each for each in self.model.in_files if each.base_offset in offsets]

    def die(self, stages: Stages) -> None:
        """By the doom, which is fulfilled with it."""
        power_loss = self.power_loss
        self.harness.disk.fault_hook = self.power_loss = None
        self.come_back(stages, power_loss)

    def come_back(
        self, stages: Stages, power_loss: int | None, start: StartKind = StartKind.PROCESS_CRASH
    ) -> None:
        if power_loss is None:
            self.harness.disk.crash()
        else:
            self.harness.disk.power_loss(random.Random(power_loss))
            start = StartKind.LOSSY
        if start is StartKind.PROCESS_CRASH:
            self.check_that_a_dead_process_leaves_no_damage()
        self.open(stages, start)

    def open(self, stages: Stages, start: StartKind) -> None:
        # Whoever dies on the way has removed the marker, but not yet made up for a power loss.
        if_it_dies = StartKind.PROCESS_CRASH if start is StartKind.CLEAN else start
        try:
            self.run(self.harness.open(start))
        except ProcessDied:
            power_loss = self.power_loss
            self.harness.disk.fault_hook = self.power_loss = None
            self.come_back(stages, power_loss, if_it_dies)
            return
        except StorageFailed:
            assert self.disk_is_full
            self.make_room()
            self.come_back(stages, None, if_it_dies)
            return
        assert self.log.damage is None, self.log.damage
        if start is StartKind.LOSSY:
            self.model = adopt_after_power_loss(stages, self.log)
        else:
            self.follow(stages, after_crash=self.log.opening_report.start is not StartKind.CLEAN)
            # What was recovered does not depend on the page cache any more.
            self.model = self.model.flush()[-1]

    def check_that_a_dead_process_leaves_no_damage(self) -> None:
        if self.harness.files(".log"):
            (report,) = verify(self.harness.disk, self.harness.directory)
            assert not report.is_damaged, report.problems

    # -- the world

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
        power_loss=st.none() | seeds,
    )
    def doom_the_process(self, changes: int, written: int, power_loss: int | None) -> None:
        """It dies at its n-th change of the disk from now, or whoever comes after it."""
        self.power_loss = power_loss
        self.harness.disk.fault_hook = fail_nth(changes, ProcessDied(written=written), names=_CHANGES)

    # -- appending

    @rule(step=st.integers(0, 2))
    def become_leader(self, step: int) -> None:
        epoch = max(0, self.model.latest_epoch) + step
        self.perform(self.model.lead(epoch), lambda: self.log.become_leader(LeaderEpoch(epoch)))

    @rule(group=st.lists(messages, min_size=1, max_size=5))
    def append_as_leader(self, group: list[Message]) -> None:
        if self.model.latest_epoch < 0:
            return
        if self.disk_is_full and self.is_doomed:
            del group[1:]  # which of several had room when it died cannot be known
        sent, answers, after = self.plan(group)
        stages = self.model.append(*[each.content for each in after.batches[len(self.model.batches) :]])
        try:
            outcomes = self.send(sent)
        except ProcessDied:
            self.die(stages)
            return
        if any(isinstance(outcome, DiskFull) for outcome in outcomes):
            assert self.disk_is_full
            stages = self.model.append(*self.accepted(sent, outcomes))
        else:
            for outcome, answer in zip(outcomes, answers, strict=True):
                answer.check(outcome)
        self.follow(stages[-1:])

    def plan(self, group: list[Message]) -> tuple[list[bytes], list[Answer], LogModel]:
        """What clients send, what they must be answered, and what comes of it."""
        sent, answers, after = [], [], self.model
        for message in group:
            sent.append(self.encode(message, after))
            answers.append(Answer.to(sent[-1], after))
            if answers[-1].is_new:
                (*_, after) = after.append(self.stored(sent[-1], after, self.model.latest_epoch))
        return sent, answers, after

    def send(self, sent: list[bytes]) -> list[Appended | QuorateError]:
        epoch = LeaderEpoch(self.model.latest_epoch)
        outcomes: list[Appended | QuorateError] = []
        for each in sent:
            try:
                outcomes.append(self.log.append_as_leader(each, leader_epoch=epoch))
            except QuorateError as error:
                outcomes.append(error)
        return outcomes

    def accepted(self, sent: list[bytes], outcomes: list[Appended | QuorateError]) -> list[bytes]:
        """On a full disk a batch is in the log if, and only if, its answer says so."""
        return [
            stamped(each, base_offset=outcome.base_offset, leader_epoch=self.model.latest_epoch)
            for each, outcome in zip(sent, outcomes, strict=True)
            if isinstance(outcome, Appended) and not outcome.is_duplicate
        ]

    def encode(self, message: Message, model: LogModel) -> bytes:
        self.label += 1
        return message.encode(label=self.label, now_ms=self.harness.clock.now_ms, producers=model.producers)

    def stored(self, sent: bytes, model: LogModel, leader_epoch: int) -> bytes:
        return stamped(sent, base_offset=model.log_end_offset, leader_epoch=leader_epoch)

    @rule(group=st.lists(st.tuples(messages, st.sampled_from((0, 0, 1, 3))), min_size=1, max_size=5))
    def append_as_follower(self, group: list[tuple[Message, int]]) -> None:
        stages: Stages = (self.model,)
        for message, epoch_step in group:
            model = stages[-1]
            epoch = max(0, model.last_batch_epoch) + epoch_step
            stages += model.append(self.stored(self.encode(message, model), model, epoch))[1:]
        added = b"".join(stage.batches[-1].content for stage in stages[1:])
        self.perform(stages, lambda: self.log.append_as_follower(added))

    @rule(message=messages, fault=st.sampled_from(("gap", "overlap", "bit", "cut")))
    def refuse_what_does_not_follow(self, message: Message, fault: str) -> None:
        model = self.model
        if fault == "overlap" and not model.in_files:
            return
        offset = model.log_end_offset + {"gap": 1, "overlap": -1}.get(fault, 0)
        epoch = max(0, model.last_batch_epoch)
        bad = bytearray(stamped(self.encode(message, model), base_offset=offset, leader_epoch=epoch))
        if fault == "bit":
            bad[-1] ^= 1
        elif fault == "cut":
            del bad[-1]

        def refuse() -> None:
            with pytest.raises(CorruptBatch):
                self.log.append_as_follower(bytes(bad))

        self.perform((model,), refuse)

    @rule()
    def roll_if_old(self) -> None:
        self.perform((self.model,), lambda: self.log.roll_if_old())

    # -- durability

    @rule()
    def flush(self) -> None:
        self.perform(self.model.flush(), lambda: self.log.flush())

    @rule(message=messages)
    def append_while_flushing(self, message: Message) -> None:
        """What is appended while the device works is not covered."""
        before, flushed = self.model.flush()
        stored = self.stored(self.encode(message, before), before, max(0, before.last_batch_epoch))

        async def flush_and_append() -> None:
            flush = asyncio.ensure_future(self.log.flush())
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                self.log.append_as_follower(stored)
            finally:
                await flush

        self.perform((before, *before.append(stored), *flushed.append(stored)), flush_and_append)

    @rule()
    def checkpoint(self) -> None:
        self.perform((self.model,), lambda: self.log.checkpoint())

    # -- making it shorter

    def offset_at(self, place: int, *, beyond: int = 0) -> int:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        return start + place % (end - start + 1 + beyond)

    @rule(place=places)
    def truncate(self, place: int) -> None:
        offset = self.offset_at(place, beyond=1)
        self.perform(self.model.truncate(offset), lambda: self.log.truncate_to(Offset(offset)))

    @rule(place=places)
    def advance_log_start(self, place: int) -> None:
        offset = self.offset_at(place)
        stages = self.model.raise_log_start(offset)
        self.perform(stages, lambda: self.log.advance_log_start(Offset(offset)))

    @rule(place=st.none() | places, message=messages, turns=st.integers(0, 6), with_checkpoint=st.booleans())
    def append_while_log_start_rises(
        self, place: int | None, message: Message, turns: int, with_checkpoint: bool
    ) -> None:
        """The batch may begin a segment, where the log ended when the rise began."""
        before = self.model
        offset = before.log_end_offset if place is None else self.offset_at(place)
        stored = self.stored(self.encode(message, before), before, max(0, before.last_batch_epoch))
        (*_, risen) = before.raise_log_start(offset)

        async def append() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            self.log.append_as_follower(stored)
            if with_checkpoint:
                await self.log.checkpoint()

        async def raise_and_append() -> None:
            both = self.log.advance_log_start(Offset(offset)), append()
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            errors = [each for each in outcomes if each is not None]
            # Whatever became of the other: a process that died is dead.
            for error in sorted(errors, key=lambda each: not isinstance(each, ProcessDied)):
                raise error

        self.perform((*before.append(stored), *risen.append(stored)), raise_and_append)

    @rule(place=places)
    def apply_retention(self, place: int) -> None:
        high_watermark = self.offset_at(place)
        stages = self.model.raise_log_start(self.log_start_after_retention(high_watermark))
        self.perform(stages, lambda: self.log.apply_retention(below=Offset(high_watermark)))

    def log_start_after_retention(self, high_watermark: int) -> int:
        """The log decides where segments end; which of them may go follows from the batches."""
        start = self.model.log_start_offset
        excess = sum(len(each.content) for each in self.model.in_files) - _CONFIG.retention_bytes
        for segment in self.log._state.segments:
            held = self.batches_in(segment)
            if not held or held[-1].next_offset > high_watermark:
                break
            size = sum(len(each.content) for each in held)
            newest = max(parse_header(each.content).max_timestamp for each in held)
            age_ms = self.harness.clock.now_ms - newest if newest != NO_TIMESTAMP else 0
            if excess < size and age_ms <= _CONFIG.retention_ms:
                break
            excess -= size
            start = max(start, held[-1].next_offset)
        return start

    @rule(offset=places)
    def reset(self, offset: int) -> None:
        self.perform(self.model.reset(offset), lambda: self.log.reset_to(Offset(offset)))

    # -- the end of a process

    @rule(power_loss=st.none() | seeds)
    def close_and_open(self, power_loss: int | None) -> None:
        """After a clean stop nothing is lost, not even with the power."""
        stages = (self.model,)
        try:
            is_clean = self.run(self.log.close())
        except ProcessDied:
            self.die(stages)
            return
        if not is_clean:
            assert self.disk_is_full
            self.come_back(stages, None)
            return
        if power_loss is not None:
            self.harness.disk.power_loss(random.Random(power_loss))
        self.open(stages, StartKind.CLEAN)

    @rule()
    def crash(self) -> None:
        self.come_back((self.model,), None)

    @rule(seed=seeds)
    def lose_power(self, seed: int) -> None:
        self.come_back((self.model,), seed)

    # -- reading

    @rule(place=places, bytes_max=st.sampled_from((1, 200, 500, 1 << 20)), until=st.none() | places)
    def read(self, place: int, bytes_max: int, until: int | None) -> None:
        offset = self.offset_at(place)
        end_offset = None if until is None else Offset(self.offset_at(until))
        due = self.due_from_read(offset, bytes_max, end_offset)
        found = self.log.read(Offset(offset), bytes_max=bytes_max, end_offset=end_offset)
        assert found.batches == b"".join(each.content for each in due)
        assert found.next_offset == (due[-1].next_offset if due else offset)

    def due_from_read(self, offset: int, bytes_max: int, end_offset: int | None) -> list[StoredBatch]:
        """Of one segment at most, one batch at least."""
        due: list[StoredBatch] = []
        room = bytes_max
        for each in self.batches_in(self.log._state.segment_of(Offset(offset))):
            if each.next_offset <= offset:
                continue
            room -= len(each.content)
            if (end_offset is not None and each.next_offset > end_offset) or (due and room < 0):
                break
            due.append(each)
        return due

    @rule()
    def find_every_timestamp(self) -> None:
        records = [
            (record.offset, record.timestamp)
            for each in self.model.readable
            for record in decode_batch(each.content)
            if record.offset >= self.model.log_start_offset
        ]
        for asked in {timestamp + step for _, timestamp in records for step in (0, 1)}:
            due = next((record for record in records if record[1] >= asked), None)
            assert self.log.find_timestamp(TimestampMs(asked)) == due


LogMachine.TestCase.settings = settings(
    max_examples=int(_EXAMPLES or 120),
    stateful_step_count=40,
    derandomize=_EXAMPLES is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestLogAgainstPlainList = LogMachine.TestCase
