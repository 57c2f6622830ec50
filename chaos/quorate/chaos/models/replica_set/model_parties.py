"""Who takes part in the model of replicas: machines of brokers, and producers that wait."""

from __future__ import annotations

from quorate.broker.replica.partition import Partition
from quorate.chaos.models.replica_set.plain_log import PlainLog
from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.errors import QuorateError

__all__ = ["ModelBroker", "Produced"]


class ModelBroker:
    """One broker's machine: the log outlives its processes."""

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.log = PlainLog()
        #: of the running process
        self.broker_epoch = BrokerEpoch(-1)
        #: None: the process is dead
        self.partition: Partition | None = None
        #: metadata is applied up to here (inclusive)
        self.applied = 0
        self.high_watermark = 0
        #: how long it may hold a lease, once it leads no more
        self.lease_end = 0.0


class Produced:
    """One record whose producer waits."""

    def __init__(self, offset: Offset, value: bytes) -> None:
        self.offset = offset
        self.value = value
        self.outcomes: list[QuorateError | None] = []
