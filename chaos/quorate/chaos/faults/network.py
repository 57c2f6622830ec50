"""Network faults between the nodes of a local cluster, and between them and clients.

Two ways, of which the machine decides: ``namespaces`` (``switch.packet_carrier``; root) and ``proxy``
(``switch.proxy_carrier``; anybody). Orders are the same, and so is what they mean.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection
from typing import Any, Final, Literal, Protocol, TypeAlias

from quorate.chaos.faults.switch.links import CLIENTS
from quorate.errors import UnsupportedOperation
from quorate.node.local_cluster import LocalCluster

__all__ = ["CLIENTS", "LocalNetwork", "NetworkFaults", "NetworkKind"]

NetworkKind: TypeAlias = Literal["namespaces", "proxy"]

_END_TIMEOUT_S: Final = 10.0


class NetworkFaults(Protocol):
    """Ends go by the names of nodes; ``CLIENTS`` is everybody else. Faults add up until ``heal``."""

    @property
    def kind(self) -> str:
        """For reports: how faults are inflicted."""

    async def block(self, source: str, target: str) -> None:
        """One way: nothing from ``source`` arrives at ``target``."""

    async def partition(self, *sides: Collection[str]) -> None:
        """Nothing passes between two sides, either way. Who is on no side reaches everybody."""

    async def isolate(self, name: str) -> None:
        """From all other nodes and from clients, both ways."""

    async def delay(self, source: str, target: str, *, delay_ms: float, jitter_ms: float = 0.0) -> None:
        """One way."""

    async def loss(self, source: str, target: str, *, percent: float) -> None:
        """One way: so much of what is sent is lost, and sent again by TCP."""

    async def heal(self) -> None:
        """Every link is sound again."""


class LocalNetwork:
    """A ``NetworkFaults`` around a ``LocalCluster``; made by ``open`` before its nodes are started."""

    def __init__(self, kind: NetworkKind, process: asyncio.subprocess.Process) -> None:
        """For ``open``."""
        self.kind: Final = kind
        self._process = process
        self._lock = asyncio.Lock()
        self._names: list[str] = []

    @classmethod
    async def open(cls, cluster: LocalCluster, *, seed: int, kind: NetworkKind | None = None) -> LocalNetwork:
        """Without ``kind``: namespaces if the machine allows them, else proxies. ``seed``: of losses."""
        if kind is not None:
            network = await cls._start(kind, seed)
        else:
            try:
                network = await cls._start("namespaces", seed)
            except UnsupportedOperation:
                network = await cls._start("proxy", seed)
        for name in cluster.names:
            await network.admit(cluster, name)
        return network

    @classmethod
    async def _start(cls, kind: NetworkKind, seed: int) -> LocalNetwork:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "quorate.chaos.faults.switch", kind, str(seed)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the drill, which ends the network when the nodes are gone
        )
        network = cls(kind, process)
        try:
            await network._order("open")
        except BaseException:
            await network.close()
            raise
        return network

    async def admit(self, cluster: LocalCluster, name: str) -> None:
        """A node that was not started yet: also one that was added to the cluster since."""
        node = cluster.node(name)
        place = await self._order(
            "admit", name=name, address=node.address, cluster_directory=cluster.directory
        )
        cluster.place(name, address=place["address"], listener=place["listener"])
        cluster.surround(name, launcher=place["launcher"])
        self._names.append(name)

    async def block(self, source: str, target: str) -> None:
        await self._order("block", source=source, target=target)

    async def partition(self, *sides: Collection[str]) -> None:
        await self._order("partition", sides=[sorted(side) for side in sides])

    async def isolate(self, name: str) -> None:
        others = [each for each in (*self._names, CLIENTS) if each != name]
        await self.partition([name], others)

    async def delay(self, source: str, target: str, *, delay_ms: float, jitter_ms: float = 0.0) -> None:
        await self._order(
            "delay", source=source, target=target, delay_s=delay_ms / 1000, jitter_s=jitter_ms / 1000
        )

    async def loss(self, source: str, target: str, *, percent: float) -> None:
        await self._order("lose", source=source, target=target, share=percent / 100)

    async def heal(self) -> None:
        await self._order("heal")

    async def close(self) -> None:
        """Once the nodes have ended: with it goes their network."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _order(self, do: str, **arguments: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._lock:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            line = await self._process.stdout.readline()
        if not line:
            raise UnsupportedOperation(f"the process that carries the network ({self.kind}) has ended")
        answer = json.loads(line)
        if "failed" in answer:
            raise UnsupportedOperation(f"no network by {self.kind} here: {answer['failed']}")
        return answer["done"]
