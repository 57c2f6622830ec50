"""NATS JetStream as a drill sees it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from bench.peers.nats.cluster import NatsCluster
from bench.peers.nats.installation import Installation
from bench.peers.process_peer import ProcessPeer

__all__ = ["NatsDrillPeer"]


class NatsDrillPeer(ProcessPeer):
    name: Final = "NATS JetStream"

    def __init__(self, installation: Installation) -> None:
        self._cluster = NatsCluster(installation)
        python = str(installation.python)
        super().__init__(python, "-m", "bench.peers.nats.client", bootstrap=self._cluster.bootstrap)
        self.version = installation.version
        self.settings: Mapping[str, str] = {
            "nodes": "3 servers with JetStream, defaults (sync_interval=2m)",
            "topic": "a stream for each partition: replicas=3, storage=file, otherwise defaults",
            "producer": f"nats-py {installation.client_version}: JetStream publish, which waits 5 s for its "
            "acknowledgement and does not try again; no message ids",
        }

    def laid_out(self) -> AbstractAsyncContextManager[None]:
        return self._cluster.laid_out()

    async def start(self) -> None:
        await self._cluster.start()

    async def kill_all(self) -> None:
        await self._cluster.kill_all()
