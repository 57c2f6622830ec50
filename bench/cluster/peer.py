"""What is asked of a cluster that is measured: ours, or another one.

A method is one load. Clients run in processes of their own, as they do in life, and each side brings its own:
a cluster is worth what its users get out of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple, Self

__all__ = ["Latencies", "Load", "LonePeer", "Peer", "latencies_of"]


class Load(NamedTuple):
    topic: str
    records: int
    value_bytes: int
    #: sent before them, and not counted: compilers warm up, connections are made
    warm_up_records: int = 0


class Latencies(NamedTuple):
    p50_ms: float
    p99_ms: float


def latencies_of(samples_ms: list[float]) -> Latencies:
    ordered = sorted(samples_ms)
    return Latencies(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)])


class LonePeer(ABC):
    """One life of one cluster: an asynchronous context, started once. It is asked for lone writes only."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_: object) -> None: ...

    @abstractmethod
    async def start(self) -> float:
        """Seconds until every broker serves."""

    @abstractmethod
    async def create_topic(self, topic: str, partitions: int) -> None:
        """Three replicas, two of them enough to acknowledge."""

    @abstractmethod
    async def send_alone(self, load: Load) -> Latencies:
        """One record at a time, each acknowledged before the next is sent, from Python."""


class Peer(LonePeer):
    """One that is put under every load."""

    #: as the light client knows it
    system = ""
    #: how often a leader is killed; a cluster that takes long is not killed as often
    fail_overs: int

    @property
    def bootstrap(self) -> str:
        raise NotImplementedError

    def process_ids(self) -> list[int]:
        """Of the nodes."""
        raise NotImplementedError

    async def create_synced_topic(self, topic: str, partitions: int) -> None:
        """As ``create_topic``, and each replica syncs a record to its disk before it counts."""
        raise NotImplementedError

    @abstractmethod
    def resident_bytes(self) -> list[int]:
        """Of each node's process."""

    @abstractmethod
    async def produce(self, load: Load) -> Mapping[str, float]:
        """Large batches, acks=all: acknowledged records per second by each way that this side has."""

    async def produce_bulk(self, load: Load) -> float:
        """The same by the fastest of these ways."""
        raise NotImplementedError

    async def many_producers(
        self, topic: str, producers: int, value_bytes: int, *, warm_up_s: float, seconds: float
    ) -> float:
        """Acknowledged records per second of so many that each have one record on its way, from Python."""
        raise NotImplementedError

    @abstractmethod
    async def produce_one_per_batch(self, load: Load) -> float:
        """Acknowledged records per second of one producer that puts every record in a batch of its own."""

    @abstractmethod
    async def end_to_end(self, load: Load, *, rate: float) -> Latencies:
        """From the moment a record is due to be sent, until a consumer in another process has it."""

    @abstractmethod
    async def consume(self, load: Load) -> Mapping[str, float]:
        """What lies in the topic, from its beginning: records per second by each way that this side has."""

    @abstractmethod
    async def fail_over(self, topic: str, *, times: int, with_controller: bool) -> list[float]:
        """Seconds from kill -9 of the partition's leader until a later write is acknowledged, each time.

        ``with_controller``: the node that is killed is the active controller too, or else it is not.
        """
