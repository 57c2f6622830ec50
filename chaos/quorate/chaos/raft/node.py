"""One node of the simulated quorum: the real core, and a model of its driver.

The driver keeps the contract in ``quorate.metadata.raft.ready`` to the letter, and uses the freedom that it
leaves: one sync covers many ``Ready``s, whatever comes while it runs waits for the next, and a crash comes at
any moment in between. It can be paused as a process can be stopped: what is sent to it meanwhile waits.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quorate.chaos.raft.ambush import Ambush, Moment
from quorate.chaos.raft.conditions import Conditions
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.invariants import Checker
from quorate.chaos.raft.links import Links
from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.chaos.raft.trace import Trace
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.chaos.raft.voter_disk import VoterDisk
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.ready import (
    Answer,
    Event,
    Persisted,
    Ready,
    Received,
    Role,
    Tick,
    Trimmed,
)
from quorate.metadata.raft.voters import NodeId, VoterKey, Voters
from quorate.metadata.raft.voters_codec import decode_voters

__all__ = ["OnAnswer", "OnApplied", "SimulatedNode", "Surroundings"]

#: None: the node died with the question, or hides its answer
OnAnswer: TypeAlias = Callable[[Answer | None], None]
#: None: it died before it had applied so much
OnApplied: TypeAlias = Callable[[RegisterMachine | None], None]

#: a deadline met by a hair too early would be asked for again and again
_TICK_SLACK_S = 1e-6
_STEPS_PER_VALIDATION = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all nodes share."""

    time: VirtualTime
    links: Links
    checker: Checker
    counters: Counters
    conditions: Conditions
    random: random.Random
    ambush: Ambush
    trace: Trace | None


