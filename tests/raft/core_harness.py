"""One core under a microscope, and a small quorum of them.

``Node`` steps one core by hand: the test plays the other voters, word by word. ``Quorum`` connects several
cores with links that lose nothing, unless told so, and disks that are synced as soon as asked. Both validate
the core after every event.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from quorate.metadata.raft.core import Limits, RaftCore
from quorate.metadata.raft.entries import (
    NO_INDEX,
    NO_TERM,
    Entry,
    EntryKind,
    Index,
    Snapshot,
    SnapshotId,
    Term,
)
from quorate.metadata.raft.messages import (
    AppendRequest,
    AppendResponse,
    Envelope,
    Message,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.ready import (
    Answer,
    Event,
    HardState,
    Persisted,
    Propose,
    Ready,
    Received,
    Restored,
    Role,
    Tick,
    Timing,
)
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.metadata.raft.voters_codec import encode_voters

TIMING = Timing(election_timeout_min_s=1.0, election_timeout_max_s=2.0, heartbeat_s=0.25)
#: whatever the defaults are tuned to
LIMITS = Limits(inflight_max=16)
#: longer than any election time-out
LONG_S = 2.001

_Message = TypeVar("_Message")


def key(number: int, directory: str = "a") -> VoterKey:
    return VoterKey(NodeId(number), DirectoryId(directory))


def voter(number: int, directory: str = "a") -> Voter:
    return Voter(key(number, directory), f"host{number}:9093")


def voters(*numbers: int) -> Voters:
    return Voters(tuple(voter(number) for number in numbers))


def entry(index: int, term: int, data: bytes = b"", kind: EntryKind = EntryKind.COMMAND) -> Entry:
    return Entry(Index(index), Term(term), kind, data or b"%d@%d" % (index, term))


def voters_entry(index: int, term: int, *numbers: int) -> Entry:
    return entry(index, term, encode_voters(voters(*numbers)), EntryKind.VOTERS)


def log(*terms: int, after: int = 0) -> tuple[Entry, ...]:
    """Entries of these terms, from index ``after + 1`` on."""
    return tuple(entry(after + 1 + position, term) for position, term in enumerate(terms))


def snapshot(index: int, term: int, *numbers: int) -> Snapshot:
    members = voters(*(numbers or (1, 2, 3)))
    return Snapshot(SnapshotId(Index(index), Term(term)), members, b"state at %d" % index)


def append(
    term: int,
    previous: tuple[int, int] = (0, 0),
    entries: Iterable[Entry] = (),
    *,
    commit: int = 0,
    round_: int = 1,
) -> AppendRequest:
    """``previous`` is (index, term)."""
    index, previous_term = previous
    return AppendRequest(Term(term), Index(index), Term(previous_term), tuple(entries), Index(commit), round_)


def acknowledged(term: int, index: int, *, round_: int = 1, is_counted: bool = True) -> AppendResponse:
    return AppendResponse(Term(term), True, Index(index), NO_TERM, round_, is_counted)


def rejected(
    term: int, hint: int, hint_term: int, *, round_: int = 1, is_counted: bool = True
) -> AppendResponse:
    return AppendResponse(Term(term), False, Index(hint), Term(hint_term), round_, is_counted)


def restored_snapshot(term: int, index: int, *, round_: int = 1, is_counted: bool = True) -> SnapshotResponse:
    return SnapshotResponse(Term(term), Index(index), round_, is_counted)


def vote_request(
    term: int, last: tuple[int, int] = (0, 0), *, is_pre_vote: bool = False, is_transfer: bool = False
) -> VoteRequest:
    """``last`` is the (index, term) of the candidate's last entry."""
    return VoteRequest(Term(term), Index(last[0]), Term(last[1]), is_pre_vote, is_transfer)


def vote(term: int, *, is_pre_vote: bool = False) -> VoteResponse:
    return VoteResponse(Term(term), True, is_pre_vote)


def no_vote(term: int, *, is_pre_vote: bool = False) -> VoteResponse:
    return VoteResponse(Term(term), False, is_pre_vote)


