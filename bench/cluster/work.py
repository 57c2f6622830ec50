"""What a load is, whoever is put under it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from bench.cluster.comparison import Comparison
from bench.cluster.peer import Load, LonePeer, Peer

__all__ = ["KB", "MB", "LoneWork", "Measured", "Work"]

Measured = Mapping[str, Sequence[float]]

KB: Final = 1_000
MB: Final = 1_000_000


class Work(ABC):
    """One load, or two that belong together."""

    name: str
    comparisons: Sequence[Comparison]
    #: False: once is enough, because it repeats itself
    every_round = True
    #: of its usual size; a small part of it shows that it works, and nothing else
    scale = 1.0

    @abstractmethod
    async def run(self, peer: Peer) -> Measured: ...

    def load(self, topic: str, records: int, value_bytes: int, *, warm_up: int = 0) -> Load:
        return Load(topic, self.sized(records), value_bytes, self.sized(warm_up) if warm_up else 0)

    def sized(self, count: int) -> int:
        return max(round(count * self.scale), 1)

    def seconds(self, usual: float) -> float:
        return max(usual * self.scale, 0.5)


class LoneWork(Work):
    """Also for systems that are beside us for the latency of a lone write, and for nothing else."""

    @abstractmethod
    async def run(self, peer: LonePeer) -> Measured: ...
