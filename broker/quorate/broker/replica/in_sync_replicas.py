"""The ISR as a leader has to see it, and the one change to it that is under way.

Only the controller commits an ISR; the leader asks, and until it knows the outcome it must be right with
both (rules 13, 21 and 22). So it waits for the *maximal* ISR: the committed one and whoever it has asked to
add. One that it has asked to remove still counts as a member.

A wish names the partition epoch on which it was made, and the controller takes it only on that one. So

- there is at most one wish at a time, and one that may have reached the controller is sent again unchanged:
  two different ones on the same epoch would leave two outcomes to be right with;
- it is over when the partition epoch has moved on: applied or not, it can no longer be;
- one that removes only is taken back when the controller says that it was not applied (INELIGIBLE_REPLICA,
  OPERATION_NOT_ATTEMPTED): should a copy of it be applied later, the leader has waited for more members
  than it had to;
- one that adds is then *withdrawn*: another copy may still be on its way, an attempt that got no answer, or
  one that the network delivers twice, and be applied when the replica is eligible again. The leader asks the
  controller to move the partition epoch on, and waits for the maximal ISR until that is done. Kafka takes
  the wish back at once all the same; never taking it back would stall acknowledgements for as long as the
  replica is gone;
- it is over, too, when a member has registered anew: every copy names the old broker epoch, and is refused
  for ever (rule 24).

Answer and metadata race; the higher partition epoch wins (rule 4). A new *leader epoch* is taken from the
metadata alone, which also has the MinISR that goes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from immutables import Map

from quorate.core.ids import BrokerId
from quorate.errors import IneligibleReplica, OperationNotAttempted
from quorate.metadata.image import BrokerImage, Recovery
from quorate.v1.controller_pb2 import PartitionAlteration

__all__ = ["InSyncReplicas"]

#: rule 22: after these, and no others, the copy that was answered was surely not applied
_SURELY_NOT_APPLIED: Final = frozenset({IneligibleReplica.code, OperationNotAttempted.code})


class _Wish:
    __slots__ = ("additions", "alteration", "is_withdrawn")

    def __init__(self, alteration: PartitionAlteration, additions: frozenset[BrokerId]) -> None:
        self.alteration = alteration
        self.additions = additions
        #: no longer wanted; whom it adds still counts as a member, until no copy of it can be applied
        self.is_withdrawn = False

    @property
    def message(self) -> PartitionAlteration:
        wished = self.alteration
        if not self.is_withdrawn:
            return wished
        return PartitionAlteration(
            topic_id=wished.topic_id,
            partition=wished.partition,
            leader_epoch=wished.leader_epoch,
            partition_epoch=wished.partition_epoch,
            withdraw=True,
        )


class InSyncReplicas:
    __slots__ = ("_asked", "_wish", "committed", "is_synced", "partition_epoch", "recovery")

    def __init__(
        self, committed: Collection[BrokerId], partition_epoch: int, recovery: Recovery, *, is_synced: bool
    ) -> None:
        #: as the controller committed it
        self.committed = frozenset(committed)
        self.partition_epoch = partition_epoch
        self.recovery = recovery
        #: members hold on their devices all that was committed (rule 45)
        self.is_synced = is_synced
        #: not settled yet
        self._wish: _Wish | None = None
        #: the controller was asked for this one and has not answered; by now it may be settled, and the
        #: answer must not pass for one to the next
        self._asked: _Wish | None = None

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Everybody who is, or may be, a member as far as the controller is concerned (rule 13)."""
        return self.committed if self._wish is None else self.committed | self._wish.additions

    @property
    def is_change_pending(self) -> bool:
        return self._wish is not None

    def commit(
        self, committed: Collection[BrokerId], partition_epoch: int, recovery: Recovery, *, is_synced: bool
    ) -> None:
        """From the metadata, or from an answer; whichever is newer counts (rule 4)."""
        if partition_epoch <= self.partition_epoch:
            return
        self.committed = frozenset(committed)
        self.partition_epoch = partition_epoch
        self.recovery = recovery
        self.is_synced = is_synced
        self._wish = None

    def drop_hopeless_wish(self, brokers: Map[BrokerId, BrokerImage]) -> None:
        """A member has registered anew since: no copy of the wish can be applied any more (rule 24)."""
        if self._wish is None:
            return
        for member in self._wish.alteration.isr:
            broker = brokers.get(BrokerId(member.broker_id))
            if broker is None or broker.broker_epoch > member.broker_epoch:
                self._wish = None
                return

    def propose(self, alteration: PartitionAlteration) -> None:
        """From now on the maximal ISR counts; ``alteration`` is sent until it is settled."""
        assert self._wish is None, "one change at a time (rule 22)"
        assert alteration.partition_epoch == self.partition_epoch
        wanted = frozenset(BrokerId(member.broker_id) for member in alteration.isr)
        self._wish = _Wish(alteration, wanted - self.committed)

    def send(self) -> PartitionAlteration | None:
        """The wish, if it is to be sent now."""
        if self._wish is None or self._asked is not None:
            return None
        self._asked = self._wish
        return self._wish.message

    def answered(
        self, committed: Collection[BrokerId], partition_epoch: int, recovery: Recovery, *, is_synced: bool
    ) -> None:
        """The controller describes the partition as it is after the last copy."""
        if partition_epoch > self.partition_epoch:
            self._asked = None
            self.commit(committed, partition_epoch, recovery, is_synced=is_synced)
        else:
            # Nothing to be changed there; or metadata has overtaken the answer, and settled the wish.
            self.refused(OperationNotAttempted.code)

    def refused(self, code: str) -> None:
        """The controller has not done what it was asked for with the last copy."""
        asked, self._asked = self._asked, None
        if asked is None or asked is not self._wish:
            return
        if code not in _SURELY_NOT_APPLIED:
            return
        if asked.additions:
            asked.is_withdrawn = True
        else:
            self._wish = None

    def unanswered(self) -> None:
        """The last copy may have been applied, or may still be; the next is the same."""
        self._asked = None

    def validate(self) -> None:
        if self._wish is not None:
            assert self._wish.alteration.partition_epoch == self.partition_epoch
            assert not self._wish.additions & self.committed
