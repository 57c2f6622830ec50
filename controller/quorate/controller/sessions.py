"""Which brokers are alive, as far as heartbeats tell; on the monotonic clock, without tasks or sockets.

A session belongs to one registration. It lives until no heartbeat has come for the session time-out; then
the broker is fenced. It is *not* part of the metadata: a new controller knows nothing about who was heard
when, so it starts every session afresh. It may probe, and never infers (rule 35: a process may be alive
though nobody hears it).

A broken heartbeat stream is a hint, not a proof: the network may have dropped one connection. So the
controller dials the broker's own address. Refused means that no process listens there, and the broker is
fenced at once; every other outcome, silence included, waits for the time-out. acks=all never depends on any
of this; the lease of rule 37 does, which is why the probe can be switched off.

Whose session is over is *given up*: its partitions are taken away in pieces, then it is fenced. Until that is
on record, nothing that it says revives the session. Otherwise its lease would be renewed while it may not
know yet what was taken away (rule 37).

A broker counts its heartbeats, over all streams of its process. One that is not higher than the last that was
heard comes from a stream that the broker has abandoned, and is not listened to: it would speak for a process
that may be gone, and of what was the case before that which was heard since. The number outlives the session,
as the epoch does. A new controller knows none; what could do harm in a first heartbeat that is old names the
state that it speaks of (``quorate.controller.heartbeats``).

Offsets that go with a broker are kept here too, for the same reason: they speak about the moment. The numbers
of its witnesses outlive the session: the next process is judged by them
(``quorate.controller.previous_run``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from immutables import Map

from quorate.controller.witnesses import NOTHING_HEARD, HeardWitnesses
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.metadata.image import BrokerImage, MetadataImage

__all__ = ["BrokerSessions", "LapsedSession"]


@dataclass(slots=True)
class _Session:
    broker_epoch: BrokerEpoch
    last_heard_s: float
    #: the broker has applied metadata up to here (inclusive); -1: not heard of since this controller began
    metadata_offset: int = -1
    is_given_up: bool = False
    wants_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class LapsedSession:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class BrokerSessions:
    """All sessions that the active controller knows. Times are monotonic seconds."""

    def __init__(self, session_timeout_s: float) -> None:
        self._session_timeout_s = session_timeout_s
        self._sessions: dict[BrokerId, _Session] = {}
        #: where the broker's state was last changed on record, or a later offset
        self._state_offsets: dict[BrokerId, int] = {}
        self._brokers: Map[BrokerId, BrokerImage] = Map()
        #: highest numbers from each one's witnesses, in its last registration
        self._witnesses: dict[BrokerId, HeardWitnesses] = {}
        #: of the last heartbeat that was heard since the last registration
        self._sequences: dict[BrokerId, int] = {}

    # --- what has happened ----------------------------------------------------------------------------

    def start_all_afresh(self, image: MetadataImage, now: float) -> None:
        """A new controller begins with this image."""
        self._sessions.clear()
        self._witnesses.clear()
        self._sequences.clear()
        # When each broker's state was changed is not known; at this offset it has happened.
        self._state_offsets = dict.fromkeys(image.brokers, image.offset)
        self._brokers = image.brokers
        for broker in image.brokers.values():
            if not _was_let_go(broker):
                self._sessions[broker.broker_id] = _Session(broker.broker_epoch, now)

    def image_changed(self, image: MetadataImage) -> None:
        """After each change that the controller has appended."""
        if image.brokers is self._brokers:
            return
        for broker in image.brokers.values():
            known = self._brokers.get(broker.broker_id)
            if known is broker:
                continue
            if known is not None and known.broker_epoch != broker.broker_epoch:
                self._witnesses.pop(broker.broker_id, None)
                self._sequences.pop(broker.broker_id, None)
            if not broker.is_as(known):
                self._state_offsets[broker.broker_id] = image.offset
            session = self._sessions.get(broker.broker_id)
            if session is not None and (_was_let_go(broker) or session.broker_epoch != broker.broker_epoch):
                del self._sessions[broker.broker_id]
        for broker_id in self._state_offsets.keys() - image.brokers.keys():
            del self._state_offsets[broker_id]
            self._sessions.pop(broker_id, None)
            self._witnesses.pop(broker_id, None)
            self._sequences.pop(broker_id, None)
        self._brokers = image.brokers

    def registered(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now: float) -> None:
        """A registration is answered, perhaps once more. Who has sent heartbeats since needs none of that."""
        if broker_id not in self._sequences:
            self.touch(broker_id, broker_epoch, now, metadata_offset=-1)

    def hear(self, broker_id: BrokerId, sequence: int) -> bool:
        """A heartbeat of the last registration has come. False: a later one was heard, so this one is not."""
        if sequence <= self._sequences.get(broker_id, 0):
            return False
        self._sequences[broker_id] = sequence
        return True

    def touch(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        now: float,
        *,
        metadata_offset: int,
        wants_shutdown: bool = False,
        heard: HeardWitnesses = NOTHING_HEARD,
    ) -> None:
        """The process has spoken."""
        broker = self._brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            # Registered anew, or forgotten, while this one was waiting for its answer.
            return
        self._witnesses[broker_id] = self.heard_witnesses(broker_id).with_later(heard)
        if _was_let_go(broker):
            # Its last words must not keep its next process from registering.
            return
        session = self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = _Session(broker_epoch, now)
        session.last_heard_s = max(session.last_heard_s, now)
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.wants_shutdown = wants_shutdown

    def give_up(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """It is about to be fenced, or another process to be registered: from here on it is not alive."""
        session = self._sessions.get(broker_id)
        if session is not None and session.broker_epoch == broker_epoch:
            session.is_given_up = True

    def end(self, lapsed: LapsedSession) -> None:
        """It is fenced. Not before: who is in no session is fenced by nobody."""
        session = self._sessions.get(lapsed.broker_id)
        if session is not None and session.broker_epoch == lapsed.broker_epoch:
            del self._sessions[lapsed.broker_id]

    # --- what follows ---------------------------------------------------------------------------------

    def is_live(self, broker_id: BrokerId, now: float) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now < self._deadline(session)

    def is_heard(self, broker_id: BrokerId) -> bool:
        """Whether it has spoken to this controller, and nothing is known against it since."""
        session = self._sessions.get(broker_id)
        return session is not None and session.metadata_offset >= 0 and not session.is_given_up

    def is_given_up(self, broker_id: BrokerId) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.is_given_up

    def leaving(self) -> frozenset[BrokerId]:
        """Whose partitions are being taken away, or will be in a moment."""
        return frozenset(
            broker_id
            for broker_id, session in self._sessions.items()
            if session.is_given_up or session.wants_shutdown
        )

    def expired(self, now: float) -> list[LapsedSession]:
        """To be fenced now, in the order in which they lapsed."""
        lapsed = sorted(
            (self._deadline(session), broker_id)
            for broker_id, session in self._sessions.items()
            if self._deadline(session) <= now
        )
        return [LapsedSession(broker_id, self._sessions[broker_id].broker_epoch) for _, broker_id in lapsed]

    def next_deadline(self) -> float | None:
        """When to ask ``expired`` again; None: there are no sessions."""
        return min(map(self._deadline, self._sessions.values()), default=None)

    def wants_probe(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now: float) -> bool:
        """Whether a probe is wanted: not for an older registration, nor for a session that is over anyway."""
        session = self._sessions.get(broker_id)
        return session is not None and session.broker_epoch == broker_epoch and self.is_live(broker_id, now)

    def probe_refused(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, *, probed_at: float
    ) -> LapsedSession | None:
        """Whom to fence now; None: it was heard since the probe began, or has registered anew."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch or session.last_heard_s > probed_at:
            return None
        return LapsedSession(broker_id, broker_epoch)

    def heard_witnesses(self, broker_id: BrokerId) -> HeardWitnesses:
        """The highest numbers from its witnesses that this controller heard since it registered."""
        return self._witnesses.get(broker_id, NOTHING_HEARD)

    def state_offset(self, broker_id: BrokerId) -> int:
        """See ``quorate.controller.heartbeats``."""
        return self._state_offsets[broker_id]

    def others_offset(self, broker_id: BrokerId) -> int | None:
        """Every active broker but this one has applied metadata up to here; None: there is no other."""
        return min(
            (
                self._metadata_offset(broker)
                for broker in self._brokers.values()
                if broker.is_active and broker.broker_id != broker_id
            ),
            default=None,
        )

    def _metadata_offset(self, broker: BrokerImage) -> int:
        session = self._sessions.get(broker.broker_id)
        return -1 if session is None else session.metadata_offset

    def _deadline(self, session: _Session) -> float:
        if session.is_given_up:
            return -math.inf
        return session.last_heard_s + self._session_timeout_s


def _was_let_go(broker: BrokerImage) -> bool:
    """It has stopped with the controller's leave, so its id is free for the next process."""
    return broker.is_fenced and broker.is_shutting_down
