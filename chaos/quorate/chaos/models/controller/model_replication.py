"""The replicas of the controller's model: what each broker believes, and how records get from one to another.

Brokers see decisions late, in pieces, or by the answer to their own request, and go on with what they
believe, as zombies do.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from quorate.chaos.models.controller.controller_invariants import Invariants
from quorate.chaos.models.controller.model_brokers import (
    Entry,
    Key,
    Leading,
    ModelBroker,
    Proposal,
    View,
    common_prefix,
)
from quorate.controller.alter_partition import alter_partition
from quorate.controller.decision import Decision
from quorate.controller.reassignment import is_reassigning
from quorate.controller.sessions import BrokerSessions
from quorate.core.config import Durability
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.errors import QuorateError
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage
from quorate.metadata.topic_settings import durability_of, min_insync_replicas_of
from quorate.v1.controller_pb2 import (
    AlterPartitionRequest,
    IsrMember,
    PartitionAlteration,
    PartitionAlterationResult,
)
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL, RECOVERY_STATE_UNSPECIFIED

__all__ = ["ReplicationModel"]

Response = TypeVar("Response")


class _Message(NamedTuple):
    """An AlterPartition on its way."""

    sender: BrokerId
    request: AlterPartitionRequest
    key: Key


class ReplicationModel:
    def __init__(self, seed: int, *, brokers: int = 4) -> None:
        self.rng = random.Random(seed)
        #: what has happened how often
        self.counts: Counter[str] = Counter()
        self.image = EMPTY_IMAGE
        #: by offset
        self.history: list[MetadataImage] = [EMPTY_IMAGE]
        self.sessions = BrokerSessions(3.0)
        self.brokers = {BrokerId(each): ModelBroker(BrokerId(each)) for each in range(1, brokers + 1)}
        self.network: list[_Message] = []
        self.invariants = Invariants(self.brokers)
        self._last_number = 0
        #: (offset, partition) -> as the metadata up to there has it; most is asked for many times
        self._views: dict[tuple[int, Key], View] = {}

    def _put(self, decision: Decision[Response]) -> Response:
        if decision.records:
            before = self.image
            self.image = apply_batch(before, decision.records, before.offset + 1)
            self.history.append(self.image)
            self.sessions.image_changed(self.image)
            self.invariants.changed(before, self.image)
        return decision.response

    def _try(self, name: str, decide: Callable[[], Decision[Response]]) -> Response | None:
        try:
            decision = decide()
        except QuorateError as error:
            self.counts[f"{name}: {error.code}"] += 1
            return None
        self.counts[name] += bool(decision.records)
        return self._put(decision)

    def _keys(self) -> list[Key]:
        return [
            Key(topic_id, partition.partition)
            for topic_id in sorted(self.image.topics)
            for partition in self.image.topics[topic_id].partitions
        ]

    def _partition(self, key: Key) -> PartitionImage:
        return self.image.topics[key.topic_id].partitions[key.partition]

    def _any(self, wanted: Callable[[ModelBroker], bool]) -> ModelBroker | None:
        found = [broker for broker in self.brokers.values() if wanted(broker)]
        return self.rng.choice(found) if found else None

    # --- what brokers know ----------------------------------------------------------------------------

    def follow_metadata(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None and broker.applied < self.image.offset:
            latest = self.image.offset
            self._follow(broker, self.rng.choice((latest, self.rng.randint(broker.applied, latest))))

    def _follow(self, broker: ModelBroker, offset: int) -> None:
        broker.applied = offset
        image = self.history[offset]
        for key in list(broker.replicas):
            if key.topic_id in self.image.removed_topics and key.topic_id not in image.topics:
                del broker.replicas[key]
            elif key.topic_id not in image.topics or offset < broker.broker_epoch:
                # Metadata from before its own registration tells a process nothing about its disk (rule 42).
                continue
            elif broker.broker_id not in self._view(broker, key).replicas:
                del broker.replicas[key]
        broker.metadata_applied()

    def _view(self, broker: ModelBroker, key: Key) -> View:
        view = self._views.get((broker.applied, key))
        if view is None:
            view = self._views[broker.applied, key] = self._view_at(broker.applied, key)
        reply = broker.replies.get(key)
        if reply is not None and 0 <= view.partition_epoch < reply.partition_epoch:
            return reply._replace(
                min_isr=view.min_isr,
                replicas=view.replicas,
                adding=view.adding,
                removing=view.removing,
                is_fsync=view.is_fsync,
            )
        return view

    def _view_at(self, offset: int, key: Key) -> View:
        image = self.history[offset]
        topic = image.topics.get(key.topic_id)
        if topic is None:
            return View(NO_LEADER, -1, -1, (), (), 1)
        partition = topic.partitions[key.partition]
        return View(
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.replicas,
            partition.isr,
            min_insync_replicas_of(image, partition),
            partition.adding_replicas,
            partition.removing_replicas,
            durability_of(image, topic) is Durability.FSYNC,
        )

    def _leading(self, broker: ModelBroker, key: Key) -> Leading | None:
        """What the broker knows as leader; None: it does not believe that it leads."""
        if not broker.is_running or not broker.is_serving or broker.is_quarantined(key):
            return None
        view = self._view(broker, key)
        if view.leader != broker.broker_id:
            return None
        leading = broker.leading.get(key)
        if leading is None or leading.leader_epoch != view.leader_epoch:
            leading = Leading(view.leader_epoch, start=len(broker.log(key).entries))
            broker.leading[key] = leading
        if leading.proposal is not None and view.partition_epoch > leading.proposal.partition_epoch:
            leading.proposal = None
        return leading

    def _check_old_leaders(self) -> None:
        """Rule 37: nothing is committed without who was replaced as leader, has a lease and does not know."""
        for key in self._keys():
            partition = self._partition(key)
            for broker in self.brokers.values():
                leading = self._leading(broker, key) if broker.has_lease else None
                if leading is not None and leading.leader_epoch < partition.leader_epoch:
                    assert broker.broker_id in partition.isr, "rule 37: a leader was replaced and not told"

    def _any_leader(self) -> tuple[ModelBroker, Key, Leading] | None:
        found, keys = [], self._keys()
        for broker in self.brokers.values():
            for key in keys:
                leading = self._leading(broker, key)
                if leading is not None:
                    found.append((broker, key, leading))
        return self.rng.choice(found) if found else None

    # --- replication ----------------------------------------------------------------------------------

    def produce(self) -> None:
        found = self._any_leader()
        if found is None:
            return
        broker, key, leading = found
        view = self._view(broker, key)
        if len(view.isr) < view.min_isr and self.rng.random() < 0.7:
            return  # acks=all is refused, acks=1 is not
        self._last_number += 1
        broker.log(key).entries.append(Entry(leading.leader_epoch, self._last_number))
        self._advance(broker, key, leading)

    def fetch(self) -> None:
        """A follower truncates to what it shares with the leader, tells its end, and gets more."""
        found = self._any_leader()
        if found is None:
            return
        leader, key, leading = found
        view = self._view(leader, key)
        followers = [each for each in view.replicas if each != leader.broker_id]
        if not followers:
            return
        follower = self.brokers[self.rng.choice(followers)]
        its_view = self._view(follower, key)
        if not follower.is_running or its_view.leader_epoch != view.leader_epoch:
            return
        if follower.broker_id not in its_view.replicas or follower.is_quarantined(key):
            return
        replica, source = follower.log(key), leader.log(key).entries
        replica.cut(common_prefix(replica.entries, source))
        if its_view.is_fsync:
            replica.synced = len(replica.entries)
        leading.ends[follower.broker_id] = (len(replica.entries), follower.broker_epoch)
        self._advance(leader, key, leading)
        missing = source[len(replica.entries) :]
        replica.entries += missing[: self.rng.choice((len(missing), 1))]

    def _advance(self, broker: ModelBroker, key: Key, leading: Leading) -> None:
        """The high watermark: minimum over the maximal ISR, only with MinISR members (rules 13, 14)."""
        view = self._view(broker, key)
        if len(view.isr) < view.min_isr:
            return
        replica = broker.log(key)
        entries = replica.entries
        if view.is_fsync:
            replica.synced = len(entries)
        maximal = set(view.isr) | (leading.proposal.isr if leading.proposal else set())
        ends = [leading.ends.get(each, (-1, 0))[0] for each in maximal if each != broker.broker_id]
        high_watermark = min([*ends, len(entries)])
        if high_watermark > leading.high_watermark:
            leading.high_watermark = high_watermark
            self.counts["commits"] += self.invariants.commit(
                key, leading.leader_epoch, entries[:high_watermark]
            )

    # --- ISR changes ----------------------------------------------------------------------------------

    def propose_isr(self) -> None:
        found = self._any_leader()
        if found is None:
            return
        broker, key, leading = found
        view = self._view(broker, key)
        if leading.proposal is None:
            wanted = self._wanted_isr(broker, view, leading)
            if wanted is None and view.is_fsync:
                wanted = set(view.isr)
            if wanted is None:
                return
            isr = frozenset(wanted)
            request = self._request(broker, key, view, leading, isr)
            is_own_synced = broker.log(key).synced >= leading.start
            request.partitions[0].is_synced = is_own_synced and _have_synced(
                isr - {broker.broker_id}, view, leading
            )
            leading.proposal = Proposal(isr, view.partition_epoch, request)
        # Without an answer it asks again, in the same words: the first request may still arrive, and what the
        # members have become since was not looked at.
        self.network.append(_Message(broker.broker_id, leading.proposal.request, key))

    def _wanted_isr(self, broker: ModelBroker, view: View, leading: Leading) -> set[BrokerId] | None:
        isr = set(view.isr)
        dispensable = _dispensable(broker, view, leading)
        caught_up = [
            each
            for each, (end, _) in sorted(leading.ends.items())
            if each in view.replicas
            and each not in isr | dispensable
            and end >= max(leading.high_watermark, leading.start)
        ]
        others = sorted(isr - {broker.broker_id})
        if isr & dispensable and self.rng.random() < 0.8:
            return isr - dispensable
        if caught_up and self.rng.random() < 0.8:
            return isr | {self.rng.choice(caught_up)}
        if others and self.rng.random() < 0.3:
            late = self.rng.choice(others)
            if late not in leading.ends:
                # Nothing was heard of it in this epoch, for longer than a lease lasts.
                self.brokers[late].lose_lease()
            return isr - {late}
        return None

    def _request(
        self, broker: ModelBroker, key: Key, view: View, leading: Leading, isr: frozenset[BrokerId]
    ) -> AlterPartitionRequest:
        known = self.history[broker.applied].brokers
        epochs = {
            each: leading.ends[each][1] if each in leading.ends else known[each].broker_epoch for each in isr
        }
        epochs[broker.broker_id] = BrokerEpoch(broker.broker_epoch)
        return AlterPartitionRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            partitions=[
                PartitionAlteration(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    leader_epoch=view.leader_epoch,
                    partition_epoch=view.partition_epoch,
                    isr=[IsrMember(broker_id=each, broker_epoch=epochs[each]) for each in sorted(isr)],
                    # Only who has confirmed may ask for a second member (rule 34); this one may forget to.
                    recovery_state=self.rng.choice((RECOVERY_STATE_UNSPECIFIED, RECOVERY_STATE_NORMAL)),
                )
            ],
        )

    def deliver(self) -> None:
        """Any message, as late as it likes; sometimes once more later."""
        if not self.network:
            return
        message = self.network.pop(self.rng.randrange(len(self.network)))
        before = self.image
        self.invariants.is_altering = True
        response = self._try("altered", lambda: alter_partition(self.image, message.request))
        self.invariants.is_altering = False
        if response is None:
            assert message.request.broker_epoch != self.image.brokers[message.sender].broker_epoch
            return
        result = response.partitions[0]
        self.counts[f"alter: {result.error.code or 'accepted'}"] += 1
        if result.HasField("error"):
            self.invariants.check_refusal(before, message.request, result.error.code)
        else:
            self._count_alteration(before.topics[message.key.topic_id].partitions[message.key.partition])
        if not result.HasField("error") and self.rng.random() < 0.3:
            self.network.append(message)
        if self.rng.random() < 0.8:
            self._answer(message, result)

    def _count_alteration(self, before: PartitionImage) -> None:
        after = self._partition(Key(before.topic_id, before.partition))
        self.counts["moves completed"] += is_reassigning(before) and not is_reassigning(after)
        self.counts["synced"] += after.is_synced and not before.is_synced

    def _answer(self, message: _Message, result: PartitionAlterationResult) -> None:
        broker, key = self.brokers[message.sender], message.key
        if not broker.is_running or broker.broker_epoch != message.request.broker_epoch:
            return
        if not result.HasField("error"):
            old = self._view(broker, key)
            # A new leader epoch is learned from the metadata alone: where the answer completes a move, MinISR
            # may have grown with it, and the answer does not tell that (rule 29).
            is_same_epoch = result.leader_epoch == old.leader_epoch
            if is_same_epoch and result.partition_epoch > old.partition_epoch:
                isr = tuple(map(BrokerId, result.isr))
                leader = BrokerId(result.leader)
                broker.replies[key] = old._replace(
                    leader=leader,
                    leader_epoch=result.leader_epoch,
                    partition_epoch=result.partition_epoch,
                    isr=isr,
                )
        elif result.error.code in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"):
            leading = broker.leading.get(key)
            is_last = not any(
                each.sender == message.sender and each.request == message.request for each in self.network
            )
            proposal = None if leading is None else leading.proposal
            # Surely not applied, and no copy of it is under way any more (rule 22).
            if (
                leading is not None
                and proposal is not None
                and proposal.request == message.request
                and is_last
            ):
                leading.proposal = None


def _have_synced(followers: frozenset[BrokerId], view: View, leading: Leading) -> bool:
    """Whether all of them have synced everything before this epoch, as the leader can tell (rule 45)."""
    if not view.is_fsync or len(view.isr) < view.min_isr:
        return False
    return all(leading.ends.get(each, (-1, 0))[0] >= leading.start for each in followers)


def _dispensable(leader: ModelBroker, view: View, leading: Leading) -> set[BrokerId]:
    """Whom a reassignment takes away, who knows this epoch, and is not needed any more (rule 47)."""
    leaving = set(view.removing)
    staying = set(view.isr) - leaving
    is_complete = staying.issuperset(set(view.adding) - leaving)
    enough = min(view.min_isr, len(view.replicas) - len(leaving))
    if leader.broker_id in leaving or not is_complete or len(staying) < enough:
        return set()
    return leaving.intersection(leading.ends)