def restored(
    terms: Sequence[int] = (),
    *,
    term: int = 0,
    vote: VoterKey | None = None,
    is_recovering: bool = False,
    members: Voters | None = None,
    base: SnapshotId | None = None,
    entries: tuple[Entry, ...] | None = None,
    incarnation: int = 1,
) -> Restored:
    after = base.index if base is not None else NO_INDEX
    log_entries = entries if entries is not None else log(*terms, after=after)
    last_term = log_entries[-1].term if log_entries else base.term if base is not None else NO_TERM
    hard_state = HardState(Term(max(term, last_term)), vote, is_recovering)
    return Restored(hard_state, incarnation, base, members or voters(1, 2, 3), log_entries)


class Node:
    """Core 1 of a quorum, unless said otherwise; everybody else is the test."""

    def __init__(
        self, start: Restored | None = None, *, number: int = 1, limits: Limits | None = None, seed: int = 0
    ) -> None:
        self.now = 100.0
        self.core = RaftCore(
            key(number),
            start or restored(),
            timing=TIMING,
            limits=limits or LIMITS,
            random=random.Random(seed),
            now=self.now,
        )
        self.ready = self.step(Tick())

    def step(self, event: Event) -> Ready:
        self.ready = self.core.step(event, self.now)
        self.core.validate()
        return self.ready

    @property
    def round(self) -> int:
        """The leader's present round, for answers that are fresh."""
        leadership = self.core._state.leadership
        assert leadership is not None
        return leadership.replication.round

    def hear(self, sender: int | VoterKey, message: Message, *, incarnation: int = 1) -> Ready:
        who = key(sender) if isinstance(sender, int) else sender
        return self.step(Received(Envelope(who, self.core.key, incarnation, message)))

    def persist(self) -> Ready:
        """Everything up to now is durable."""
        return self.step(Persisted(self.ready.sequence))

    def after(self, seconds: float) -> Ready:
        self.now += seconds
        return self.step(Tick())

    def propose(self, *commands: bytes, first_id: int = 1) -> Ready:
        ids = tuple(range(first_id, first_id + len(commands)))
        return self.step(Propose(ids, commands, self.core.term))

    def lead(self, *supporters: int) -> Ready:
        """Win an election with these votes, and persist; returns what the new leader did first."""
        self.after(LONG_S)
        for number in supporters or (2,):
            self.hear(number, vote(self.core.term + 1, is_pre_vote=True))
        self.persist()
        for number in supporters or (2,):
            ready = self.hear(number, vote(self.core.term))
        assert self.core.role is Role.LEADER
        self.persist()
        return ready

    def role(self) -> Role:
        return self.core.role

    def terms(self) -> list[int]:
        return [entry.term for entry in self.core.entries_from(self.core.first_index)]


def messages_to(number: int, envelopes: Iterable[Envelope]) -> list[Message]:
    return [envelope.message for envelope in envelopes if envelope.to.node_id == number]


def only(kind: type[_Message], messages: Iterable[object]) -> _Message:
    """The one message of its kind."""
    found = [message for message in messages if isinstance(message, kind)]
    assert len(found) == 1, found
    return found[0]


def all_of(kind: type[_Message], ready: Ready) -> list[_Message]:
    """Of both ways to send, those of one kind."""
    envelopes = (*ready.send_now, *ready.send_after_persist)
    return [envelope.message for envelope in envelopes if isinstance(envelope.message, kind)]


