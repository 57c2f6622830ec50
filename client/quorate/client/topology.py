"""What a client knows of the cluster: brokers, topics, and who leads which partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName

__all__ = ["BrokerView", "Leader", "PartitionView", "TopicView"]


class Leader(NamedTuple):
    broker_id: BrokerId
    #: host:port
    address: str
    epoch: LeaderEpoch


class BrokerView(NamedTuple):
    broker_id: BrokerId
    #: host:port
    address: str
    #: empty: none
    rack: str


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: PartitionId
    #: None: offline, or nobody knows
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    #: the preferred leader first
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    name: TopicName
    topic_id: TopicId
    #: by number, gap-free
    partitions: tuple[PartitionView, ...]
