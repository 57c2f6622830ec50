"""Connects the core with the journal, the other voters, the state machine and the clock.

All that happens is an event, and ``_step`` is the only place where one meets the core: it takes the ``Ready``
apart and hands each part to whoever deals with it. Nothing is queued on the way in. Whoever brings an event
(a stream from a peer, a timer, a finished sync, a caller) steps it at once, so no task has to be woken, and a
peer that sends too fast is held back by its own stream. Steps never overlap: none of them waits, and what is
asked for inside one comes after it.

- ``send_now`` leaves before anything is written: followers write while the leader does.
- ``Persistence`` makes the rest durable, one sync for all that wait, and then releases what depended on it.
- ``Applier`` gives committed entries to the state machine in the step that commits them.

Proposals of one turn of the event loop become one event, hence one request to each follower. That a caller
knows the index of its proposal at once is still true: nothing else is stepped between a proposal and the
event that it becomes part of (``_flush``), and the core is asked beforehand whether it will take it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from quorate.core.clock import Clock, Timer
from quorate.core.logging import get_logger
from quorate.errors import ControllerMoved, NotController
from quorate.metadata.raft.applying import Applier, StateMachine
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.messages import AppendRequest, Envelope, SnapshotRequest
from quorate.metadata.raft.own_snapshots import OwnSnapshots
from quorate.metadata.raft.peers import Peers
from quorate.metadata.raft.persistence import Persistence
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from quorate.metadata.raft.ready import (
    AddVoter,
    Event,
    PeerGone,
    Persisted,
    Propose,
    ReadBarrier,
    Ready,
    Received,
    RemoveVoter,
    Role,
    SoftState,
    Tick,
    Transfer,
    Trimmed,
)
from quorate.metadata.raft.requests import Proposal, Request, VoterChange, error_of
from quorate.metadata.raft.voters import Voter, VoterKey, Voters

__all__ = ["Driver"]

log = get_logger(__name__)

#: timers round: one that fires a little early must not be set again for no time at all, over and over
_TIMER_S_MIN: Final = 0.001
#: proposals in one event; more are put into the next one
_BATCH_MAX: Final = 128


class Driver:
    def __init__(
        self,
        core: RaftCore,
        directory: QuorumDirectory,
        peers: Peers,
        state_machine: StateMachine,
        clock: Clock,
        *,
        snapshot_interval_bytes: int,
        transfer_patience_s: float,
        on_fatal: Callable[[str], NoReturn],
    ) -> None:
        self.core = core
        self.applier = Applier(state_machine, on_fatal=on_fatal)
        self._directory = directory
        self._peers = peers
        self._state_machine = state_machine
        self._clock = clock
        self._transfer_patience_s = transfer_patience_s
        self._on_fatal = on_fatal
        self._persistence = Persistence(
            directory, clock=clock, on_durable=self._on_durable, on_fatal=on_fatal
        )
        self._snapshots = OwnSnapshots(
            core,
            directory,
            state_machine,
            self.applier,
            interval_bytes=snapshot_interval_bytes,
            on_saved=lambda snapshot: self.step(Trimmed(snapshot)),
            on_fatal=on_fatal,
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._soft_state: SoftState | None = None
        self._voters: Voters | None = None
        self._timer: Timer | None = None
        self._timer_due = 0.0
        #: when a leader was last heard, on the monotonic clock; None: never
        self._leader_heard_at: float | None = None
        #: set anew for every question
        self._leadership_lost = asyncio.Event()
        self._is_stepping = False
        #: the one that is stepped next, and those that were asked for inside a step
        self._events: deque[Event] = deque()
        self._request_ids = itertools.count(1)
        self._requests: dict[int, Request] = {}
        #: proposals of this turn
        self._batch: Propose | None = None

    async def run(self) -> None:
        """Until cancelled."""
        if self._directory.snapshot is not None:
            await self.applier.install(self._directory.snapshot)
        async with asyncio.TaskGroup() as self._tasks:
            peers = self._peers.run(on_gone=lambda peer: self.step(PeerGone(peer)))
            self._tasks.create_task(peers, name="quorum-peers")
            persistence = self._tasks.create_task(self._persistence.run(), name="quorum-persistence")
            try:
                if self._directory.snapshot is not None:
                    self.step(Trimmed(self._directory.snapshot))
                self.step(Tick())
                await asyncio.get_running_loop().create_future()
            finally:
                self._stop()
                # Not cancelled in the middle of a write: what is begun is finished.
                await asyncio.wait([persistence])

    def _stop(self) -> None:
        self._tasks = None
        self._persistence.stop()
        if self._timer is not None:
            self._timer.cancel()
        error = ControllerMoved("this controller stops; whether the change was made is not known")
        for request in self._requests.values():
            request.settle(error)
        self._requests.clear()
        self.applier.give_up(error)

    # --- events ---------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        if self._tasks is None:
            return  # not begun, or at its end: as if the event were lost on its way
        self._events.append(event)
        # Inside a step: the state machine has asked for it. Its turn comes when that step is done.
        while self._events and not self._is_stepping:
            self._flush()
            self._step(self._events.popleft())

    def receive(self, envelope: Envelope) -> None:
        """From a peer. What is not for this directory is dropped by the core (rule 41)."""
        self.step(Received(envelope))
        message = envelope.message
        if isinstance(message, AppendRequest | SnapshotRequest) and envelope.sender == self.core.leader:
            self._leader_heard_at = self._clock.monotonic()

    def _step(self, event: Event) -> None:
        assert not self._is_stepping
        self._is_stepping = True
        try:
            self._dispatch(self.core.step(event, self._clock.monotonic()))
        except Exception as error:
            # A bug, here or in the core: what it leaves behind must not vote or answer.
            log.exception("quorum_step_failed", step=type(event).__name__)
            self._on_fatal(f"the quorum cannot go on: {error!r}")
        finally:
            self._is_stepping = False

    def _dispatch(self, ready: Ready) -> None:
        # A change of the voters concerns whom these messages are for, so it comes first.
        if self.core.voters is not self._voters:
            self._voters = self.core.voters
            self._peers.voters_changed(self._voters)
        self._send_all(ready.send_now)
        if ready.must_persist or (ready.send_after_persist and not self._persistence.is_idle):
            self._persistence.submit(ready)
        else:
            self._send_all(ready.send_after_persist)
        if ready.soft_state != self._soft_state:
            self._change_soft_state(ready.soft_state)
        if ready.committed:
            self.applier.apply(ready.committed)
            if self._snapshots.is_due:
                self._spawn(self._snapshots.take(), name="take-snapshot")
        for answer in ready.answers:
            self._requests.pop(answer.request_id).settle(answer)
        self._arm_timer(ready.next_deadline)

    def _on_durable(self, batch: Sequence[Ready]) -> None:
        persisted = 0
        for ready in batch:
            self._send_all(ready.send_after_persist)
            if ready.snapshot is not None and self.applier.hold_up_for(ready.snapshot):
                self._spawn(self.applier.install_all(), name="install-snapshot")
            if ready.must_persist:
                persisted = ready.sequence
        if persisted:
            self.step(Persisted(persisted))

    def _spawn(self, work: Coroutine[None, None, None], *, name: str) -> None:
        assert self._tasks is not None, "nothing is stepped before the start or after the end"
        self._tasks.create_task(work, name=name)

    def _send_all(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            self._peers.send(envelope)

    def _change_soft_state(self, soft_state: SoftState) -> None:
        if self._soft_state is not None and self._soft_state.role is Role.LEADER:
            self._leader_heard_at = self._clock.monotonic()
            self._leadership_lost.set()
        self._soft_state = soft_state
        log.info(
            "quorum_role",
            role=soft_state.role.value,
            term=soft_state.term,
            leader=None if soft_state.leader is None else str(soft_state.leader),
        )
        self._state_machine.leadership_changed(soft_state)

    def _arm_timer(self, deadline: float) -> None:
        # Nearly every step puts the deadline off. The timer is left alone then: it comes early, and looks.
        if self._timer is not None and self._timer_due <= deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = deadline
        seconds = max(_TIMER_S_MIN, deadline - self._clock.monotonic())
        self._timer = self._clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.step(Tick())

    # --- requests -------------------------------------------------------------------------------------

    @property
    def next_index(self) -> Index:
        """Of the next proposal, if this node leads."""
        waiting = 0 if self._batch is None else len(self._batch.commands)
        return Index(self.core.last_index + waiting + 1)

    def propose(self, command: bytes, *, term: Term) -> Proposal:
        """Raises where the command cannot be appended now; then nothing was done."""
        if self._tasks is None:
            raise NotController("this controller does not run")
        if self._batch is not None and len(self._batch.commands) >= _BATCH_MAX and not self._is_stepping:
            self._flush()
        request_id = next(self._request_ids)
        before = self._batch or Propose((), (), term)
        batch = Propose((*before.request_ids, request_id), (*before.commands, command), term)
        refusal = self.core.why_not_propose(batch)
        if refusal is not None:
            raise error_of(refusal)
        proposal = Proposal(self.next_index)
        if self._batch is None:
            asyncio.get_running_loop().call_soon(self._flush)
        self._batch = batch
        self._requests[request_id] = proposal
        return proposal

    def _flush(self) -> None:
        if self._batch is not None and self._tasks is not None:
            batch, self._batch = self._batch, None
            self._step(batch)

    async def read_barrier(self) -> Index:
        """Returns once all that was acknowledged before the call is applied here."""
        index = await self._request(Request(), ReadBarrier)
        await self.applier.wait_for(index)
        return index

    async def add_voter(self, voter: Voter) -> Index:
        self._peers.learn_address(voter.key, voter.address)
        return await self._request(VoterChange(), lambda request_id: AddVoter(request_id, voter))

    async def remove_voter(self, key: VoterKey) -> Index:
        return await self._request(VoterChange(), lambda request_id: RemoveVoter(request_id, key))

    async def _request(self, request: Request, event: Callable[[int], Event]) -> Index:
        if self.core.role is not Role.LEADER or self._tasks is None:
            raise NotController("this node does not lead the quorum")
        request_id = next(self._request_ids)
        self._requests[request_id] = request
        self.step(event(request_id))
        return await request.answered()

    async def transfer_leadership(self, to: VoterKey | None) -> bool:
        """Whether this node does not lead any more."""
        self._leadership_lost.clear()
        self.step(Transfer(to))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._transfer_patience_s):
                while self.core.role is Role.LEADER and self._tasks is not None:
                    await self._leadership_lost.wait()
        return self.core.role is not Role.LEADER

    def heard_leader_within(self, seconds: float) -> bool:
        if self.core.role is Role.LEADER:
            return True
        return (
            self._leader_heard_at is not None and self._clock.monotonic() - self._leader_heard_at <= seconds
        )
