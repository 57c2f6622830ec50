"""What every consumer consists of; a group's work is done on the same parts."""

from __future__ import annotations

import random
from dataclasses import dataclass

from quorate.client.cluster import ClusterView
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.consumer.fetching import Fetching
from quorate.client.consumer.iteration import RecordsAhead
from quorate.client.consumer.options import ConsumerOptions
from quorate.client.consumer.positions import PartitionReader
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.consumer.topic_search import TopicSearch
from quorate.core.clock import Clock
from quorate.core.ids import TopicPartition

__all__ = ["ConsumerParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts:
    options: ConsumerOptions
    cluster: ClusterView
    topics: TopicSearch
    #: of the partitions that the application knows to be assigned; who assigns them, adds and removes them
    readers: dict[TopicPartition, PartitionReader]
    fetching: Fetching
    buffer: FetchBuffer
    ahead: RecordsAhead
    statistics: ConsumerStatistics
    clock: Clock
    rng: random.Random

    @property
    def timeout_s(self) -> float:
        """Of a request, where nobody says."""
        return self.options.request_timeout_ms / 1000