class Member:
    """One core of a ``Quorum``, its disk, and what it has applied."""

    def __init__(self, number: int, start: Restored, now: float, limits: Limits) -> None:
        self.number = number
        self.hard_state = start.hard_state
        self.journal = list(start.entries)
        self.base = start.snapshot
        self.members = start.voters
        self.snapshot: Snapshot | None = None
        self.incarnation = start.incarnation
        self.limits = limits
        self.applied: list[Entry] = []
        self.answers: list[Answer] = []
        self.core = self._start(now)

    def _start(self, now: float) -> RaftCore:
        start = Restored(self.hard_state, self.incarnation, self.base, self.members, tuple(self.journal))
        return RaftCore(
            key(self.number),
            start,
            timing=TIMING,
            limits=self.limits,
            random=random.Random(self.number),
            now=now,
        )

    def restart(self, now: float) -> None:
        self.incarnation += 1
        self.applied = []
        self.core = self._start(now)

    def save(self, ready: Ready) -> None:
        self.hard_state = ready.hard_state or self.hard_state
        if ready.snapshot is not None:
            self.snapshot = ready.snapshot
            self.base = ready.snapshot.id
            self.members = ready.snapshot.voters
            self.journal = []
        if ready.entries:
            first = ready.entries[0].index
            self.journal = [entry for entry in self.journal if entry.index < first]
            self.journal.extend(ready.entries)

    def answer(self, request_id: int) -> Answer:
        return next(answer for answer in self.answers if answer.request_id == request_id)


class Quorum:
    """Cores that talk to each other until nobody has anything to say."""

    def __init__(
        self, *numbers: int, starts: dict[int, Restored] | None = None, limits: Limits | None = None
    ) -> None:
        self.now = 100.0
        self._limits = limits or Limits(entries_kept=0)
        founding = voters(*numbers)
        self.members: dict[int, Member] = {}
        for number in numbers:
            self.add_node(number, (starts or {}).get(number) or restored(members=founding))
        self._queue: deque[Envelope] = deque()
        #: False: lost on the way
        self.is_delivered: Callable[[Envelope], bool] = lambda envelope: True

    def __getitem__(self, number: int) -> Member:
        return self.members[number]

    def core(self, number: int) -> RaftCore:
        return self.members[number].core

    def add_node(self, number: int, start: Restored) -> None:
        self.members[number] = Member(number, start, self.now, self._limits)

    def cut_off(self, *numbers: int) -> None:
        self.is_delivered = lambda envelope: (
            envelope.to.node_id not in numbers and envelope.sender.node_id not in numbers
        )

    def heal(self) -> None:
        self.is_delivered = lambda envelope: True

    def step(self, number: int, event: Event) -> None:
        """And all that follows from it."""
        self._step(number, event)
        self.settle()

    def settle(self) -> None:
        while self._queue:
            envelope = self._queue.popleft()
            if self.is_delivered(envelope) and envelope.to.node_id in self.members:
                self._step(envelope.to.node_id, Received(envelope))

    def _step(self, number: int, event: Event) -> None:
        member = self.members[number]
        ready = member.core.step(event, self.now)
        member.core.validate()
        self._queue.extend(ready.send_now)
        member.save(ready)
        self._queue.extend(ready.send_after_persist)
        if ready.snapshot is not None:
            member.applied = []
        member.applied.extend(ready.committed)
        member.answers.extend(ready.answers)
        if ready.must_persist:
            self._step(number, Persisted(ready.sequence))

    def run(self, seconds: float, *, except_for: Iterable[int] = ()) -> None:
        """Time passes, in steps of a heartbeat."""
        end = self.now + seconds
        while self.now < end:
            self.now += TIMING.heartbeat_s
            for number in self.members:
                if number not in except_for:
                    self.step(number, Tick())

    def elect(self, number: int) -> None:
        """Only this one's time-out passes."""
        self.now += LONG_S
        self.step(number, Tick())
        assert self.core(number).role is Role.LEADER

    def propose(self, number: int, *commands: bytes, first_id: int = 1) -> None:
        ids = tuple(range(first_id, first_id + len(commands)))
        self.step(number, Propose(ids, commands, self.core(number).term))

    def restart(self, number: int, change: Callable[[Member], None] | None = None) -> None:
        """``change`` is what happens to its disk meanwhile."""
        member = self.members[number]
        if change is not None:
            change(member)
        member.restart(self.now)

    def leaders(self) -> list[int]:
        return [number for number, member in self.members.items() if member.core.role is Role.LEADER]


def lose_tail(count: int) -> Callable[[Member], None]:
    """A damaged end of the journal, as recovery leaves it."""

    def change(member: Member) -> None:
        del member.journal[-count:]
        member.hard_state = replace(member.hard_state, is_recovering=True)

    return change
