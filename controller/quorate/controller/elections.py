"""Who leads a partition, who is in sync, and who could take over: decided here and nowhere else.

Every change of a partition goes through ``Elections.change``: a broker that comes or goes, an ISR that its
leader asks for, a move of replicas, a setting. The caller says what is to change, usually the ISR; leader,
ELR, last known ELR and epochs follow from that.

The promise behind it (rule 1): *every member of ISR and ELR holds all committed records*. It stands on two
legs:

- A record is committed once the whole ISR has it, and only while the ISR has MinISR members or more (rule
  14). So a replica that leaves the ISR is complete at that moment.
- It stays complete for as long as nothing can be committed without it. While the ISR is below MinISR that
  is so: those who leave then go to the ELR. With MinISR members the ISR commits without the ELR again, so
  the ELR is emptied (rule 29). Hence, with ``complete`` = (ISR ∪ ELR before) - (replicas that have lost
  records)::

      ELR = complete - ISR    while |ISR| < MinISR,    empty otherwise

Elections then are simple (rule 27): the leader stays if it can; else the first replica in the ISR that is
active; else the first active one of the ELR, alone in the ISR; else nobody. The ISR comes first: its
members are as good as the ELR's, and keep the ISR larger. Brokers that are being drained lead only where
nobody else can.

What becomes of the ISR when a broker goes (fenced, stopping or registered anew):

- It leaves the ISR, for it will not fetch, and the leader must not wait for it. If it led, another one
  does.
- If it was the last one, and no active member of the ELR can take over, it *stays* in the ISR, without
  leading (rule 36). Kafka with ELR would move it to the ELR and leave the ISR empty. Both are safe, since
  nothing can be committed without it. Staying says what is the case: this replica is complete, and
  when it comes back it leads again as it did. So an ISR member that is not active is always the only one,
  and there is no leader then.
- If it has lost records (rules 30, 32), or its replica is damaged, it leaves ISR and ELR altogether, even
  as the last one: an offline partition can be recovered by an operator (rule 33), a lost record can not.
  Where it was is noted in the last known ELR, which no clean election ever looks at.

Members that are fenced stay in the ELR: waiting for them is what it is for.

The leader epoch grows whenever the leader changes, also to "none" and back: a broker that was deposed and
elected again must not go on in an epoch in which others may have followed it differently (rule 7).

Unclean elections happen only for topics whose owner has allowed them, when all of the above has found
nobody. Then the new leader's log is what counts from now on: ISR = {leader}, nobody is complete any more,
the partition is RECOVERING until the leader confirms (rule 34), and the epoch is on record as unclean (rule
11). Electing the last known leader as if that were clean, as Kafka does, was rejected (rule 33).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from quorate.controller.decision import ControllerEvent
from quorate.controller.partition_change import change_record
from quorate.core.ids import BrokerId, LeaderEpoch, TopicId
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, Recovery, TopicImage
from quorate.metadata.topic_settings import min_insync_replicas, unclean_election_enabled
from quorate.v1.metadata_pb2 import MetadataRecord

__all__ = ["Assignment", "Elections", "topics_in_order"]

_NOBODY: Final[frozenset[BrokerId]] = frozenset()


class Assignment(NamedTuple):
    """Where the replicas of a partition are, and what a reassignment makes of it."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> Assignment:
        return cls(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def topics_in_order(image: MetadataImage) -> Iterator[TopicImage]:
    """All topics in an order that does not depend on the hash seed, so that records do not either."""
    for topic_id in sorted(image.topics):
        yield image.topics[topic_id]


class _TopicRules(NamedTuple):
    min_isr: int
    is_unclean_allowed: bool


class _Outcome(NamedTuple):
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    is_unclean: bool = False


class Elections:
    """Changes of partitions that belong to one decision, on one image.

    ``arriving`` counts as active, ``leaving`` do not, and ``draining`` is being drained, whatever the image
    says: the record that makes it so stands in the same batch, or in one that follows.
    """

    def __init__(
        self,
        image: MetadataImage,
        *,
        arriving: BrokerId | None = None,
        leaving: Collection[BrokerId] = _NOBODY,
        draining: BrokerId | None = None,
    ) -> None:
        self._image = image
        brokers = image.brokers.values()
        #: may lead
        self.active = {broker.broker_id for broker in brokers if broker.is_active}.difference(leaving)
        #: lead only where nobody else can
        self._draining = {broker.broker_id for broker in brokers if broker.is_draining}
        if arriving is not None:
            self.active.add(arriving)
        if draining is not None:
            self._draining.add(draining)
        self._rules: dict[TopicId, _TopicRules] = {}
        #: in the order of the calls; a partition that did not change has none
        self.records: list[MetadataRecord] = []
        #: one for each unclean election
        self.events: list[ControllerEvent] = []

    def change(
        self,
        before: PartitionImage,
        *,
        isr: Iterable[BrokerId] | None = None,
        lost: Collection[BrokerId] = _NOBODY,
        leader: BrokerId | None = None,
        assignment: Assignment | None = None,
        recovery: Recovery | None = None,
        is_synced: bool | None = None,
        clear_elr: bool = False,
        bump_leader_epoch: bool = False,
    ) -> PartitionImage:
        """The partition after the change; ``before`` itself where nothing changes. What is absent stays.

        ``isr``: as wanted; a last member that cannot lead is kept all the same, see above.
        ``lost``: replicas that lack records they had; they leave ISR and ELR.
        ``leader``: shall lead if it is in the ISR and active; else, and if absent, whoever leads now.
        ``clear_elr``: it came about under another MinISR (rule 29).
        ``bump_leader_epoch``: even if the leader stays, as at the end of a reassignment (rule 2).
        """
        assignment = assignment or Assignment.of(before)
        wanted = before.isr if isr is None else tuple(sorted(isr))
        if lost:
            wanted = tuple(member for member in wanted if member not in lost)
        was_complete = before.isr if clear_elr else (*before.isr, *before.elr)
        complete = {each for each in was_complete if each in assignment.replicas and each not in lost}
        candidates = [each for each in assignment.replicas if each not in lost]
        outcome = self._elect(before, candidates, leader, wanted, complete)
        return self._put(
            before,
            assignment,
            outcome,
            complete=_NOBODY if outcome.is_unclean else complete,
            recovery=recovery,
            is_synced=is_synced,
            bump_leader_epoch=bump_leader_epoch,
        )

    def elect_uncleanly(self, before: PartitionImage, leader: BrokerId) -> PartitionImage:
        """Make this replica the leader, whatever it may lack; the caller answers for it (rules 33, 34)."""
        outcome = _Outcome(leader, (leader,), is_unclean=True)
        return self._put(before, Assignment.of(before), outcome, complete=_NOBODY)

    def best_leader(self, partition: PartitionImage) -> BrokerId | None:
        """Who should lead by the order of the replicas; None: nobody whom it would be good to move it to."""
        # Who is on the way out of the partition gets it from nobody who stays: the move would give it back.
        leaving = partition.removing_replicas if partition.leader not in partition.removing_replicas else ()
        for replica in partition.replicas:
            if replica in leaving or replica in self._draining:
                continue
            if replica in partition.isr and replica in self.active:
                return replica
        return None

    def waits_for_leader(self, partition: PartitionImage) -> bool:
        """Whether it has no leader though ``change`` would find one; much cheaper than to try."""
        if partition.leader != NO_LEADER:
            return False
        if not self.active.isdisjoint(partition.isr) or not self.active.isdisjoint(partition.elr):
            return True
        is_unclean_allowed = self._rules_of(partition.topic_id).is_unclean_allowed
        return is_unclean_allowed and not self.active.isdisjoint(partition.replicas)

    def _elect(
        self,
        before: PartitionImage,
        candidates: Sequence[BrokerId],
        leader: BrokerId | None,
        isr: tuple[BrokerId, ...],
        complete: Collection[BrokerId],
    ) -> _Outcome:
        favourite = before.leader if leader is None else leader
        if favourite in isr and favourite in self.active:
            return _Outcome(favourite, isr)
        in_sync = self.first_active(candidates, isr)
        if in_sync is not None:
            return _Outcome(in_sync, isr)
        eligible = self.first_active(candidates, complete)
        if eligible is not None:
            return _Outcome(eligible, (eligible,))
        if self._rules_of(before.topic_id).is_unclean_allowed:
            # Nobody knows who has most. Those that were complete until they lost something: the best guess.
            unclean = self.first_active((*before.last_known_elr, *candidates), candidates)
            if unclean is not None:
                return _Outcome(unclean, (unclean,), is_unclean=True)
        return _Outcome(NO_LEADER, isr or tuple(member for member in before.isr if member in complete))

    def first_active(self, order: Iterable[BrokerId], among: Collection[BrokerId]) -> BrokerId | None:
        """One that is being drained only if there is no other."""
        draining = None
        for replica in order:
            if replica in among and replica in self.active:
                if replica not in self._draining:
                    return replica
                draining = replica if draining is None else draining
        return draining

    def renew(self, before: PartitionImage) -> PartitionImage:
        """Only the partition epoch grows: whoever has not seen this decision is refused (rule 21)."""
        after = dataclasses.replace(before, partition_epoch=before.partition_epoch + 1)
        self.records.append(change_record(before, after))
        return after

    def _put(
        self,
        before: PartitionImage,
        assignment: Assignment,
        outcome: _Outcome,
        *,
        complete: Collection[BrokerId],
        recovery: Recovery | None = None,
        is_synced: bool | None = None,
        bump_leader_epoch: bool = False,
    ) -> PartitionImage:
        """Work out what follows from the outcome, and note the record."""
        min_isr = self._rules_of(before.topic_id).min_isr
        elr, last_known_elr = _elr_after(before, assignment, outcome.isr, complete, min_isr)
        is_new_epoch = outcome.leader != before.leader or bump_leader_epoch
        leader_epoch = LeaderEpoch(before.leader_epoch + 1) if is_new_epoch else before.leader_epoch
        after = PartitionImage(
            topic_id=before.topic_id,
            partition=before.partition,
            replicas=assignment.replicas,
            isr=outcome.isr,
            elr=elr,
            last_known_elr=last_known_elr,
            leader=outcome.leader,
            leader_epoch=leader_epoch,
            partition_epoch=before.partition_epoch + 1,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            recovery=Recovery.RECOVERING if outcome.is_unclean else recovery or before.recovery,
            unclean_leader_epochs=(
                before.unclean_leader_epochs_and(leader_epoch)
                if outcome.is_unclean
                else before.unclean_leader_epochs
            ),
            # Whoever leads after an unclean election says anew what is on its device.
            is_synced=not outcome.is_unclean and (before.is_synced if is_synced is None else is_synced),
        )
        if not _differ(before, after):
            return before
        _validate(after)
        self.records.append(change_record(before, after))
        if outcome.is_unclean:
            self.events.append(_unclean_election(self._image, after))
        return after

    def _rules_of(self, topic_id: TopicId) -> _TopicRules:
        rules = self._rules.get(topic_id)
        if rules is None:
            topic = self._image.topics[topic_id]
            rules = _TopicRules(
                min_insync_replicas(self._image, topic), unclean_election_enabled(self._image, topic)
            )
            self._rules[topic_id] = rules
        return rules


def _elr_after(
    before: PartitionImage,
    assignment: Assignment,
    isr: tuple[BrokerId, ...],
    complete: Collection[BrokerId],
    min_isr: int,
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """ELR and last known ELR (rules 28, 29, 33)."""
    # Replicas that a move has yet to fill do not raise what is asked of the others.
    if len(isr) >= min(min_isr, len(assignment.replicas) - len(assignment.adding)):
        return (), ()
    elr = tuple(sorted(member for member in complete if member not in isr))
    former = {*before.isr, *before.elr, *before.last_known_elr}.intersection(assignment.replicas)
    return elr, tuple(sorted(former.difference(isr, elr)))


def _differ(before: PartitionImage, after: PartitionImage) -> bool:
    """In anything but the partition epoch."""
    return (
        after.isr != before.isr
        or after.leader_epoch != before.leader_epoch
        or after.elr != before.elr
        or after.last_known_elr != before.last_known_elr
        or after.replicas != before.replicas
        or after.adding_replicas != before.adding_replicas
        or after.removing_replicas != before.removing_replicas
        or after.recovery is not before.recovery
        or after.is_synced is not before.is_synced
    )


def _validate(partition: PartitionImage) -> None:
    replicas = set(partition.replicas)
    assert len(replicas) == len(partition.replicas)
    assert replicas.issuperset(partition.isr)
    assert replicas.issuperset(partition.elr)
    assert partition.leader == NO_LEADER or partition.leader in partition.isr
    assert not partition.elr or set(partition.elr).isdisjoint(partition.isr)
    assert partition.recovery is Recovery.NORMAL or len(partition.isr) <= 1


def _unclean_election(image: MetadataImage, partition: PartitionImage) -> ControllerEvent:
    return ControllerEvent(
        "unclean_leader_election",
        {
            "topic": image.topics[partition.topic_id].name,
            "partition": partition.partition,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
        },
        is_warning=True,
    )
