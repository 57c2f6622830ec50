"""The brokers' processes and disks in the controller's model, and what the controller hears of them.

A process starts, beats, stops or dies; a disk loses what was not synced, some of its bytes, or everything.
Which losses there may be at once is the walk's fault model: see ``controller_model``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

from quorate.chaos.models.controller.model_brokers import Backup, Key, ModelBroker
from quorate.chaos.models.controller.model_operators import OperatorModel
from quorate.controller.brokers import fence_broker, register_broker
from quorate.controller.decision import Decision
from quorate.controller.heard_witnesses import record_heard_witnesses
from quorate.controller.heartbeats import heartbeat
from quorate.controller.previous_run import StartKind
from quorate.controller.sessions import LapsedSession
from quorate.controller.witnesses import heard_in
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.errors import DuplicateBroker, StaleBrokerEpoch, UnexpectedBrokerEpoch
from quorate.v1.controller_pb2 import (
    BrokerSessionRequest,
    DamagedReplica,
    PreviousRun,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    ReplicaName,
)

__all__ = ["ProcessModel"]

#: of each broker; older ones are as old
_GRANTED_MAX: Final = 3


class ProcessModel(OperatorModel):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: by broker: the last requests that registered a process; the network may deliver each once more
        self.granted: defaultdict[BrokerId, deque[RegisterBrokerRequest]] = defaultdict(
            lambda: deque(maxlen=_GRANTED_MAX)
        )

    def _check(self) -> None:
        self.invariants.check(self.image, leaving=self.sessions.leaving())
        self._check_old_leaders()

    def _hear_of_it(self) -> None:
        for broker in self.brokers.values():
            if broker.is_running and self.rng.random() < 0.8:
                self._follow(broker, self.image.offset)

    # --- starts, losses and ends ----------------------------------------------------------------------

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
            expected_broker_epoch=self._registered_epoch(broker),
        )
        if broker.noted_epoch:
            request.previous_run.CopyFrom(
                PreviousRun(
                    broker_epoch=broker.noted_epoch,
                    is_clean=broker.has_marker,
                    is_same_boot=broker.is_same_boot,
                    is_intact=True,
                    unnoted_incarnation_ids=broker.unnoted_incarnations,
                    cache_witness=broker.witness,
                    device_witness=broker.device_witness,
                )
            )
        return request

    def _registered_epoch(self, broker: ModelBroker) -> int:
        registered = self.image.brokers.get(broker.broker_id)
        return 0 if registered is None else registered.broker_epoch

    def _check_late_copies(self, broker: ModelBroker) -> None:
        """Of requests of processes that are gone, and of which nobody is alive to be in their way."""
        for request in self.granted[broker.broker_id]:
            try:
                register_broker(self.image, request, next_offset=1 << 40, has_live_session=False)
            except UnexpectedBrokerEpoch as error:
                self.counts[f"registered: {error.code}"] += 1
            else:
                raise AssertionError("rule 35: a late copy of a registration passed for a process")

    def _register(self, broker: ModelBroker) -> None:
        broker.incarnation += 1
        request = self._registration(broker)
        broker.unnoted_incarnations.append(request.incarnation_id)
        broker.has_marker = False
        response = self._register_in_pieces(broker, request)
        if response is None:
            return
        retry = register_broker(self.image, request, next_offset=1 << 40, has_live_session=True)
        assert not retry.records, "a retry of a registration changed something"
        assert retry.response == response
        self._check_late_copies(broker)
        self.granted[broker.broker_id].append(request)
        broker.has_lost.clear()
        broker.damaged.clear()
        broker.is_cache_lost = False
        broker.told_witness = broker.told_device_witness = 0
        broker.broker_epoch = self.image.offset
        if self.image.topics and self.rng.random() < 0.1:
            return  # died before it could note its epoch
        broker.note_epoch()
        broker.is_running = True
        self.sessions.touch(broker.broker_id, BrokerEpoch(broker.broker_epoch), 0.0, metadata_offset=-1)
        self._follow(broker, self.rng.randint(0, self.image.offset))

    def _register_in_pieces(
        self, broker: ModelBroker, request: RegisterBrokerRequest
    ) -> RegisterBrokerResponse | None:
        """None: refused, or it has died before it got an answer."""
        broker_id = broker.broker_id
        while True:
            is_live = self.sessions.is_live(broker_id, 0.0)
            try:
                decision = register_broker(
                    self.image,
                    request,
                    next_offset=self.image.offset + 1,
                    has_live_session=is_live,
                    heard=self.sessions.heard_witnesses(broker_id),
                    leaving=self.sessions.leaving(),
                    changes_max=self._changes_max(),
                )
            except DuplicateBroker as error:
                self.counts[f"registered: {error.code}"] += 1
                return None
            assert broker_id not in self.image.brokers or not is_live, (
                "rule 35: another incarnation was registered beside a live session"
            )
            self.invariants.registering = broker_id
            self._put(decision)
            self.invariants.registering = None
            if decision.is_complete:
                self.counts["registered"] += 1
                self._check_judgement(broker, decision)
                return decision.response
            self.counts["pieces of a registration"] += 1
            self.sessions.give_up(broker_id, self.image.brokers[broker_id].broker_epoch)
            self._check()
            if self.rng.random() < 0.1:
                return None
            self._meanwhile()

    def _check_judgement(self, broker: ModelBroker, decision: Decision[RegisterBrokerResponse]) -> None:
        start = next(each.fields["start"] for each in decision.events if each.name == "broker_registered")
        is_stranger = start == StartKind.UNKNOWN_DIRECTORY and self.image.topics
        assert not is_stranger or broker.is_replaced, (
            f"broker {broker.broker_id} has the directory that it had, and passes for a stranger"
        )

    def _meanwhile(self) -> None:
        """Between two pieces of a decision."""
        for _ in range(self.rng.choice((0, 1, 4))):
            self.rng.choice(
                (self.produce, self.fetch, self.propose_isr, self.deliver, self.follow_metadata, self.lapse)
            )()
            self._check()

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
        broker = self._victim()
        if not self._may_lose(broker, self._unsynced_keys()):
            return
        self.counts["power losses"] += 1
        broker.end_process()
        broker.is_same_boot = False
        broker.witness = broker.synced_witness = self.rng.randint(broker.synced_witness, broker.witness)
        self._lose_unsynced(broker)

    def lose_page_cache(self) -> None:
        """The volume goes and comes back, and the machine stays up: nothing on the disk tells of it."""
        broker = self._victim()
        on_record = self.image.brokers[broker.broker_id].cache_witness or 0
        known = max(on_record, broker.told_witness)
        if known <= broker.synced_witness or not broker.is_same_boot:
            return
        if not self._may_lose(broker, self._unsynced_keys()):
            return
        self.counts["lost page caches"] += 1
        broker.end_process()
        broker.is_cache_lost = True
        broker.witness = broker.synced_witness = self.rng.randint(broker.synced_witness, known - 1)
        self._lose_unsynced(broker)
        if self.rng.random() < 0.5:
            self._come_back(broker)

    def _lose_unsynced(self, broker: ModelBroker) -> None:
        for _, replica in sorted(broker.replicas.items()):
            left = self.rng.randint(replica.synced, len(replica.entries))
            self.counts["replicas that lost entries"] += left < len(replica.entries)
            replica.cut(left)

    def _victim(self) -> ModelBroker:
        """Losses hurt most where a leader has just asked for a new member of its ISR, or a sync is due."""
        unsynced = self._members_with_something_unsynced()
        if unsynced and self.rng.random() < 0.5:
            return self.brokers[self.rng.choice(unsynced)]
        asked_for = set()
        for message in self.network:
            partition = self.image.partition(*message.key)
            wish = message.request.partitions[0]
            if partition is not None and partition.partition_epoch == wish.partition_epoch:
                asked_for |= {member.broker_id for member in wish.isr} - set(partition.isr)
        return self.brokers[BrokerId(self.rng.choice(sorted(asked_for) or sorted(self.brokers)))]

    def _members_with_something_unsynced(self) -> list[BrokerId]:
        """Of partitions that are said to be synced."""
        return [
            member
            for key in self._keys()
            for member in (*self._partition(key).isr, *self._partition(key).elr)
            if self._partition(key).is_synced and self.brokers[member].has_unsynced(key)
        ]

    def _come_back(self, broker: ModelBroker) -> None:
        self._lapse(broker)
        self._register(broker)
        if broker.is_running:
            self._follow(broker, self.image.offset)
            self._beat(broker)

    def _unsynced_keys(self) -> list[Key]:
        return [key for key in self._keys() if not self._partition(key).is_synced]

    def _may_lose(self, broker: ModelBroker, keys: list[Key]) -> bool:
        """Whether the fault model lets it lose records of these partitions now; if so, that is noted."""
        held = [key for key in keys if broker.broker_id in self._partition(key).replicas]
        if not all(self.invariants.may_lose(key, broker.broker_id) for key in held):
            return False
        for key in held:
            self.invariants.note_loss(key, broker.broker_id)
        broker.has_lost.update(held)
        return True

    def lose_disk(self) -> None:
        broker = self._victim()
        if self._may_lose(broker, self._keys()):
            self.counts["lost disks"] += 1
            broker.lose_directory()
            if self.rng.random() < 0.5:
                self._come_back(broker)

    def back_up(self) -> None:
        broker = self._any(lambda each: True)
        if broker is not None:
            broker.back_up()

    def restore_old_copy(self) -> None:
        broker = self._any(lambda each: each.backup is not None)
        if broker is not None:
            self._restore(broker)

    def _restore(self, broker: ModelBroker) -> None:
        assert broker.backup is not None
        if not self._is_of_an_earlier_run(broker, broker.backup) and not self._is_known_to_have_more(broker):
            return
        if not self._may_lose(broker, self._keys()):
            return
        self.counts["restored copies"] += 1
        is_of_last_run = not self._is_of_an_earlier_run(broker, broker.backup)
        self.counts["restored copies of the last run"] += is_of_last_run
        broker.restore(broker.backup)
        # It may be put back after a loss of power, or without.
        broker.is_same_boot = self.rng.random() < 0.5
        for key in list(broker.replicas):
            if key not in self._keys():
                del broker.replicas[key]

    def _is_known_to_have_more(self, broker: ModelBroker) -> bool:
        """On the device, than there is in the copy: somebody has heard a number that is not in it."""
        assert broker.backup is not None
        if broker.backup.directory != broker.directory:
            return False
        on_record = self.image.brokers[broker.broker_id].device_witness
        return broker.backup.device_witness < max(on_record, broker.told_device_witness)

    def _is_of_an_earlier_run(self, broker: ModelBroker, backup: Backup) -> bool:
        """Otherwise at most a number in it tells that it is old."""
        registered = self.image.brokers[broker.broker_id]
        is_last = backup.noted_epoch == registered.broker_epoch
        return not is_last and registered.incarnation_id not in backup.unnoted_incarnations

    def damage_replica(self) -> None:
        broker = self._victim()
        if not broker.is_running or not broker.replicas:
            return
        key = self.rng.choice(sorted(broker.replicas))
        if key in self._keys() and key not in broker.damaged and self._may_lose(broker, [key]):
            self.counts["damaged replicas"] += 1
            broker.log(key).cut(self.rng.randint(0, len(broker.log(key).entries)))
            broker.damaged.add(key)
            told_by = self.rng.choice(("a later heartbeat", "the next process", "a heartbeat at once"))
            if told_by == "the next process":
                broker.end_process()
            elif told_by == "a heartbeat at once":
                # Its leader remembers what the replica held before, unless the epoch is new (rule 7).
                self._beat(broker)
                self._hear_of_it()
                for _ in range(6):
                    self.propose_isr()
                    self.deliver()

    def sync(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            for replica in broker.replicas.values():
                replica.synced = len(replica.entries)

    def advance_device_witness(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            broker.device_witness += 1

    def record_witnesses(self) -> None:
        self._put(record_heard_witnesses(self.image, self.sessions.heard_witnesses))

    def ask_to_stop(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            broker.is_stopping = True
            broker.lose_lease()

    def stop_without_leave(self) -> None:
        """No controller in reach: the broker goes after a while, with its marker (rule 36)."""
        broker = self._any(lambda each: each.is_stopping)
        if broker is not None:
            broker.stop_cleanly()

    # --- sessions -------------------------------------------------------------------------------------

    def beat(self) -> None:
        broker = self._any(lambda each: each.is_running)
        if broker is not None:
            self._beat(broker)

    def _beat(self, broker: ModelBroker) -> None:
        broker.witness += 1
        broker.told_witness = broker.witness
        broker.told_device_witness = broker.device_witness
        request = BrokerSessionRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            metadata_offset=broker.applied,
            wants_unfence=not broker.is_stopping,
            wants_shutdown=broker.is_stopping,
            damaged=[
                DamagedReplica(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    leader_epoch=self._view(broker, key).leader_epoch,
                )
                for key in sorted(broker.damaged)
            ],
            cache_witness=broker.witness,
            device_witness=broker.device_witness or None,
        )
        void = self._void_reports(broker)
        was_fenced = self.image.brokers[broker.broker_id].is_fenced
        epoch = BrokerEpoch(broker.broker_epoch)
        self.sessions.touch(
            broker.broker_id,
            epoch,
            0.0,
            metadata_offset=broker.applied,
            wants_shutdown=request.wants_shutdown,
            heard=heard_in(request),
        )
        changes_max = self._changes_max()
        decision = heartbeat(
            self.image,
            request,
            state_offset=self.sessions.state_offset(broker.broker_id),
            others_offset=self.sessions.others_offset(broker.broker_id),
            session_timeout_ms=3_000,
            is_given_up=self.sessions.is_given_up(broker.broker_id),
            leaving=self.sessions.leaving(),
            changes_max=changes_max,
        )
        self.invariants.check_heartbeat(self.image, broker, decision.response)
        response = self._put(decision)
        if was_fenced and not response.is_fenced:
            self.counts["unfenced"] += 1
            if len(decision.records) > changes_max:
                # As many elections as fit beside the broker's own record: there may be more.
                self._note_elections_due()
        for key in broker.damaged - void:
            broker.has_lost.discard(key)
            broker.quarantined[key] = self.image.offset
        # Told again, until the broker knows the leader epoch that has begun.
        broker.damaged = void
        self.counts["void reports of damage"] += len(void)
        if self.rng.random() < 0.1:
            return  # the answer is lost
        broker.is_serving = not response.is_fenced
        if response.is_fenced or broker.is_stopping:
            broker.lose_lease()
        else:
            broker.renew_lease(response.metadata_offset)
        if response.may_shut_down:
            self.counts["controlled shutdowns"] += 1
            broker.stop_cleanly()

    def _void_reports(self, broker: ModelBroker) -> set[Key]:
        """Of damage, in a leader epoch that is over."""
        return {
            key
            for key in broker.damaged.intersection(self._keys())
            if self._view(broker, key).leader_epoch < self._partition(key).leader_epoch
        }

    def lapse(self) -> None:
        """A session ends; whether the process is alive the controller does not know."""
        broker = self._any(lambda each: not each.is_running) if self.rng.random() < 0.8 else None
        self._lapse(broker or self.rng.choice(list(self.brokers.values())))

    def _lapse(self, broker: ModelBroker) -> None:
        self.sessions.give_up(broker.broker_id, self.image.brokers[broker.broker_id].broker_epoch)
        broker.lose_lease()
        if self.rng.random() < 0.7:
            # Else its next process is faster than the controller.
            self._fence_piece(broker)

    def go_on_fencing(self) -> None:
        broker = self._any(lambda each: self.sessions.is_given_up(each.broker_id))
        if broker is not None:
            self._fence_piece(broker)

    def _fence_piece(self, broker: ModelBroker) -> None:
        broker_epoch = self.image.brokers[broker.broker_id].broker_epoch
        decision = fence_broker(
            self.image,
            broker.broker_id,
            broker_epoch=broker_epoch,
            heard=self.sessions.heard_witnesses(broker.broker_id),
            leaving=self.sessions.leaving(),
            changes_max=self._changes_max(),
        )
        self.counts["fenced" if decision.is_complete else "pieces of a fencing"] += bool(decision.records)
        self._put(decision)
        if decision.records:
            self.invariants.taken_offsets[broker.broker_id] = self.image.offset
        if decision.is_complete:
            self.sessions.end(LapsedSession(broker.broker_id, broker_epoch))

    def _changes_max(self) -> int:
        return self.rng.choice((1, 1, 2))

    def _note_elections_due(self) -> None:
        self.invariants.note_elections_due(self.image, leaving=self.sessions.leaving())


def _names(keys: Iterable[Key]) -> list[ReplicaName]:
    return [ReplicaName(topic_id=key.topic_id, partition=key.partition) for key in sorted(keys)]
