"""Who counts in one leader epoch, who may join, and who lags behind.

The leader alone sees its followers' fetches, so it alone can tell who has caught up; the controller alone
commits an ISR. This file is the leader's half of the bargain: which replicas the high watermark has to wait
for, and which ISR to ask the controller for (rules 13, 23, 26 and 34).

*Joining.* Under load the high watermark runs just behind the slowest member; a follower that is a moment
slower would never be seen at or above it, and never be admitted. So the high watermark waits for a follower
that keeps pace and could be admitted, as Kafka does; but only for ``JOIN_WAIT_S`` after it was last caught
up, so that a broker that dies on the threshold holds up acknowledgements no longer than that.

*Admission* is judged when the wish is made, and from that moment the newcomer counts: between the two nothing
can be committed without it. Whoever was put out for lagging may well have all that is committed, as nothing
is while too few are in sync; it is admitted again by a sign of life, not by that.

*Leaving.* The replicas that a reassignment takes away stay members until they are not needed, and until each
has fetched in this epoch (rules 37, 47). One of them may have led before, and answer reads alone until it
knows that it does not lead any more: its fetch is the proof that it does. Before that nothing is committed
without it. One that never fetches is fenced, or lags, for longer than its lease can last.
"""

from __future__ import annotations

from typing import Final

from quorate.broker.replica.followers import Follower, Followers
from quorate.broker.replica.high_watermark import HighWatermark
from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.partition_state import PartitionState
from quorate.core.config import Durability
from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.errors import OffsetNotAvailable
from quorate.metadata.image import Recovery
from quorate.storage import PartitionLog
from quorate.v1.controller_pb2 import IsrMember, PartitionAlteration
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL, RECOVERY_STATE_UNSPECIFIED

__all__ = ["JOIN_WAIT_S", "IsrMembership"]

#: Several exchanges with a follower on a busy machine, and short beside a session's time-out.
JOIN_WAIT_S: Final = 0.5
_BEYOND_ALL: Final = Offset((1 << 63) - 1)