class SimulatedNode:
    def __init__(self, node_id: NodeId, disk: VoterDisk, surroundings: Surroundings) -> None:
        self.node_id = node_id
        self.disk = disk
        self.core: RaftCore | None = None
        self.machine = RegisterMachine()
        #: syncs take this many times as long as usual
        self.sync_factor = 1.0
        self._around = surroundings
        self._time = surroundings.time
        # the node's own clock: offset + rate * time
        self._clock_offset = surroundings.random.uniform(0, 1000)
        self._clock_rate = 1.0
        #: of the process; whatever was planned for an earlier one is void
        self._life = 0
        #: paused: what it will do first when it is resumed
        self._backlog: list[tuple[Callable[[Any], None], Any]] | None = None

    # --- what the invariants see ----------------------------------------------------------------------

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.node_id, self.disk.directory_id)

    @property
    def is_up(self) -> bool:
        return self.core is not None

    @property
    def is_paused(self) -> bool:
        return self._backlog is not None

    @property
    def is_leader(self) -> bool:
        return self.core is not None and self.core.role is Role.LEADER

    @property
    def is_recovering(self) -> bool:
        return self.disk.hard_state.is_recovering

    @property
    def term(self) -> Term:
        return self._core.term

    @property
    def commit_index(self) -> Index:
        return self._core.commit_index

    @property
    def last_index(self) -> Index:
        return self._core.last_index

    @property
    def voters(self) -> Voters:
        return self._core.voters

    def term_at(self, index: Index) -> Term | None:
        return self._core.term_at(index)

    def is_compacted(self, index: Index) -> bool:
        return index < self._core.first_index

    def entries_between(self, first: Index, last: Index) -> Sequence[Entry]:
        return self._core.entries_from(first)[: last - first + 1]

    @property
    def _core(self) -> RaftCore:
        assert self.core is not None, f"node {self.node_id} is down"
        return self.core

    # --- its life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process comes up on what the disk holds."""
        assert self.core is None
        around = self._around
        self._life += 1
        self.disk.start()
        restored = self.disk.restored()
        snapshot = self.disk.snapshot
        self.machine = RegisterMachine() if snapshot is None else RegisterMachine.load(snapshot.data)
        self._applied_term = Term(0) if snapshot is None else snapshot.id.term
        self._applied_voters = restored.voters
        self._unsynced: list[Ready] = []
        self._is_syncing = False
        self._durable_sequence = -1
        self._to_apply: deque[Ready] = deque()
        self._questions: dict[int, OnAnswer] = {}
        self._readers: list[tuple[Index, OnApplied]] = []
        self._tick_due = float("inf")
        self._led_term = Term(0)
        self._snapshot_after = 0
        self._seen_last = self.disk.last_index
        self.core = RaftCore(
            self.key,
            restored,
            timing=around.conditions.timing,
            limits=around.conditions.limits,
            random=random.Random(around.random.getrandbits(64)),
            now=self._clock(),
        )
        self._seen_commit = self.core.commit_index
        if around.trace is not None:
            around.trace.note(self.node_id, f"starts {self.core.incarnation} with {restored}")
        around.checker.started(self)
        # So that the core can send it to a voter that needs what it stands for.
        self._step(Tick() if snapshot is None else Trimmed(snapshot))

    def crash(self) -> None:
        """The process is gone, and with it a part of what no sync has covered."""
        around = self._around
        lost = self.disk.write_part(self._unsynced, around.random)
        around.counters.lost_unsynced_writes += lost
        around.counters.crashes += 1
        if around.trace is not None:
            around.trace.note(self.node_id, f"crashes and loses {lost} unsynced writes")
        self._report_cut()
        self.core = None
        self._backlog = None
        self._life += 1
        for on_answer in list(self._questions.values()):
            on_answer(None)
        for _, on_applied in self._readers:
            on_applied(None)

    def pause(self) -> None:
        if self._backlog is None:
            self._backlog = []

    def resume(self) -> None:
        """What had come meanwhile is handled at once, in the order in which it came."""
        backlog, self._backlog = self._backlog, None
        for action, argument in backlog or ():
            action(argument)

    def change_clock(self, rate: float) -> None:
        """From now on it runs at this rate; it never jumps, as no monotonic clock does."""
        now = self._clock()
        self._clock_rate = rate
        self._clock_offset = now - rate * self._time.now
        if self.core is not None:
            self._tick_due = float("inf")
            self._plan_tick(now)

    def take_snapshot(self) -> None:
        """Of the applied state; the core hears of it once it is durable."""
        index = Index(self.machine.applied_index)
        if (
            self.core is None
            or self.is_paused
            or index <= self.disk.base_index
            or not len(self._applied_voters)
        ):
            return
        identity = SnapshotId(index, self._applied_term)
        snapshot = Snapshot(identity, self._applied_voters, self.machine.save())
        self._around.counters.snapshots_taken += 1
        self._time.after(self._sync_seconds(), self._snapshot_is_durable, (self._life, snapshot))

    # --- questions ------------------------------------------------------------------------------------

    def ask(self, request_id: int, event: Event, on_answer: OnAnswer) -> None:
        self.ask_about([request_id], event, [on_answer])

    def ask_about(self, request_ids: Sequence[int], event: Event, on_answers: Sequence[OnAnswer]) -> None:
        """One event with many questions."""
        if self.core is None:
            for on_answer in on_answers:
                on_answer(None)
            return
        self._questions.update(zip(request_ids, on_answers, strict=True))
        self.handle(event)

    def when_applied(self, index: Index, on_applied: OnApplied) -> None:
        if self.machine.applied_index >= index:
            on_applied(self.machine)
        else:
            self._readers.append((index, on_applied))

    @property
    def open_questions(self) -> int:
        return len(self._questions) if self.core is not None else 0

    # --- the driver -----------------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        if self.core is not None:
            self.handle(Received(envelope))

    def handle(self, event: Event) -> None:
        if self._backlog is not None:
            self._backlog.append((self.handle, event))
        elif self.core is not None:
            self._step(event)

    def _step(self, event: Event) -> None:
        core, around = self.core, self._around
        assert core is not None
        ready = core.step(event, self._clock_offset + self._clock_rate * self._time.now)
        around.counters.steps += 1
        # It looks at the whole state and remembers what it saw, so that it need not be asked every time.
        if not around.counters.steps % _STEPS_PER_VALIDATION:
            core.validate()
        if around.trace is not None:
            around.trace.step(self.node_id, event, ready, core)
        self._observe(core, ready)
        for envelope in ready.send_now:
            self._send(envelope)
        if ready.must_persist or ready.send_after_persist:
            self._persist(ready)
        if ready.snapshot is not None or ready.committed:
            self._to_apply.append(ready)
            self._apply()
        for answer in ready.answers:
            self._answer(answer)
        self._plan_tick(ready.next_deadline)

    def _observe(self, core: RaftCore, ready: Ready) -> None:
        """Tell the invariants what this step has changed."""
        checker, counters = self._around.checker, self._around.counters
        if ready.snapshot is not None:
            counters.snapshots_installed += 1
            checker.installed(self, ready.snapshot, self._seen_commit)
            self._around.ambush.passes(self, Moment.INSTALLING)
            self._seen_commit = self._seen_last = ready.snapshot.id.index
        entries = ready.entries
        if entries:
            if entries[0].index <= self._seen_last:
                counters.truncations += 1
            checker.appended(self, entries, self._seen_last)
            self._seen_last = entries[-1].index
        commit_index = core.commit_index
        if commit_index != self._seen_commit:
            previous, self._seen_commit = self._seen_commit, commit_index
            if commit_index > previous:
                checker.committed(self, self.entries_between(Index(previous + 1), commit_index))
            checker.commit_moved(self, previous)
        if core.role is Role.LEADER and self._led_term != core.term:
            self._led_term = core.term
            counters.elections += 1
            checker.elected(self)
            self._around.ambush.passes(self, Moment.ELECTED)

    def _send(self, envelope: Envelope) -> None:
        self._around.checker.sent(self, envelope)
        self._around.links.send(envelope)

    # --- syncing --------------------------------------------------------------------------------------

    def _persist(self, ready: Ready) -> None:
        """Messages that depend on what is not durable yet wait for it."""
        if ready.must_persist or self._unsynced:
            self._unsynced.append(ready)
            self._sync()
        else:
            for envelope in ready.send_after_persist:
                self._send(envelope)

    def _sync(self) -> None:
        """One sync at a time; it covers all that is waiting when it starts."""
        if self._is_syncing or not self._unsynced:
            return
        self._is_syncing = True
        if self._around.ambush.is_armed:
            self._pass_ambush()
        self._time.after(self._sync_seconds(), self._is_synced, (self._life, len(self._unsynced)))

    def _pass_ambush(self) -> None:
        ambush, newest = self._around.ambush, self._unsynced[-1]
        if newest.hard_state is not None:
            ambush.passes(self, Moment.VOTING)
        elif newest.entries:
            ambush.passes(self, Moment.LEADING if self.is_leader else Moment.FOLLOWING)

    def _is_synced(self, sync: tuple[int, int]) -> None:
        life, count = sync
        if life != self._life:
            return
        if self._backlog is not None:
            self._backlog.append((self._is_synced, sync))
            return
        durable, self._unsynced = self._unsynced[:count], self._unsynced[count:]
        self._is_syncing = False
        was_recovering = self.is_recovering
        for ready in durable:
            self.disk.write(ready)
            for envelope in ready.send_after_persist:
                self._send(envelope)
        self._report_cut()
        if was_recovering and not self.is_recovering:
            self._around.counters.recoveries += 1
            self._around.checker.recovered(self, self.disk.lost_to_damage())
            self._around.ambush.passes(self, Moment.RECOVERED)
        self._durable_sequence = durable[-1].sequence
        self._apply()
        self.handle(Persisted(self._durable_sequence))
        self._sync()

    def _sync_seconds(self) -> float:
        around = self._around
        return around.conditions.sync_s * self.sync_factor * (0.5 + around.random.random())

    def _report_cut(self) -> None:
        for entry, term in self.disk.cut:
            self._around.checker.cut(self, [entry], term)
        self.disk.cut.clear()

    def _snapshot_is_durable(self, saved: tuple[int, Snapshot]) -> None:
        life, snapshot = saved
        if life != self._life:
            return
        self.disk.save_own_snapshot(snapshot)
        self.handle(Trimmed(snapshot))

    # --- applying -------------------------------------------------------------------------------------

    def _apply(self) -> None:
        """In order; an installed snapshot, and what comes after it, once it is durable."""
        waiting, checker = self._to_apply, self._around.checker
        while waiting and (waiting[0].snapshot is None or waiting[0].sequence <= self._durable_sequence):
            ready = waiting.popleft()
            if ready.snapshot is not None:
                self._install(ready.snapshot)
            for entry in ready.committed:
                self.machine.apply(entry)
                self._applied_term = entry.term
                if entry.kind is EntryKind.VOTERS:
                    self._applied_voters = decode_voters(entry.data)
            applied = self.machine.applied_index
            checker.applied(self, Index(applied), self.machine.digest)
            every = self._around.conditions.snapshot_every
            if every and applied - self.disk.base_index >= every and applied >= self._snapshot_after:
                self._snapshot_after = applied + every
                self.take_snapshot()
            self._let_read()

    def _install(self, snapshot: Snapshot) -> None:
        self.machine = RegisterMachine.load(snapshot.data)
        self._applied_term = snapshot.id.term
        self._applied_voters = snapshot.voters

    def _let_read(self) -> None:
        if self._readers:
            applied = self.machine.applied_index
            allowed = [reader for reader in self._readers if reader[0] <= applied]
            self._readers = [reader for reader in self._readers if reader[0] > applied]
            for _, on_applied in allowed:
                on_applied(self.machine)

    def _answer(self, answer: Answer) -> None:
        on_answer = self._questions.pop(answer.request_id, None)
        assert on_answer is not None, f"node {self.node_id} answers what nobody asked: {answer}"
        on_answer(answer)

    # --- time -----------------------------------------------------------------------------------------

    def _clock(self) -> float:
        return self._clock_offset + self._clock_rate * self._time.now

    def _plan_tick(self, deadline: float) -> None:
        when = max((deadline - self._clock_offset) / self._clock_rate, self._time.now) + _TICK_SLACK_S
        # A tick that comes too early finds nothing due, and is planned again.
        if when < self._tick_due:
            self._tick_due = when
            self._time.at(when, self._tick, (self._life, when))
        self._deadline = deadline

    def _tick(self, planned: tuple[int, float]) -> None:
        life, when = planned
        if life != self._life or when != self._tick_due:
            return
        self._tick_due = float("inf")
        if self._clock() < self._deadline:
            self._plan_tick(self._deadline)
        else:
            self.handle(Tick())
