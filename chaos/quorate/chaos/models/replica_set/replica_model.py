"""Leaders, followers and the controller in one random walk, with everything that can go wrong between them.

The controller is the real one, decision by decision; the replicas are real, on logs that are lists. The
network between them loses, delays, repeats and reorders; brokers stop, lose their disks, go on as zombies
with old metadata. After every step:

- whoever the controller could elect holds every committed record, at its offset (rule 1);
- what a follower shows is committed (rule 18);
- a high watermark never moves back, nor beyond what the members of the ISR hold, nor while there are too
  few of them (rules 13 and 14);
- no follower is told to cut off what it knows to be committed (rule 11);
- each producer is told exactly one outcome, and "done" only of what is committed (rule 19);
- a leader that says where the log ends knows all that was acknowledged before it was elected (rule 17);
- a log start that was told is no later than that of whoever could lead next (rule 48);
- a leader that was replaced by plan, and does not know, is in the ISR until it lags, so that nothing is
  committed without it while it may hold a lease (rule 37).

At the end everything heals, and then every replica is in the ISR, and every record committed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from quorate.broker.replica.divergence import Divergence
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.chaos.models.controller.broker_requests import beat, registration
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.chaos.models.replica_set.messages import Answer, Ask, Fetch, Message, Reset, Update
from quorate.chaos.models.replica_set.model_parties import ModelBroker, Produced
from quorate.chaos.models.replica_set.plain_log import PlainLog
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import fence_broker, register_broker
from quorate.controller.heartbeats import heartbeat
from quorate.controller.reassignment import complete_reassignments
from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from quorate.errors import OffsetNotAvailable, OffsetOutOfRange, QuorateError
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from quorate.metadata.topic_settings import durability_of, min_insync_replicas_of
from quorate.v1.controller_pb2 import AlterPartitionRequest

__all__ = ["LAG_S", "ReplicaModel", "walk"]

LAG_S: Final = 3.0
_NAME: Final = TopicPartition(TopicName("t"), PartitionId(0))
_BROKERS: Final = 4


class ReplicaModel:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.clock = SteppedClock()
        self.cluster = SmallCluster(_BROKERS, seed=seed)
        self.cluster.create("t", (1, 2, 3), configs={"min.insync.replicas": "2"})
        self.history: dict[int, MetadataImage] = {}
        self._remember()
        self.brokers = {BrokerId(each): ModelBroker(BrokerId(each)) for each in range(1, _BROKERS + 1)}
        self.network: list[Message] = []
        #: offset -> value, of every record that some leader has committed
        self.committed: dict[int, bytes] = {}
        #: highest offset (exclusive) that was acknowledged, by leader epoch
        self.acknowledged_end: dict[int, int] = {}
        #: the latest log start that a leader told
        self.log_start_told = 0
        self.waiting: list[tuple[Leadership, Produced]] = []
        self._values = 0
        self._actions: list[tuple[Callable[[], None], int]] = [
            (self.produce, 20),
            (self.fetch, 30),
            (self.deliver, 60),
            (self.follow_metadata, 14),
            (self.ask_for_isr, 12),
            (self.pass_time, 6),
            (self.delete_old, 12),
            (self.lose, 4),
            (self.deliver_twice, 3),
            (self.fence, 2),
            (self.unfence, 4),
            (self.restart, 1),
            (self.change_min_isr, 1),
            (self.move, 1),
        ]
        # Every walk has a character of its own: what is rare in one is common in another.
        # But most of what happens is what brokers do all day, or nothing would be at stake.
        self._weights = [
            weight * self.rng.choice((0.5, 1, 2) if weight > 10 else (0.2, 1, 4))
            for _, weight in self._actions
        ]
        for broker in self.brokers.values():
            broker.broker_epoch = self.cluster.image.brokers[broker.broker_id].broker_epoch
            self._start(broker)

    # -- brokers and what they know

    def _remember(self) -> None:
        self.history[self.cluster.image.offset] = self.cluster.image

    @property
    def image(self) -> PartitionImage:
        return self.cluster.partition()

    def _start(self, broker: ModelBroker) -> None:
        self._open(broker)
        self._apply(broker, self.cluster.image.offset)

    def _open(self, broker: ModelBroker) -> None:
        if broker.partition is not None:
            broker.partition.stop()
        broker.high_watermark = 0
        broker.partition = Partition(
            _NAME,
            self.image.topic_id,
            broker.log.as_log(),
            broker_id=broker.broker_id,
            clock=self.clock,
            high_watermark=Offset(0),
            replica_lag_s=LAG_S,
            on_isr_wish=lambda _: None,
        )

    def _apply(self, broker: ModelBroker, offset: int) -> None:
        assert broker.partition is not None
        broker.applied = offset
        image = self.history[offset]
        partition = image.topics[self.image.topic_id].partitions[0]
        if broker.broker_id not in partition.replicas:
            if broker.partition.state is not None:
                broker.log = PlainLog()
                self._open(broker)
            return
        broker.partition.apply(
            PartitionState(
                image=partition,
                min_insync_replicas=min_insync_replicas_of(image, partition),
                durability=durability_of(image, image.topics[partition.topic_id]),
                brokers=image.brokers,
            )
        )
        if broker.partition.leadership is not None:
            # The next image may end it within the same step.
            self._note_committed(broker.log, broker.partition.leadership.high_watermark)

    def _running(self) -> list[ModelBroker]:
        return [each for each in self.brokers.values() if each.partition is not None]

    def _leaders(self) -> list[tuple[ModelBroker, Leadership]]:
        """Zombies, too."""
        return [
            (each, each.partition.leadership)
            for each in self._running()
            if each.partition is not None and each.partition.leadership is not None
        ]

    def follow_metadata(self) -> None:
        broker = self.rng.choice(self._running() or [self.brokers[BrokerId(1)]])
        offsets = [each for each in self.history if each > broker.applied]
        if broker.partition is not None and offsets:
            target = max(offsets) if self.rng.random() < 0.6 else self.rng.choice(sorted(offsets))
            # Every image in turn, or only the last one of several: both happen.
            for offset in sorted(offsets) if self.rng.random() < 0.5 else [target]:
                if offset <= target:
                    self._apply(broker, offset)

    # -- producers

    def produce(self) -> None:
        leaders = self._leaders()
        if not leaders:
            return
        broker, leadership = self.rng.choice(leaders)
        self._values += 1
        value = b"%d" % self._values
        acks_all = self.rng.random() < 0.8
        try:
            appended = leadership.append(value, acks_all=acks_all)
        except QuorateError as error:
            self.counts[f"produce: {error.code}"] += 1
            return
        self.counts["produced"] += 1
        assert broker.log.entries[appended.base_offset].value == value
        if acks_all:
            self._wait(broker, leadership, Produced(appended.base_offset, value))

    def _wait(self, broker: ModelBroker, leadership: Leadership, produced: Produced) -> None:
        log = broker.log

        def concluded(error: QuorateError | None) -> None:
            produced.outcomes.append(error)
            assert len(produced.outcomes) == 1, "one outcome, no more"
            if error is None:
                self._acknowledged(leadership, produced, log)
            else:
                assert error.outcome_unknown
                self.counts[f"unknown: {error.code}"] += 1

        if leadership.when_committed(Offset(produced.offset + 1), concluded) is None:
            concluded(None)
        self.waiting.append((leadership, produced))

    def _acknowledged(self, leadership: Leadership, produced: Produced, log: PlainLog) -> None:
        self.counts["acknowledged"] += 1
        assert log.entries[produced.offset].value == produced.value
        # Told in the middle of a step: by its end this may not be the leader any more.
        self._note_committed(log, Offset(produced.offset + 1))
        end = self.acknowledged_end
        end[leadership.epoch] = max(end.get(leadership.epoch, 0), produced.offset + 1)

    def _note_committed(self, log: PlainLog, end_offset: Offset) -> None:
        for offset in range(end_offset):
            value = log.entries[offset].value
            assert self.committed.setdefault(offset, value) == value, "two records at one offset"

    # -- replication

    def fetch(self) -> None:
        followers = [each for each in self._running() if self._position(each) is not None]
        if followers:
            position = self._position(self.rng.choice(followers))
            assert position is not None
            self.network.append(position)

    def _position(self, broker: ModelBroker) -> Fetch | None:
        partition = broker.partition
        if partition is None or not partition.is_following(partition.leader_epoch):
            return None
        return Fetch(
            broker.broker_id,
            broker.broker_epoch,
            partition.leader,
            partition.leader_epoch,
            broker.log.log_end_offset,
            LeaderEpoch(broker.log.last_fetched_epoch),
            broker.log.log_start_offset,
        )

    def _serve(self, fetch: Fetch) -> None:
        leader = self.brokers[fetch.leader]
        if leader.partition is None:
            return
        try:
            leadership = leader.partition.require_leadership(fetch.leader_epoch)
            divergence = leadership.follower_at(
                fetch.follower, fetch.broker_epoch, fetch.offset, fetch.last_epoch, fetch.log_start
            )
        except OffsetOutOfRange:
            self.network.append(Reset(fetch, leader.log))
            return
        except QuorateError as error:
            self.counts[f"fetch: {error.code}"] += 1
            return
        batches = leader.log.entries[fetch.offset : fetch.offset + self.rng.choice((1, 2, 50))]
        self._note_committed(leader.log, leadership.high_watermark)
        # Who has parted has to know what is gone; all others learn what may go.
        log_start = leadership.wanted_log_start if divergence is None else leader.log.log_start_offset
        answer = batches if divergence is None else divergence
        self.network.append(Update(fetch, answer, leadership.high_watermark, log_start, leader.log))

    def _is_awaited(self, fetch: Fetch) -> bool:
        """Its answer still belongs to what the follower is doing (rule 10)."""
        broker = self.brokers[fetch.follower]
        partition, log = broker.partition, broker.log
        return (
            partition is not None
            and broker.broker_epoch == fetch.broker_epoch
            and partition.is_following(fetch.leader_epoch)
            and log.log_end_offset == fetch.offset
            and log.last_fetched_epoch == fetch.last_epoch
        )

    def _reset(self, reset: Reset) -> None:
        broker = self.brokers[reset.fetch.follower]
        if self._is_awaited(reset.fetch) and reset.leader_log.log_start_offset > broker.log.log_end_offset:
            broker.log.reset_to(reset.leader_log.log_start_offset, reset.leader_log)
            self.counts["reset"] += 1

    def _receive(self, update: Update) -> None:
        broker = self.brokers[update.fetch.follower]
        partition, log = broker.partition, broker.log
        if not self._is_awaited(update.fetch):
            return
        assert partition is not None
        if isinstance(update.answer, Divergence):
            own_end = log.end_of_epoch(update.answer.epoch)
            offset = (
                update.answer.end_offset if own_end is None else min(own_end[1], update.answer.end_offset)
            )
            assert offset >= partition.high_watermark, "cuts off what it knows to be committed (rule 11)"
            is_shared_part_deleted = update.answer.end_offset <= update.log_start > log.log_start_offset
            if is_shared_part_deleted and not offset == update.log_start < log.log_end_offset:
                log.reset_to(update.log_start, update.leader_log)
                self.counts["dropped, for nobody vouches"] += 1
            else:
                log.truncate_to(offset)
                self.counts["truncated"] += 1
            partition.begin_waiting_leadership()
        else:
            log.append_as_follower(update.answer)
            partition.advance_high_watermark_from_leader(update.high_watermark)
            # Deleting takes a while: it shows this meanwhile.
            self._check_what_is_shown(broker)
            partition.note_leader_log_start(update.log_start)
            if partition.log_start_due is not None:
                log.advance_log_start(partition.log_start_due)
                self.counts["log start adopted"] += 1
            self.counts["replicated"] += len(update.answer)

    def delete_old(self) -> None:
        """A leader looks what has expired, zombies too, and deletes what it may by now."""
        leaders = self._leaders()
        if not leaders:
            return
        broker, leadership = self.rng.choice(leaders)
        log = broker.log
        log.expired = Offset(self.rng.randint(log.log_start_offset, log.log_end_offset))
        leadership.want_log_start()
        if leadership.deletable_below > log.log_start_offset:
            log.advance_log_start(leadership.deletable_below)
            self.counts["deleted"] += 1

    # -- the ISR

    def ask_for_isr(self) -> None:
        for broker, leadership in self._leaders():
            leadership.check_lag(self.clock.now)
            alteration = leadership.next_alteration()
            if alteration is not None:
                self.counts["asked"] += 1
                request = AlterPartitionRequest(
                    broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, partitions=[alteration]
                )
                self.network.append(Ask(request, leadership))

    def _decide(self, ask: Ask) -> None:
        try:
            decision = alter_partition(self.cluster.image, ask.request)
        except QuorateError as error:
            self.counts[f"alter: {error.code}"] += 1
            if ask.asked_by is not None:
                ask.asked_by.alteration_unanswered()
            return
        result = self.cluster.commit(decision).partitions[0]
        self._remember()
        self.counts[f"alter: {result.error.code or 'done'}"] += 1
        if ask.asked_by is not None:
            self.network.append(Answer(ask.asked_by, result))

    # -- the network

    def deliver(self) -> None:
        if self.network:
            self._deliver(self.network.pop(self.rng.randrange(len(self.network))))

    def deliver_twice(self) -> None:
        """And the second time later, if at all."""
        messages = [each for each in self.network if not isinstance(each, Answer)]
        if messages:
            message = self.rng.choice(messages)
            self.network.append(message._replace(asked_by=None) if isinstance(message, Ask) else message)

    def lose(self) -> None:
        """Lost, or so late that nobody waits any more."""
        if not self.network:
            return
        message = self.network.pop(self.rng.randrange(len(self.network)))
        if isinstance(message, Ask) and message.asked_by is not None:
            message.asked_by.alteration_unanswered()
            if self.rng.random() < 0.7:
                self.network.append(message._replace(asked_by=None))
        elif isinstance(message, Answer):
            message.asked_by.alteration_unanswered()

    def _deliver(self, message: Message) -> None:
        match message:
            case Fetch():
                self._serve(message)
            case Update():
                self._receive(message)
            case Reset():
                self._reset(message)
            case Ask():
                self._decide(message)
            case Answer():
                message.asked_by.alteration_answered(message.result)

    # -- what happens to brokers

    def fence(self) -> None:
        broker_id = self.rng.choice(sorted(self.brokers))
        self.cluster.commit(fence_broker(self.cluster.image, broker_id))
        self._remember()

    def unfence(self) -> None:
        for broker in self._running():
            registered = self.cluster.image.brokers[broker.broker_id]
            is_waiting = registered.is_fenced and registered.broker_epoch == broker.broker_epoch
            if is_waiting and self.rng.random() < 0.5:
                self._apply(broker, self.cluster.image.offset)
                self._unfence(broker)

    def _unfence(self, broker: ModelBroker) -> None:
        request = beat(self.cluster, broker.broker_id, wants_unfence=True)
        self.cluster.commit(
            heartbeat(self.cluster.image, request, state_offset=0, others_offset=None, session_timeout_ms=1)
        )
        self._remember()

    def restart(self) -> None:
        """The process dies, and the next one finds everything, or an empty disk."""
        broker = self.rng.choice(list(self.brokers.values()))
        keeps_all = self.rng.random() < 0.6
        others = {*self.image.isr, *self.image.elr} - {broker.broker_id}
        if not keeps_all and not others:
            return  # beyond the fault model: the last complete replica
        self._restart(broker, keeps_all=keeps_all)

    def _restart(self, broker: ModelBroker, *, keeps_all: bool) -> None:
        self.counts["process crash" if keeps_all else "wiped disk"] += 1
        if not keeps_all:
            broker.log = PlainLog()
        request = registration(
            self.cluster,
            broker.broker_id,
            incarnation_id=f"incarnation-{self.cluster.next_offset}",
            directory_id=None if keeps_all else f"directory-{self.cluster.next_offset}",
            is_same_boot=keeps_all,
        )
        if not keeps_all:
            request.ClearField("previous_run")
        directory = self.cluster.image.brokers[broker.broker_id].directory_id
        if keeps_all:
            request.directory_id = directory
        decision = register_broker(
            self.cluster.image, request, next_offset=self.cluster.next_offset, has_live_session=False
        )
        broker.broker_epoch = BrokerEpoch(self.cluster.commit(decision).broker_epoch)
        self._remember()
        self._start(broker)

    def change_min_isr(self) -> None:
        value = str(self.rng.choice((1, 2, 2, 2, 3)))
        try:
            self.cluster.configure("t", {"min.insync.replicas": value})
        except QuorateError as error:
            self.counts[f"configure: {error.code}"] += 1
        self._remember()

    def move(self) -> None:
        """To anywhere, or back."""
        count = self.rng.choice((0, 2, 3, 3))
        try:
            self.cluster.move(*self.rng.sample(range(1, _BROKERS + 1), count))
        except QuorateError as error:
            self.counts[f"move: {error.code}"] += 1
        self._remember()

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((0.01, 0.1, 0.6, 2.0)))

    # -- the walk

    def step(self) -> None:
        chosen = self.rng.choices([each for each, _ in self._actions], self._weights)[0]
        before = {leadership: leadership.high_watermark for _, leadership in self._leaders()}
        chosen()
        self.check(before)

    def check(self, before: Mapping[Leadership, int]) -> None:
        for broker in self._running():
            assert broker.partition is not None
            broker.partition.validate()
            high_watermark = broker.partition.high_watermark
            assert high_watermark >= broker.high_watermark, "the high watermark moved back"
            broker.high_watermark = high_watermark
        for broker, leadership in self._leaders():
            if leadership.high_watermark > before.get(leadership, -1):
                self._note_committed(broker.log, leadership.high_watermark)
            self._check_latest(broker, leadership)
            self._check_earliest(leadership)
        self._check_old_leaders()
        self._check_candidates()
        for leadership, produced in self.waiting:
            assert produced.outcomes or not leadership.is_ended, "a producer waits for ever"
        self.waiting = [each for each in self.waiting if not each[1].outcomes]

    def _check_what_is_shown(self, broker: ModelBroker) -> None:
        """Rule 18: what a replica may serve is committed, and nothing else."""
        assert broker.partition is not None
        for offset in range(broker.log.log_start_offset, broker.partition.high_watermark):
            value = broker.log.entries[offset].value
            assert self.committed.get(offset) == value, f"offset {offset} was never committed"

    def _check_latest(self, broker: ModelBroker, leadership: Leadership) -> None:
        if self.image.leader != broker.broker_id or self.image.leader_epoch != leadership.epoch:
            return  # a zombie; the lease is for that (rule 37)
        try:
            latest = leadership.latest_offset()
        except OffsetNotAvailable:
            return
        earlier = [end for epoch, end in self.acknowledged_end.items() if epoch < leadership.epoch]
        assert latest >= max(earlier, default=0), "a new leader does not know what was acknowledged (rule 17)"

    def _check_earliest(self, leadership: Leadership) -> None:
        """Also of a zombie: nobody may know better yet."""
        try:
            earliest = leadership.earliest_offset()
        except OffsetNotAvailable:
            return
        if leadership.epoch == self.image.leader_epoch:
            assert earliest >= self.log_start_told, "a log start goes back (rule 48)"
            self.log_start_told = earliest

    def _check_old_leaders(self) -> None:
        """Rule 37. A lease is shorter than what it takes to be thrown out for lagging, or to be fenced."""
        for broker, leadership in self._leaders():
            if leadership.epoch == self.image.leader_epoch:
                broker.lease_end = self.clock.now + LAG_S
            registered = self.cluster.image.brokers[broker.broker_id]
            if registered.is_fenced or registered.broker_epoch != broker.broker_epoch:
                broker.lease_end = self.clock.now
            if broker.lease_end > self.clock.now:
                assert broker.broker_id in self.image.isr, "a leader was replaced and not told"

    def _check_candidates(self) -> None:
        """Rule 1: *leader-candidate completeness*."""
        for broker_id in (*self.image.isr, *self.image.elr):
            log = self.brokers[broker_id].log
            entries = log.entries
            assert log.log_start_offset >= self.log_start_told, "a log start would go back (rule 48)"
            for offset in range(len(self.committed) - 1, -1, -1):
                assert offset < len(entries), f"broker {broker_id} lacks offset {offset}"
                if entries[offset].value != self.committed[offset]:
                    raise AssertionError(f"broker {broker_id} has another record at {offset}")
                if offset < len(self.committed) - 20:
                    break  # logs that agree at a record agree on all before it, or it would have been noticed

    # -- the end

    def heal(self) -> None:
        """Nothing fails any more: everybody ends up in the ISR, with everything committed."""
        for broker in self.brokers.values():
            if broker.partition is None or (
                self.cluster.image.brokers[broker.broker_id].broker_epoch != broker.broker_epoch
            ):
                self._restart(broker, keeps_all=True)
        for _ in range(60):
            # What the controller does now and then, in case nobody asked for an ISR since.
            self.cluster.commit(complete_reassignments(self.cluster.image))
            self._remember()
            for broker in self.brokers.values():
                if self.cluster.image.brokers[broker.broker_id].is_fenced:
                    self._unfence(broker)
                self._apply(broker, self.cluster.image.offset)
            self.network += [each for each in map(self._position, self.brokers.values()) if each is not None]
            self.ask_for_isr()
            while self.network:
                self._deliver(self.network.pop(0))
            self.clock.advance(0.2)
            self.check({})
        partition = self.image
        assert partition.leader != NO_LEADER
        assert sorted(partition.isr) == sorted(partition.replicas), "a replica never came back into the ISR"
        leader = self.brokers[partition.leader].partition
        assert leader is not None
        assert leader.high_watermark == leader.log.log_end_offset, "what is on every replica is not committed"
        assert leader.leadership is not None
        leader.leadership.earliest_offset()


def walk(seed: int, *, steps: int) -> ReplicaModel:
    model = ReplicaModel(seed)
    for _ in range(steps):
        model.step()
    model.heal()
    return model