class IsrMembership:
    __slots__ = (
        "_electable",
        "_epoch_start_offset",
        "_gating",
        "_high_watermark",
        "_is_leader_synced",
        "_is_synced_epoch",
        "_joining",
        "_lag_s",
        "_leader",
        "_leaving",
        "_log",
        "_state",
        "followers",
        "isr",
    )

    def __init__(
        self,
        state: PartitionState,
        partition_log: PartitionLog,
        high_watermark: HighWatermark,
        *,
        epoch_start_offset: Offset,
        replica_lag_s: float,
        now: float,
    ) -> None:
        image = state.image
        self._state = state
        self._log = partition_log
        self._high_watermark = high_watermark
        self._epoch_start_offset = epoch_start_offset
        self._lag_s = replica_lag_s
        self._leader = image.leader
        #: replicas that a reassignment takes away
        self._leaving: frozenset[BrokerId] = frozenset()
        self.isr = InSyncReplicas(image.isr, image.partition_epoch, image.recovery, is_synced=image.is_synced)
        #: everybody who follows in this epoch has synced before it named a position
        self._is_synced_epoch = state.durability is Durability.FSYNC
        #: everything of earlier epochs is on the leader's own device
        self._is_leader_synced = False
        self.followers = Followers()
        #: followers that the high watermark waits for: the maximal ISR
        self._gating: list[Follower] = []
        #: all others; it waits for those that are about to join
        self._joining: list[Follower] = []
        #: who may lead next: as the last metadata has it, and all who were members since
        self._electable: set[BrokerId] = set()
        self._assign(now)

    # -- what has happened

    def apply(self, state: PartitionState, now: float) -> None:
        """Committed metadata of the same leader epoch."""
        image = state.image
        self._state = state
        self._is_synced_epoch = self._is_synced_epoch and state.durability is Durability.FSYNC
        self.isr.commit(image.isr, image.partition_epoch, image.recovery, is_synced=image.is_synced)
        self.isr.drop_hopeless_wish(state.brokers)
        self._assign(now)

    def _assign(self, now: float) -> None:
        image = self._state.image
        self._leaving = frozenset(image.removing_replicas)
        if image.partition_epoch >= self.isr.partition_epoch:
            # Of the ELR only the metadata tells, not the answers that may come before it.
            self._electable = {*image.isr, *image.elr}
        others = [each for each in image.replicas if each != self._leader]
        self.followers.assign(others, self.isr.committed, now)
        self.recount()

    def recount(self) -> None:
        """The ISR has changed: committed, proposed or taken back."""
        maximal = self.isr.maximal
        self._electable |= maximal
        self._gating = [each for each in self.followers if each.broker_id in maximal]
        self._joining = [each for each in self.followers if each.broker_id not in maximal]

    # -- the high watermark

    @property
    def is_leader_alone(self) -> bool:
        """Nobody else has to store a record for it to be committed."""
        return not self._gating

    @property
    def has_enough(self) -> bool:
        """Rule 14: as committed; what is only proposed does not make it larger."""
        return len(self.isr.committed) >= self._state.min_insync_replicas

    def stored_everywhere(self, own_end_offset: Offset) -> Offset:
        """The smallest log end over the maximal ISR (rule 13); -1 if a member has not fetched yet."""
        offset = own_end_offset
        for follower in self._gating:
            if follower.log_end_offset < offset:
                offset = follower.log_end_offset
        return offset

    def stored_by_joining(self, offset: Offset, now: float) -> tuple[Offset, float]:
        """As far as those who are about to join have it, too, and when to wait for them no longer."""
        wait_end = now
        for follower in self._joining:
            patience_end = follower.caught_up_at + JOIN_WAIT_S
            if follower.log_end_offset < offset and patience_end > now and self._may_join(follower):
                offset = follower.log_end_offset
                wait_end = max(wait_end, patience_end)
        return offset, wait_end

    @property
    def is_anyone_outside(self) -> bool:
        return bool(self._joining)

    # -- the log start

    def lowest_log_start(self) -> Offset:
        """Of all others who may lead next; -1 if one of them has not fetched yet."""
        return min(
            (each.log_start_offset for each in self.followers if each.broker_id in self._electable),
            default=_BEYOND_ALL,
        )

    # -- compaction

    def is_trusted(self, broker_id: BrokerId, end_offset: Offset) -> bool:
        """It may lead next, and holds what is known to be committed: nothing that counts can be missing."""
        return broker_id in self._electable and end_offset >= self._high_watermark.offset

    # -- logs that do not tell

    def holds_all_committed(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> bool:
        """Whether it may lead next. What a process holds whose registration is not known here, nobody knows:
        it may have lost some in a start that has cost it its place (rules 25 and 30), or be as it was.
        """
        if broker_id not in self._electable:
            return False
        broker = self._state.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise OffsetNotAvailable(
                f"broker {broker_id} speaks with epoch {broker_epoch}, of which this leader has not heard: "
                "whether it still counts is not known",
                broker_id=broker_id,
                broker_epoch=broker_epoch,
            )
        return True

    # -- syncs

    def leader_synced(self, end_offset: Offset) -> bool:
        """The leader's own log is on its device up to here. True: the controller should be told something."""
        self._is_leader_synced = self._is_leader_synced or end_offset >= self._epoch_start_offset
        return not self.isr.is_change_pending and self._is_sync_news()

    def _is_sync_news(self) -> bool:
        """Every member has synced what lies before this epoch, and the controller does not know (rule 45).

        A member has, once it has fetched that far in this epoch: it began with the setting, or later, so all
        who follow in it know the setting, and sync everything before they name a position. With fewer members
        than MinISR there may be an ELR, of which nothing is known.
        """
        if self.isr.is_synced or not self._is_synced_epoch:
            return False
        return (
            self._is_leader_synced
            and self.has_enough
            and self.isr.recovery is Recovery.NORMAL
            and all(each.log_end_offset >= self._epoch_start_offset for each in self._gating)
        )

    # -- the wish

    def has_wish(self, now: float) -> bool:
        """Is there something new to ask for?"""
        if self.isr.is_change_pending:
            return False
        is_confirmation_due = self.isr.recovery is Recovery.RECOVERING or self._is_sync_news()
        return is_confirmation_due or self._wanted(now) != self.isr.committed

    def is_wish_due(self, follower: Follower, now: float) -> bool:
        """Does its fetch, which was just noted, make for a wish? Much cheaper than ``has_wish``."""
        if self.isr.is_change_pending:
            return False
        if follower.broker_id in self._leaving or (self._is_synced_epoch and self._is_sync_news()):
            return self.has_wish(now)
        return follower.broker_id not in self.isr.committed and self.can_admit(follower)

    def next_alteration(self, now: float) -> PartitionAlteration | None:
        """What to send now; the wish that was made before, if it has not been settled."""
        if not self.isr.is_change_pending:
            self._propose(now)
        return self.isr.send()

    def _propose(self, now: float) -> None:
        if self._leader not in self._state.brokers or not self.has_wish(now):
            return
        image, brokers = self._state.image, self._state.brokers
        wanted = self._wanted(now)
        is_recovering = self.isr.recovery is Recovery.RECOVERING
        self.isr.propose(
            PartitionAlteration(
                topic_id=image.topic_id,
                partition=image.partition,
                leader_epoch=image.leader_epoch,
                partition_epoch=self.isr.partition_epoch,
                # Newcomers fetched with the epoch that is registered, or they would not be here (rule 23).
                isr=[
                    IsrMember(broker_id=each, broker_epoch=brokers[each].broker_epoch)
                    for each in sorted(wanted)
                ],
                # To lead is to confirm: what this log holds is what counts from now on (rule 34).
                recovery_state=RECOVERY_STATE_NORMAL if is_recovering else RECOVERY_STATE_UNSPECIFIED,
                is_synced=self._is_sync_news(),
            )
        )
        for follower in self._joining:
            if follower.broker_id in wanted:
                follower.give_time(now)
        self.recount()

    def _wanted(self, now: float) -> frozenset[BrokerId]:
        committed, brokers = self.isr.committed, self._state.brokers
        if self.isr.recovery is Recovery.RECOVERING:
            return committed  # one member, until the controller has the leader's confirmation (rule 34)
        wanted = {self._leader}
        for follower in self.followers:
            broker_id = follower.broker_id
            if broker_id in committed:
                if broker_id in brokers and not follower.is_lagging(now, self._lag_s):
                    wanted.add(broker_id)
            elif self.can_admit(follower) and not follower.is_silent(now, self._lag_s):
                wanted.add(broker_id)
        return frozenset(wanted - self._dispensable(wanted))

    def _dispensable(self, wanted: set[BrokerId]) -> set[BrokerId]:
        """Who is to leave the partition, knows this epoch, and is not needed any more (rule 47)."""
        if not self._leaving or self._leader in self._leaving:
            return set()
        staying = wanted - self._leaving
        image = self._state.image
        # Those of a move that was called off are adding and leaving.
        joining = set(image.adding_replicas) - self._leaving
        if not joining.issubset(staying & self.isr.committed):
            return set()
        replica_count = len(image.replicas) - len(image.removing_replicas)
        if len(staying) < min(self._state.min_insync_replicas, replica_count):
            return set()
        return {each.broker_id for each in self.followers if each.has_fetched} & self._leaving

    def can_admit(self, follower: Follower) -> bool:
        """Rule 23."""
        return self._is_complete(follower) and self._may_join(follower)

    def _is_complete(self, follower: Follower) -> bool:
        """Rule 23, what its log has to hold: all that is committed, and all of earlier epochs.

        And nothing that the leader has deleted (rule 48).
        """
        end = follower.log_end_offset
        return (
            follower.has_fetched
            and end >= self._high_watermark.offset
            and end >= self._epoch_start_offset
            and follower.log_start_offset >= self._log.log_start_offset
        )

    def _may_join(self, follower: Follower) -> bool:
        """Rule 23, who its broker has to be: active, and the process that fetched."""
        broker = self._state.brokers.get(follower.broker_id)
        return (
            broker is not None
            and broker.is_active
            and broker.broker_epoch == follower.broker_epoch
            and self.isr.recovery is Recovery.NORMAL
        )

    # -- invariants

    def validate(self) -> None:
        self.isr.validate()
        assert self._leader in self.isr.committed
        assert {each.broker_id for each in self._gating} == self.isr.maximal - {self._leader}
        assert len(self.isr.committed) == 1 or self.isr.recovery is Recovery.NORMAL
