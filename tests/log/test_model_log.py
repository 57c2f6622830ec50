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
from typing import Any, ClassVar, Final, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from tests.log.log_harness import LogHarness, ProducerImage, batch, split_batches
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
    {"open", "pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory"}
)
_SEQUENCES: Final = 1 << 31


class Content(NamedTuple):
    """The records of a batch to be."""

    value_sizes: list[int]
    #: of each record, relative to now; cycles
    ages_ms: list[int]
    compression: Compression


class Sender(NamedTuple):
    """Who sends a batch: an idempotent producer, and how its sequence follows what it sent before."""

    producer_id: int
    epoch_step: int
    #: 0 is next, -1 the last batch again, -2 the one before, positive a gap
    sequence_step: int


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


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.harness = LogHarness(_CONFIG)
        self.model = LogModel()
        #: every batch that was ever on its way into the log
        self.ever: set[bytes] = set()
        #: what to do when the process dies in an operation: None, or the seed of a power loss
        self.death: int | None = None
        self.value_count = 0

    @property
    def log(self) -> PartitionLog:
        return self.harness.log

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
            self.model = adopt(stages, self.log)
            return None
        self.model = adopt(stages[-1:], self.log)
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
            self.model = adopt_after_power_loss(stages, self.log, ever=self.ever)
        else:
            was_clean = self.log.opening_report.start is StartKind.CLEAN
            self.model = adopt(stages, self.log, after_crash=not was_clean).flush()[-1]

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

    @precondition(lambda self: self.harness.disk.fault_hook is None)
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
        before = self.model.latest_epoch
        stages = self.model.lead(epoch)
        if epoch == before:
            stages = (self.model,)
        else:
            # An epoch that could not be put on record takes an older one without batches with it.
            stages = (self.model, self.model.recovered(), stages[-1])
        self.perform(stages, lambda: self.log.become_leader(LeaderEpoch(epoch)))

    @rule(content=contents, sender=senders)
    def append_one_as_leader(self, content: Content, sender: Sender | None) -> None:
        self.append_group_as_leader([(content, sender)])

    @rule(members=st.lists(st.tuples(contents, senders), min_size=2, max_size=5))
    def append_several_as_leader(self, members: list[tuple[Content, Sender | None]]) -> None:
        self.append_group_as_leader(members)

    def append_group_as_leader(self, members: list[tuple[Content, Sender | None]]) -> None:
        epoch = self.model.latest_epoch
        if epoch < 0:
            return
        sent: list[bytes] = []
        expected: list[object] = []
        after = self.model
        for content, sender in members:
            sent.append(self.client_batch(content, sender, after))
            answer = _answer_to(sent[-1], after.producers)
            expected.append(answer)
            if answer is None:
                stored = stamped(sent[-1], base_offset=after.log_end_offset, leader_epoch=epoch)
                expected[-1] = StoredBatch.of(stored)
                after = after.append(stored)[-1]
        added = [batch.content for batch in after.batches[len(self.model.batches) :]]
        self.ever.update(added)
        leader_epoch = LeaderEpoch(epoch)

        def append() -> list[Appended | QuorateError]:
            if len(sent) == 1:
                return [_outcome(lambda: self.log.append_as_leader(sent[0], leader_epoch=leader_epoch))]
            return self.log.append_all_as_leader(sent, leader_epoch=leader_epoch)

        self.follow_outcomes(added, expected, append)

    def follow_outcomes(
        self, added: list[bytes], expected: list[object], append: Callable[[], list[Appended | QuorateError]]
    ) -> None:
        stages = self.model.append(*added)
        try:
            outcomes = append()
        except ProcessDied:
            self.die(stages)
            return
        if any(isinstance(outcome, DiskFull) for outcome in outcomes):
            assert self.disk_is_full
            self.adopt_what_fitted(outcomes)
            return
        self.model = adopt(stages[-1:], self.log)
        for outcome, due in zip(outcomes, expected, strict=True):
            _check_outcome(outcome, due)

    def adopt_what_fitted(self, outcomes: list[Appended | QuorateError]) -> None:
        """On a full disk each batch is in the log if, and only if, the answer says so."""
        end = self.model.log_end_offset
        accepted = {outcome.base_offset for outcome in outcomes if isinstance(outcome, Appended)}
        in_log = [StoredBatch.of(b) for b in split_batches(self.log.read(Offset(end), bytes_max=1 << 30).batches)]
        del in_log, accepted
        self.model = adopt(self.model.append(*self.read_from(end)), self.log)

    def read_from(self, offset: int) -> list[bytes]:
        found: list[bytes] = []
        while offset < self.log.log_end_offset:
            part = self.log.read(Offset(offset), bytes_max=1 << 30)
            found += split_batches(part.batches)
            offset = part.next_offset
        return found
