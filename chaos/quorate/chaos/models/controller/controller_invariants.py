"""What must hold after every step of the controller's model (safety rules A, E and F)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from quorate.chaos.models.controller.model_brokers import Entry, Key, ModelBroker, common_prefix
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, Recovery
from quorate.metadata.topic_settings import min_insync_replicas_of
from quorate.v1.controller_pb2 import AlterPartitionRequest, BrokerSessionResponse

__all__ = ["Invariants"]


class _Facts:
    """About one partition, from the point of view of nobody in the cluster."""

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        #: may have lost records since MinISR sound replicas were last in the ISR
        self.losers: set[BrokerId] = set()
        #: the lowest MinISR in force since then
        self.min_isr_floor = 1
        #: ISR and ELR may be smaller than MinISR: somebody has lost records, or MinISR was changed
        self.may_be_small = False
        #: MinISR was changed at the wrong moment: there was an ELR, which is cleared then, or more had lost
        #: records than the new one allows for. Or the durability was: somebody was down whose synced records
        #: counted whatever became of its machine, and do not any more.
        self.has_lost_track = False
        #: an operator has accepted losses; leaders of earlier epochs promise nothing any more
        self.recovered_epoch = -1
        #: offset at which the current leader was elected
        self.elected_at = 0


class Invariants:
    def __init__(self, brokers: Mapping[BrokerId, ModelBroker]) -> None:
        self._brokers = brokers
        self._facts: defaultdict[Key, _Facts] = defaultdict(_Facts)
        #: offset of each broker's last registration or fencing
        self._state_offsets: dict[BrokerId, int] = {}
        #: offset at which each broker's stop was put on record
        self._stop_offsets: dict[BrokerId, int] = {}
        #: set by the model around what it does
        self.is_altering = False
        self.registering: BrokerId | None = None
        self.recovering: Key | None = None
        #: wait for a leader whom they could have: more did than one piece holds, or the controller changed
        self.elections_due: set[Key] = set()
        #: offset of the last piece in which this controller took partitions away from the broker
        self.taken_offsets: dict[BrokerId, int] = {}

    # --- what happens in the world

    def commit(self, key: Key, leader_epoch: int, entries: list[Entry]) -> int:
        """A leader considers these committed, and has answered for them. Returns how many are new."""
        facts = self._facts[key]
        if leader_epoch < facts.recovered_epoch:
            return 0
        shared = min(len(entries), len(facts.committed))
        assert entries[:shared] == facts.committed[:shared], "two leaders have committed different records"
        new = entries[shared:]
        facts.committed += new
        return len(new)

    def may_lose(self, key: Key, broker_id: BrokerId) -> bool:
        """Whether the fault model lets this broker lose records of the partition now."""
        facts = self._facts[key]
        return len(facts.losers | {broker_id}) <= facts.min_isr_floor - 1

    def may_move(self, key: Key, target: Collection[BrokerId]) -> bool:
        """Whether somebody is left then who has lost nothing, or of whose losses the controller knows.

        With fewer replicas than MinISR asked for, the losses of before can be all of them: more than the
        fault model has for so few.
        """
        return any(key not in self._brokers[each].has_lost for each in target)

    def note_loss(self, key: Key, broker_id: BrokerId) -> None:
        self._facts[key].losers.add(broker_id)

    def check_recovery(self, key: Key, before: PartitionImage, leader: ModelBroker) -> None:
        """Rule 33: it was the last resort, and costs as little as possible. Before it is forgiven."""
        reachable = {
            each
            for each in before.replicas
            if self._brokers[each].is_running and not self._brokers[each].is_quarantined(key)
        }
        could_lead = reachable.intersection((*before.isr, *before.elr))
        assert not could_lead, f"rule 33: recovered though {could_lead} could have led without any loss"
        committed = self._facts[key].committed
        kept = {each: common_prefix(self._brokers[each].log(key).entries, committed) for each in reachable}
        assert kept[leader.broker_id] == max(kept.values()), "rule 33: another replica held more"

    def forgive(self, key: Key, partition: PartitionImage, entries: list[Entry]) -> None:
        """An operator has made this log the one that counts."""
        facts = self._facts[key]
        facts.committed = facts.committed[: common_prefix(facts.committed, entries)]
        facts.recovered_epoch = partition.leader_epoch
        facts.min_isr_floor = 1

    # --- after a batch

    def changed(self, before: MetadataImage, after: MetadataImage) -> None:
        for broker in after.brokers.values():
            known = before.brokers.get(broker.broker_id)
            is_new = known is None or known.broker_epoch != broker.broker_epoch
            if is_new or (known is not None and broker.is_fenced > known.is_fenced):
                self._state_offsets[broker.broker_id] = after.offset
            if known is not None and broker.is_shutting_down > known.is_shutting_down:
                self._stop_offsets[broker.broker_id] = after.offset
        for topic in after.topics.values():
            old_topic = before.topics.get(topic.topic_id)
            for partition in topic.partitions:
                key = Key(topic.topic_id, partition.partition)
                if old_topic is None:
                    self._facts[key].elected_at = after.offset
                    continue
                old = old_topic.partitions[partition.partition]
                if min_insync_replicas_of(before, old) != min_insync_replicas_of(after, partition):
                    assert not partition.elr, "rule 29: an ELR that came about under another MinISR"
                    self._note_new_min_isr(self._facts[key], old, min_insync_replicas_of(after, partition))
                if old.is_synced and not partition.is_synced:
                    self._note_looser_durability(self._facts[key], old)
                if old is not partition:
                    self._check_change(key, after, old, partition)

    def _note_looser_durability(self, facts: _Facts, old: PartitionImage) -> None:
        """A lossy start cost nothing where all was synced. Whose next one is, leaves now, though complete."""
        if any(_is_doubted(self._brokers[each]) for each in (*old.isr, *old.elr)):
            facts.has_lost_track = True

    def _note_new_min_isr(self, facts: _Facts, old: PartitionImage, min_isr: int) -> None:
        facts.may_be_small = True
        if old.elr or len(facts.losers) >= min_isr:
            facts.has_lost_track = True

    def _check_change(self, key: Key, after: MetadataImage, old: PartitionImage, new: PartitionImage) -> None:
        facts = self._facts[key]
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch, "rule 2: a new leader in an old epoch"
        if new.leader_epoch > old.leader_epoch:
            facts.elected_at = after.offset
        if new.unclean_leader_epochs != old.unclean_leader_epochs:
            assert key == self.recovering, "rule 27: an unclean election"
        joined = set(new.isr) - set(old.isr)
        if joined and key != self.recovering:
            is_from_elr = new.leader in old.elr and new.isr == (new.leader,)
            assert self.is_altering or is_from_elr, "rule 21: the controller added to an ISR by itself"
        if old.recovery is Recovery.RECOVERING is new.recovery:
            gone = set(old.replicas).difference(new.replicas, old.adding_replicas)
            assert not gone, f"rule 34: {gone} left while what they hold may still be wanted"
        assigned = set(new.replicas)
        if any(self._is_gone(each) for each in {*old.isr, *old.elr} & assigned - {*new.isr, *new.elr}):
            facts.may_be_small = True
        if key == self.recovering:
            facts.may_be_small = True

    def _is_gone(self, broker_id: BrokerId) -> bool:
        """Whether the controller had reason to count it out: it registers just now, or reports damage."""
        broker = self._brokers[broker_id]
        return broker_id == self.registering or bool(broker.damaged)

    def check_heartbeat(
        self, image: MetadataImage, broker: ModelBroker, response: BrokerSessionResponse
    ) -> None:
        """Before the decision is applied."""
        registered = image.brokers[broker.broker_id]
        if not response.is_fenced:
            taken_offset = self.taken_offsets.get(broker.broker_id, 0)
            assert broker.applied >= taken_offset, "rule 37: a lease renewed for what others lead by now"
        if registered.is_fenced and not response.is_fenced:
            assert broker.applied >= self._state_offsets[broker.broker_id], "rule 36: unfenced too early"
            assert not registered.is_shutting_down
        if response.may_shut_down and not registered.is_fenced:
            assert registered.is_shutting_down
            for topic in image.topics.values():
                for partition in topic.partitions:
                    assert partition.leader != broker.broker_id, "rule 36: let go while it leads"
            for other in image.brokers.values():
                if _is_active(other):
                    applied = self._brokers[other.broker_id].applied
                    assert applied >= self._stop_offsets[broker.broker_id], "rule 36: let go too early"

    def check_refusal(self, image: MetadataImage, request: AlterPartitionRequest, code: str) -> None:
        """Leaders act on the kind of a refusal (rules 21, 22), so it has to be the right one."""
        wish = request.partitions[0]
        partition = image.partition(TopicId(wish.topic_id), PartitionId(wish.partition))
        if partition is None:
            expected = "UNKNOWN_TOPIC_OR_PARTITION"
        elif wish.leader_epoch < partition.leader_epoch:
            expected = "FENCED_LEADER_EPOCH"
        elif wish.partition_epoch < partition.partition_epoch:
            expected = "INVALID_UPDATE_VERSION"
        elif partition.recovery is Recovery.RECOVERING and not wish.recovery_state and len(wish.isr) > 1:
            expected = "INVALID_REQUEST"
        else:
            expected = "INELIGIBLE_REPLICA"
        assert code == expected, f"rule 21: refused with {code} instead of {expected}"

    def note_elections_due(self, image: MetadataImage, *, leaving: Collection[BrokerId]) -> None:
        """Who waits now may, until a whole round of elections is over; nobody else."""
        for topic in image.topics.values():
            for partition in topic.partitions:
                if _waits_for_leader(image, partition, leaving):
                    self.elections_due.add(Key(topic.topic_id, partition.partition))

    # --- after every step

    def check(self, image: MetadataImage, *, leaving: Collection[BrokerId]) -> None:
        """``leaving``: brokers whose partitions are being taken away."""
        for topic_id in sorted(image.topics):
            for partition in image.topics[topic_id].partitions:
                key = Key(topic_id, partition.partition)
                self._check_shape(image, partition)
                self._check_leader(image, key, partition, leaving)
                self._check_completeness(key, partition)
                self._check_sizes(image, key, partition)

    def _check_shape(self, image: MetadataImage, partition: PartitionImage) -> None:
        assert list(partition.isr) == sorted(set(partition.isr))
        assert list(partition.elr) == sorted(set(partition.elr))
        assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.elr)
        assert partition.recovery is Recovery.NORMAL or len(partition.isr) <= 1, (
            "rule 34: it grew unconfirmed"
        )
        idle = [each for each in partition.isr if not _is_active(image.brokers[each])]
        if idle:
            assert partition.leader == NO_LEADER, "rule 24: somebody in the ISR is fenced or stopping"
            assert len(partition.isr) == 1, "rule 24: somebody in the ISR is fenced or stopping"

    def _check_leader(
        self, image: MetadataImage, key: Key, partition: PartitionImage, leaving: Collection[BrokerId]
    ) -> None:
        if partition.leader == NO_LEADER:
            is_waiting = _waits_for_leader(image, partition, leaving)
            assert not is_waiting or key in self.elections_due, (
                "a partition is offline though somebody could lead it"
            )
            if not is_waiting:
                self.elections_due.discard(key)
            return
        self.elections_due.discard(key)
        leader = image.brokers[partition.leader]
        assert _is_active(leader), "rule 27: the leader is not active"
        assert partition.leader in partition.isr, "rule 28: the leader is not in its ISR"
        assert leader.broker_epoch <= self._facts[key].elected_at, (
            "rule 30: led in an epoch of an earlier run"
        )

    def _check_completeness(self, key: Key, partition: PartitionImage) -> None:
        """Rule 1: leaders and candidates hold all that was committed."""
        facts = self._facts[key]
        complete = {each.broker_id for each in self._brokers.values() if each.holds(key, facts.committed)}
        # Who has lost something and not come back yet cannot be known to have.
        sound = {each for each in (*partition.isr, *partition.elr) if key not in self._brokers[each].has_lost}
        lacking = sound - complete
        assert not lacking, f"rule 1: brokers {lacking} lack committed records"
        # In that case the partition may go offline although a replica is complete; an operator has to recover
        # it then.
        left = complete if facts.has_lost_track else sound
        assert left or not facts.committed, "rule 1: nobody is left who holds all that was acknowledged"

    def _check_sizes(self, image: MetadataImage, key: Key, partition: PartitionImage) -> None:
        facts = self._facts[key]
        min_isr = min_insync_replicas_of(image, partition)
        if len(partition.isr) >= min_isr:
            assert not partition.elr, "rule 29: an ELR beside an ISR of MinISR"
            facts.may_be_small = False
        elif not facts.may_be_small:
            assert len(partition.isr) + len(partition.elr) >= min_isr, "rule 28: ISR and ELR are too small"
        # What is in force once a move to fewer replicas is complete: it may complete at any moment.
        target = min(min_isr, len(partition.replicas) - len(partition.removing_replicas))
        facts.min_isr_floor = min(facts.min_isr_floor, target)
        members = [self._brokers[each] for each in partition.isr]
        if len(members) >= min_isr and not any(key in each.has_lost for each in members):
            # A loss that nobody knows of yet can still find its way into the ISR, by a request under way.
            facts.losers = {each for each in facts.losers if key in self._brokers[each].has_lost}
            facts.has_lost_track = facts.has_lost_track and any(map(_is_doubted, members))
            facts.min_isr_floor = target


def _is_doubted(broker: ModelBroker) -> bool:
    """Its next start counts as lossy."""
    return broker.is_cache_lost or not broker.is_same_boot


def _waits_for_leader(image: MetadataImage, partition: PartitionImage, leaving: Collection[BrokerId]) -> bool:
    complete = {*partition.isr, *partition.elr}.difference(leaving)
    return partition.leader == NO_LEADER and any(_is_active(image.brokers[each]) for each in complete)


def _is_active(broker: BrokerImage) -> bool:
    return not broker.is_fenced and not broker.is_shutting_down
