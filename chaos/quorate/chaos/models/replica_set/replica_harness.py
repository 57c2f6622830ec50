"""One replica under test: its metadata is what the test says, its followers are positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from immutables import Map

from quorate.broker.replica.divergence import Divergence
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.chaos.models.replica_set.plain_log import PlainLog
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.core.clock import Clock
from quorate.core.config import Durability
from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from quorate.errors import QuorateError
from quorate.metadata.image import BrokerImage, PartitionImage, Recovery
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import PartitionLog
from quorate.v1.controller_pb2 import PartitionAlteration, PartitionAlterationResult
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL

__all__ = ["LAG_S", "TOPIC_ID", "ReplicaHarness", "broker_image", "refusal"]

LAG_S = 10.0
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAA")


def broker_image(
    broker_id: int, *, epoch: int = 0, is_fenced: bool = False, is_shutting_down: bool = False
) -> BrokerImage:
    return BrokerImage(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(epoch or 100 + broker_id),
        incarnation_id=f"incarnation-{broker_id}",
        directory_id=f"directory-{broker_id}",
        address=f"host-{broker_id}:9092",
        rack="",
        feature_level_min=1,
        feature_level_max=1,
        is_fenced=is_fenced,
        is_shutting_down=is_shutting_down,
        is_draining=False,
    )


class ReplicaHarness:
    """Broker 1 is under test; brokers n have epoch 100 + n unless a test registers them anew."""

    def __init__(
        self,
        log: PartitionLog | None = None,
        *,
        number: int = 0,
        high_watermark: int = 0,
        clock: Clock | None = None,
        on_isr_wish: Callable[[Partition], None] | None = None,
    ) -> None:
        """``number``: of the partition; ``clock``: in place of one that stands still."""
        self.clock = SteppedClock()
        self._number = PartitionId(number)
        self._on_isr_wish = on_isr_wish
        self.plain_log = PlainLog()
        self.wishes = 0
        self.failures: list[QuorateError | None] = []
        #: what producers were told, in order
        self.outcomes: list[QuorateError | None] = []
        self._brokers: Map[BrokerId, BrokerImage] = Map(
            {BrokerId(each): broker_image(each) for each in (1, 2, 3)}
        )
        self._image = PartitionImage(
            topic_id=TOPIC_ID,
            partition=self._number,
            replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
            isr=(BrokerId(1), BrokerId(2), BrokerId(3)),
            elr=(),
            last_known_elr=(),
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        )
        self._min_isr = 2
        self._durability = Durability.REPLICATED
        self.partition = Partition(
            TopicPartition(TopicName("orders"), self._number),
            TOPIC_ID,
            log or self.plain_log.as_log(),
            broker_id=BrokerId(1),
            clock=clock or self.clock,
            high_watermark=Offset(high_watermark),
            replica_lag_s=LAG_S,
            on_isr_wish=self._wished,
            on_failure=lambda partition: self.failures.append(partition.failure),
        )

    def _wished(self, partition: Partition) -> None:
        assert partition is self.partition
        self.wishes += 1
        if self._on_isr_wish is not None:
            self._on_isr_wish(partition)

    # -- metadata

    def state(
        self,
        *,
        leader: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        isr: Sequence[int] | None = None,
        elr: Sequence[int] = (),
        replicas: Sequence[int] | None = None,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        recovery: Recovery = Recovery.NORMAL,
        min_isr: int | None = None,
        durability: Durability | None = None,
        brokers: Iterable[BrokerImage] = (),
        unclean: Sequence[int] = (),
    ) -> PartitionState:
        """As it was, but for what is given. The partition epoch grows by itself."""
        before = self._image
        self._image = PartitionImage(
            topic_id=TOPIC_ID,
            partition=self._number,
            replicas=before.replicas if replicas is None else tuple(map(BrokerId, replicas)),
            isr=before.isr if isr is None else tuple(map(BrokerId, isr)),
            elr=tuple(map(BrokerId, elr)),
            last_known_elr=(),
            leader=before.leader if leader is None else BrokerId(leader),
            leader_epoch=before.leader_epoch if leader_epoch is None else LeaderEpoch(leader_epoch),
            partition_epoch=before.partition_epoch + 1 if partition_epoch is None else partition_epoch,
            adding_replicas=tuple(map(BrokerId, adding)),
            removing_replicas=tuple(map(BrokerId, removing)),
            recovery=recovery,
            unclean_leader_epochs=tuple(map(LeaderEpoch, unclean)),
        )
        self._min_isr = self._min_isr if min_isr is None else min_isr
        self._durability = durability or self._durability
        for broker in brokers:
            self._brokers = self._brokers.set(broker.broker_id, broker)
        return PartitionState(self._image, self._min_isr, self._durability, self._brokers)

    def apply(self, state: PartitionState) -> None:
        self.partition.apply(state)
        self.partition.validate()

    def lead(
        self,
        *,
        isr: Sequence[int] = (1, 2, 3),
        min_isr: int = 2,
        leader_epoch: int = 0,
        durability: Durability = Durability.REPLICATED,
        recovery: Recovery = Recovery.NORMAL,
        brokers: Iterable[BrokerImage] = (),
    ) -> Leadership:
        self.apply(
            self.state(
                leader=1,
                isr=isr,
                min_isr=min_isr,
                leader_epoch=leader_epoch,
                durability=durability,
                recovery=recovery,
                brokers=brokers,
            )
        )
        return self.leadership

    @property
    def leadership(self) -> Leadership:
        assert self.partition.leadership is not None
        return self.partition.leadership

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    # -- requests

    def append(self, count: int = 1) -> None:
        """Records of one byte, to a plain log, that nobody waits for."""
        for _ in range(count):
            self.leadership.append(b"v", acks_all=False)
        self.partition.validate()

    def wait_for(self, next_offset: int) -> None:
        assert self.leadership.when_committed(Offset(next_offset), self.outcomes.append) is not None

    def fetch(
        self,
        broker_id: int,
        offset: int,
        *,
        last_epoch: int | None = None,
        broker_epoch: int | None = None,
        log_start: int = 0,
    ) -> Divergence | None:
        """``last_epoch``: None: as the leader has it there."""
        if last_epoch is None:
            last_epoch = self.plain_log.entries[offset - 1].leader_epoch if offset > 0 else -1
        divergence = self.leadership.follower_at(
            BrokerId(broker_id),
            BrokerEpoch(100 + broker_id if broker_epoch is None else broker_epoch),
            Offset(offset),
            LeaderEpoch(last_epoch),
            Offset(log_start),
        )
        self.partition.validate()
        return divergence

    # -- the controller

    def asked_isr(self) -> list[int] | None:
        """What the leader asks for now; None: nothing."""
        alteration = self.leadership.next_alteration()
        self.partition.validate()
        return None if alteration is None else [member.broker_id for member in alteration.isr]

    def ask(self) -> PartitionAlteration:
        alteration = self.leadership.next_alteration()
        assert alteration is not None
        return alteration

    def grant(
        self, isr: Sequence[int], partition_epoch: int, *, leader_epoch: int = 0, is_synced: bool = False
    ) -> None:
        self.answer(
            PartitionAlterationResult(
                topic_id=TOPIC_ID,
                leader=1,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                isr=isr,
                recovery_state=RECOVERY_STATE_NORMAL,
                is_synced=is_synced,
            )
        )

    def answer(self, result: PartitionAlterationResult) -> None:
        self.leadership.alteration_answered(result)
        self.partition.validate()


def refusal(error: QuorateError) -> PartitionAlterationResult:
    return PartitionAlterationResult(topic_id=TOPIC_ID, error=detail_from_error(error))
