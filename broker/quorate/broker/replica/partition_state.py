"""What committed metadata says about one partition, as its replica needs it."""

from __future__ import annotations

from dataclasses import dataclass

from immutables import Map

from quorate.core.config import Durability
from quorate.core.ids import BrokerId
from quorate.metadata.image import BrokerImage, PartitionImage

__all__ = ["PartitionState"]


@dataclass(frozen=True, slots=True)
class PartitionState:
    image: PartitionImage
    #: in force for this partition: the value that the controller decides by (rule 29)
    min_insync_replicas: int
    durability: Durability
    #: all brokers of the cluster: who may join the ISR depends on them (rules 23 and 25)
    brokers: Map[BrokerId, BrokerImage]
