"""The controller against a small cluster whose replicas really hold records.

A random walk: each step lets a client write, a follower fetch, a message arrive, a process die, a disk lose what
was not synced, an operator change something. Every decision is the controller's own; brokers see it late, in
pieces, or by the answer to their own request, and go on with what they believe, as zombies do. Since logs are real
(lists of entries), "no acknowledged record is lost" is checked and not inferred: ``controller_invariants``.

Fault model: any number of process crashes and delays. Losses of unsynced data or of whole disks: for each partition
fewer at once than MinISR, where "at once" ends when MinISR complete replicas are in the ISR again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from quorate.controller.alter_configs import alter_configs
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import fence_broker, register_broker
from quorate.controller.decision import Decision
from quorate.controller.draining import drain_broker
from quorate.controller.heartbeats import heartbeat
from quorate.controller.preferred import move_leaders_back
from quorate.controller.reassignment import complete_reassignments, is_reassigning, reassign_partitions
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.controller.sessions import BrokerSessions, LapsedSession
from quorate.controller.topics import create_topic, delete_topic
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicName
from quorate.core.topic_names import topic_id_from
from quorate.errors import DuplicateBroker, QuorateError, StaleBrokerEpoch
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage
from quorate.metadata.records import cluster_record, feature_level_record
from quorate.metadata.topic_settings import min_insync_replicas_of
from quorate.v1 import admin_pb2
from quorate.v1.controller_pb2 import (
    AlterPartitionRequest,
    BrokerSessionRequest,
    IsrMember,
    PartitionAlteration,
    PartitionAlterationResult,
    PreviousRun,
    RegisterBrokerRequest,
    ReplicaName,
)
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL, RECOVERY_STATE_UNSPECIFIED
from tests.unit.controller.controller_invariants import Invariants
from tests.unit.controller.model_brokers import Backup, Entry, Key, Leading, ModelBroker, Proposal, View, common_prefix

__all__ = ["ControllerModel"]

Response = TypeVar("Response")

#: name -> durability; the second keeps what it has answered for through any power loss
_TOPICS = {"pages": "replicated", "synced": "fsync"}


class _Message(NamedTuple):
    """An AlterPartition on its way."""

    sender: BrokerId
    request: AlterPartitionRequest
    key: Key


class ControllerModel:
    def __init__(self, seed: int, *, brokers: int = 4) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.image = EMPTY_IMAGE
        #: by offset
        self.history: list[MetadataImage] = [EMPTY_IMAGE]
        self.sessions = BrokerSessions(3.0)
        self.brokers = {BrokerId(each): ModelBroker(BrokerId(each)) for each in range(1, brokers + 1)}
        self.network: list[_Message] = []
        self.invariants = Invariants(self.brokers)
        self._last_number = 0
        self._steps = self._weighted_steps()
        self._begin()

    def _weighted_steps(self) -> tuple[list[Callable[[], None]], list[int]]:
        weights: dict[Callable[[], None], int] = {
            self.calm: 12,
            self.produce: 40,
            self.fetch: 60,
            self.propose_isr: 20,
            self.deliver: 24,
            self.follow_metadata: 40,
            self.beat: 30,
            self.lapse: 12,
            self.start_process: 16,
            self.start_second_process: 1,
            self.speak_from_the_past: 1,
            self.crash: 6,
            self.lose_power: 4,
            self.lose_disk: 2,
            self.damage_replica: 2,
            self.back_up: 2,
            self.restore_old_copy: 2,
            self.ask_to_stop: 2,
            self.stop_without_leave: 1,
            self.sync: 8,
            self.change_min_isr: 2,
            self.reassign: 6,
            self.complete_moves: 2,
            self.drain: 2,
            self.move_leaders_back: 3,
            self.recover: 2,
            self.recreate_topic: 1,
            self.change_controller: 1,
        }
        return list(weights), list(weights.values())

    def _begin(self) -> None:
        self._put(Decision((feature_level_record(1), cluster_record("cluster", 3)), None))
        for broker in self.brokers.values():
            self._register(broker)
            self._follow(broker, self.image.offset)
            self._beat(broker)
        for name in _TOPICS:
            self._create(name)

    def step(self) -> None:
        steps, weights = self._steps
        self.rng.choices(steps, weights)[0]()
        self.invariants.check(self.image)

    def calm(self) -> None:
        """A while in which most things work, so that there is something to lose."""
        for broker in self.brokers.values():
            if self.rng.random() < 0.2:
                continue
            if not broker.is_running:
                self._lapse(broker)
                self._register(broker)
            if broker.is_running:
                self._follow(broker, self.image.offset)
                self._beat(broker)
        for broker in self.brokers.values():
            if broker.is_running and self.rng.random() < 0.9:
                self._follow(broker, self.image.offset)
        for _ in range(3):
            self.produce()
            for _ in range(6):
                self.fetch()
            self.propose_isr()
            self.deliver()

    # --- the controller -------------------------------------------------------------------------------

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

    def change_controller(self) -> None:
        self.sessions.start_all_afresh(self.image, 0.0)

    def lapse(self) -> None:
        """A session ends; whether the process is alive the controller does not know."""
        broker = self._any(lambda each: not each.is_running) if self.rng.random() < 0.8 else None
        self._lapse(broker or self.rng.choice(list(self.brokers.values())))

    def _lapse(self, broker: ModelBroker) -> None:
        registered = self.image.brokers[broker.broker_id]
        self._try("fenced", lambda: fence_broker(self.image, broker.broker_id))
        self.sessions.end(LapsedSession(broker.broker_id, registered.broker_epoch))

    # --- processes ------------------------------------------------------------------------------------

    def _any(self, wanted: Callable[[ModelBroker], bool]) -> ModelBroker | None:
        found = [broker for broker in self.brokers.values() if wanted(broker)]
        return self.rng.choice(found) if found else None

    def start_process(self) -> None:
        broker = self._any(lambda each: not each.is_running)
        if broker is not None:
            self._register(broker)

    def _registration(self, broker: ModelBroker) -> RegisterBrokerRequest:
        request = RegisterBrokerRequest(
            broker_id=broker.broker_id,
            incarnation_id=f"{broker.broker_id}-{broker.incarnation}",
            directory_id=f"{broker.broker_id}-{broker.directory}",
            address=f"host-{broker.broker_id}:9092",
            feature_level_min=1,
            feature_level_max=1,
            damaged=_names(broker.damaged),
        )
        if broker.noted_epoch:
            request.previous_run.CopyFrom(
                PreviousRun(
                    broker_epoch=broker.noted_epoch,
                    is_clean=broker.has_marker,
                    is_same_boot=broker.is_same_boot,
                    is_intact=True,
                    unnoted_incarnation_ids=broker.unnoted_incarnations,
                )
            )
        return request

    def _register(self, broker: ModelBroker) -> None:
        broker.incarnation += 1
        request = self._registration(broker)
        broker.unnoted_incarnations.append(request.incarnation_id)
        broker.has_marker = False
        is_live = self.sessions.is_live(broker.broker_id, 0.0)

        def decide() -> Decision[object]:
            return register_broker(
                self.image, request, next_offset=self.image.offset + 1, has_live_session=is_live
            )

        response = self._try("registered", decide)
        if response is None:
            return
        assert not is_live, "rule 35: another incarnation was registered beside a live session"
        retry = register_broker(self.image, request, next_offset=1 << 40, has_live_session=True)
        assert not retry.records, "a retry of a registration changed something"
        assert retry.response == response
        broker.has_lost.clear()
        broker.damaged.clear()
        broker.broker_epoch = self.image.offset
        if self.image.topics and self.rng.random() < 0.1:
            return  # died before it could note its epoch
        broker.note_epoch()
        broker.is_running = True
        self.sessions.touch(broker.broker_id, BrokerEpoch(broker.broker_epoch), 0.0, metadata_offset=-1)
        self._follow(broker, self.rng.randint(0, self.image.offset))

    def start_second_process(self) -> None:
        broker = self._any(lambda each: self.sessions.is_live(each.broker_id, 0.0))
        if broker is None:
            return
        request = self._registration(broker)
        request.incarnation_id += "-second"
        try:
            register_broker(self.image, request, next_offset=1 << 40, has_live_session=True)
        except DuplicateBroker:
            return
        raise AssertionError("rule 35: a second process was registered beside a live one")

    def speak_from_the_past(self) -> None:
        """A heartbeat of an earlier run was long under way."""
        broker = self.rng.choice(list(self.brokers.values()))
        epoch = self.image.brokers[broker.broker_id].broker_epoch - 1
        request = BrokerSessionRequest(
            broker_id=broker.broker_id, broker_epoch=epoch, metadata_offset=1 << 40, wants_unfence=True
        )
        try:
            heartbeat(self.image, request, state_offset=0, others_offset=None, session_timeout_ms=1)
        except StaleBrokerEpoch:
            return
        raise AssertionError("rule 2: an earlier run of a broker was listened to")

    def crash(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            self.counts["process crashes"] += 1
            broker.end_process()

    def lose_power(self) -> None:
        broker = self._any(lambda each: True)
        if broker is None or not self._may_lose(broker, self._replicated_keys()):
            return
        self.counts["power losses"] += 1
        broker.end_process()
        broker.is_same_boot = False
        for _, replica in sorted(broker.replicas.items()):
            left = self.rng.randint(replica.synced, len(replica.entries))
            self.counts["replicas that lost entries"] += left < len(replica.entries)
            replica.cut(left)

    def _replicated_keys(self) -> list[Key]:
        return [key for key in self._keys() if not self._is_fsync(key)]

    def _is_fsync(self, key: Key) -> bool:
        return self.image.topics[key.topic_id].configs.get("durability") == "fsync"

    def _may_lose(self, broker: ModelBroker, keys: list[Key]) -> bool:
        """Whether the fault model lets it lose records of these partitions now; if so, it is taken note of."""
        held = [key for key in keys if broker.broker_id in self._partition(key).replicas]
        if not all(self.invariants.may_lose(key, broker.broker_id) for key in held):
            return False
        for key in held:
            self.invariants.note_loss(key, broker.broker_id)
        broker.has_lost.update(held)
        return True

    def lose_disk(self) -> None:
        broker = self._any(lambda each: True)
        if broker is not None and self._may_lose(broker, self._keys()):
            self.counts["lost disks"] += 1
            broker.lose_directory()

    def back_up(self) -> None:
        broker = self._any(lambda each: True)
        if broker is not None:
            broker.back_up()

    def restore_old_copy(self) -> None:
        broker = self._any(lambda each: each.backup is not None)
        if broker is None or broker.backup is None or not self._is_of_an_earlier_run(broker, broker.backup):
            return
        if not self._may_lose(broker, self._keys()):
            return
        self.counts["restored copies"] += 1
        broker.restore(broker.backup)
        for key in list(broker.replicas):
            if key not in self._keys():
                del broker.replicas[key]

    def _is_of_an_earlier_run(self, broker: ModelBroker, backup: Backup) -> bool:
        """Otherwise nothing in it would tell that it is old."""
        registered = self.image.brokers[broker.broker_id]
        is_last = backup.noted_epoch == registered.broker_epoch
        return not is_last and registered.incarnation_id not in backup.unnoted_incarnations

    def damage_replica(self) -> None:
        broker = self._any(lambda each: each.is_running and bool(each.replicas))
        if broker is None:
            return
        key = self.rng.choice(sorted(broker.replicas))
        if key in self._keys() and key not in broker.damaged and self._may_lose(broker, [key]):
            self.counts["damaged replicas"] += 1
            broker.log(key).cut(self.rng.randint(0, len(broker.log(key).entries)))
            broker.damaged.add(key)

    def sync(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            for replica in broker.replicas.values():
                replica.synced = len(replica.entries)

    def ask_to_stop(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            broker.is_stopping = True

    def stop_without_leave(self) -> None:
        """No controller in reach: the broker goes after a while, with its marker (rule 36)."""
        broker = self._any(lambda each: each.is_stopping)
        if broker is not None:
            broker.stop_cleanly()

    def beat(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            self._beat(broker)

    def _beat(self, broker: ModelBroker) -> None:
        request = BrokerSessionRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            metadata_offset=broker.applied,
            wants_unfence=not broker.is_stopping,
            wants_shutdown=broker.is_stopping,
            damaged=_names(broker.damaged),
        )
        was_fenced = self.image.brokers[broker.broker_id].is_fenced
        epoch = BrokerEpoch(broker.broker_epoch)
        self.sessions.touch(broker.broker_id, epoch, 0.0, metadata_offset=broker.applied)
        decision = heartbeat(
            self.image,
            request,
            state_offset=self.sessions.state_offset(broker.broker_id),
            others_offset=self.sessions.others_offset(broker.broker_id),
            session_timeout_ms=3_000,
        )
        self.counts["unfenced"] += was_fenced and not decision.response.is_fenced
        self.invariants.check_heartbeat(self.image, broker, decision.response)
        response = self._put(decision)
        for key in broker.damaged:
            broker.has_lost.discard(key)
            broker.quarantined[key] = self.image.offset
        broker.damaged.clear()
        if self.rng.random() < 0.1:
            return  # the answer is lost
        broker.is_serving = not response.is_fenced
        if response.may_shut_down:
            self.counts["controlled shutdowns"] += 1
            broker.stop_cleanly()

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
            elif key.topic_id in image.topics and offset >= broker.broker_epoch:
                # Only what is known to be newer than itself may tell a process to delete (rule 42).
                if broker.broker_id not in self._view(broker, key).replicas:
                    del broker.replicas[key]

    def _view(self, broker: ModelBroker, key: Key) -> View:
        image = self.history[broker.applied]
        topic = image.topics.get(key.topic_id)
        if topic is None:
            return View(NO_LEADER, -1, -1, (), (), 1)
        partition = topic.partitions[key.partition]
        min_isr = min_insync_replicas_of(image, partition)
        reply = broker.replies.get(key)
        if reply is not None and reply.partition_epoch > partition.partition_epoch:
            return reply._replace(min_isr=min_isr, replicas=partition.replicas)
        return View(
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.replicas,
            partition.isr,
            min_isr,
        )

    def _leading(self, broker: ModelBroker, key: Key) -> Leading | None:
        """What the broker knows as leader; None: it does not believe that it leads."""
        view = self._view(broker, key)
        if not broker.is_running or not broker.is_serving or broker.is_quarantined(key):
            return None
        if view.leader != broker.broker_id:
            return None
        leading = broker.leading.get(key)
        if leading is None or leading.leader_epoch != view.leader_epoch:
            leading = Leading(view.leader_epoch, start=len(broker.log(key).entries))
            broker.leading[key] = leading
        if leading.proposal is not None and view.partition_epoch > leading.proposal.partition_epoch:
            leading.proposal = None
        return leading

    def _any_leader(self) -> tuple[ModelBroker, Key, Leading] | None:
        found = []
        for broker in self.brokers.values():
            for key in self._keys():
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
        self._append(broker, key, [Entry(leading.leader_epoch, self._last_number)])
        self._advance(broker, key, leading)

    def _append(self, broker: ModelBroker, key: Key, entries: list[Entry]) -> None:
        replica = broker.log(key)
        replica.entries += entries
        if self._is_fsync(key):
            replica.synced = len(replica.entries)

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
        leading.ends[follower.broker_id] = (len(replica.entries), follower.broker_epoch)
        self._advance(leader, key, leading)
        missing = source[len(replica.entries) :]
        self._append(follower, key, missing[: self.rng.choice((len(missing), 1))])

    def _advance(self, broker: ModelBroker, key: Key, leading: Leading) -> None:
        """The high watermark: minimum over the maximal ISR, only with MinISR members (rules 13, 14)."""
        view = self._view(broker, key)
        if len(view.isr) < view.min_isr:
            return
        entries = broker.log(key).entries
        maximal = set(view.isr) | (leading.proposal.isr if leading.proposal else set())
        ends = [leading.ends.get(each, (-1, 0))[0] for each in maximal if each != broker.broker_id]
        high_watermark = min([*ends, len(entries)])
        if high_watermark > leading.high_watermark:
            leading.high_watermark = high_watermark
            self.counts["commits"] += self.invariants.commit(key, leading.leader_epoch, entries[:high_watermark])

    # --- ISR changes ----------------------------------------------------------------------------------

    def propose_isr(self) -> None:
        found = self._any_leader()
        if found is None:
            return
        broker, key, leading = found
        view = self._view(broker, key)
        if leading.proposal is not None:
            # No answer yet: ask again (the first one may still arrive).
            isr = leading.proposal.isr
        elif (wanted := self._wanted_isr(broker, view, leading)) is not None:
            isr = frozenset(wanted)
            leading.proposal = Proposal(isr, view.partition_epoch)
        else:
            return
        self.network.append(_Message(broker.broker_id, self._request(broker, key, view, leading, isr), key))

    def _wanted_isr(self, broker: ModelBroker, view: View, leading: Leading) -> set[BrokerId] | None:
        isr = set(view.isr)
        caught_up = [
            each
            for each, (end, _) in sorted(leading.ends.items())
            if each in view.replicas and each not in isr and end >= max(leading.high_watermark, leading.start)
        ]
        others = sorted(isr - {broker.broker_id})
        if caught_up and self.rng.random() < 0.8:
            return isr | {self.rng.choice(caught_up)}
        if others and self.rng.random() < 0.3:
            return isr - {self.rng.choice(others)}
        return None

    def _request(
        self, broker: ModelBroker, key: Key, view: View, leading: Leading, isr: frozenset[BrokerId]
    ) -> AlterPartitionRequest:
        known = self.history[broker.applied].brokers
        epochs = {each: leading.ends[each][1] if each in leading.ends else known[each].broker_epoch for each in isr}
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
        elif is_reassigning(before.topics[message.key.topic_id].partitions[message.key.partition]):
            self.counts["moves completed"] += not is_reassigning(self._partition(message.key))
        if not result.HasField("error") and self.rng.random() < 0.3:
            self.network.append(message)
        if self.rng.random() < 0.8:
            self._answer(message, result)

    def _answer(self, message: _Message, result: PartitionAlterationResult) -> None:
        broker, key = self.brokers[message.sender], message.key
        if not broker.is_running or broker.broker_epoch != message.request.broker_epoch:
            return
        wish = message.request.partitions[0]
        if not result.HasField("error"):
            old = self._view(broker, key)
            if result.partition_epoch > old.partition_epoch:
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
            # Surely not applied, and no copy of it is under way any more (rule 22).
            if leading is not None and leading.proposal is not None and is_last:
                if leading.proposal.partition_epoch == wish.partition_epoch:
                    leading.proposal = None

    # --- operators ------------------------------------------------------------------------------------

    def _create(self, name: str) -> None:
        self._last_number += 1
        topic_id = topic_id_from(self._last_number.to_bytes(16, "big"))
        request = admin_pb2.CreateTopicRequest(
            name=name, partition_count=1, replication_factor=3, configs={"durability": _TOPICS[name]}
        )
        self._try(
            "created",
            lambda: create_topic(
                self.image,
                request,
                next_offset=self.image.offset + 1,
                new_topic_id=topic_id,
                default_partition_count=1,
                rng=self.rng,
            ),
        )

    def recreate_topic(self) -> None:
        name = self.rng.choice(sorted(_TOPICS))
        if self.image.topic_named(TopicName(name)) is None:
            self._create(name)
        elif self.rng.random() < 0.3:
            self._try(
                "deleted",
                lambda: delete_topic(self.image, admin_pb2.DeleteTopicRequest(name=name), now_ms=1),
            )

    def change_min_isr(self) -> None:
        request = admin_pb2.AlterConfigsRequest(
            topic=self._any_topic(),
            changes=[admin_pb2.ConfigChange(name="min.insync.replicas", value=str(self.rng.choice((1, 2, 2, 3))))],
        )
        self._try("MinISR", lambda: alter_configs(self.image, request, next_offset=self.image.offset + 1))

    def _any_topic(self) -> str:
        names = sorted(self.image.topic_ids)
        return self.rng.choice(names) if names else "none"

    def _name(self, key: Key) -> admin_pb2.PartitionName:
        return admin_pb2.PartitionName(
            topic=self.image.topics[key.topic_id].name, partition=key.partition
        )

    def reassign(self) -> None:
        keys = self._keys()
        if not keys:
            return
        key = self.rng.choice(keys)
        target = self.rng.sample(sorted(self.brokers), self.rng.choice((2, 3, 3, 4)))
        if is_reassigning(self._partition(key)) and self.rng.random() < 0.7:
            target = []
        move = admin_pb2.PartitionMove(partition=self._name(key), replicas=target)
        request = admin_pb2.ReassignPartitionsRequest(moves=[move])
        self._try("reassigned" if target else "cancelled", lambda: reassign_partitions(self.image, request))

    def complete_moves(self) -> None:
        self._try("completed", lambda: complete_reassignments(self.image))

    def drain(self) -> None:
        request = admin_pb2.DrainBrokerRequest(
            broker_id=self.rng.choice(sorted(self.brokers)), cancel=self.rng.random() < 0.6
        )
        self._try("drained", lambda: drain_broker(self.image, request))

    def move_leaders_back(self) -> None:
        self._try("moved back", lambda: move_leaders_back(self.image, moves_max=2))

    def recover(self) -> None:
        offline = [key for key in self._keys() if self._partition(key).leader == NO_LEADER]
        if not offline or self.rng.random() < 0.7:
            return
        key = self.rng.choice(offline)
        ends = {}
        for broker_id in self._partition(key).replicas:
            broker = self.brokers[broker_id]
            if broker.is_running:
                entries = broker.log(key).entries
                last = entries[-1].leader_epoch if entries else -1
                ends[broker_id] = ReplicaEnd(LeaderEpoch(last), Offset(len(entries)))
        request = admin_pb2.RecoverPartitionRequest(partition=self._name(key), accept_missing_replicas=True)
        self.invariants.recovering = key
        response = self._try("recovered", lambda: recover_partition(self.image, request, log_ends=ends))
        self.invariants.recovering = None
        if response is not None:
            leader = self.brokers[BrokerId(response.leader)]
            self.invariants.forgive(key, self._partition(key), leader.log(key).entries)


def _names(keys: Iterable[Key]) -> list[ReplicaName]:
    return [ReplicaName(topic_id=key.topic_id, partition=key.partition) for key in sorted(keys)]
