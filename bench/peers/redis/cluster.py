"""A Redis primary and two replicas on loopback, with the append-only file, which is synced every second."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.peers.redis.installation import Installation
from quorate.chaos.peers.peer import PeerUnavailable
from quorate.node.cluster_layout import HOST, free_ports

__all__ = ["RedisCluster"]

NODES: Final = 3
_STARTED: Final = "Ready to accept connections"
_IN_SYNC: Final = "MASTER <-> REPLICA sync: Finished with success"
_START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01
_SAID_MAX: Final = 4_000


class RedisCluster:
    """The first is the primary."""

    def __init__(self, installation: Installation) -> None:
        self._server = installation.server
        self._ports = free_ports(NODES)
        self.bootstrap = f"{HOST}:{self._ports[0]}"
        self._directory = Path(tempfile.mkdtemp(prefix="redis-peer-"))
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> float:
        """Seconds until all serve and the replicas have what the primary has."""
        began = time.monotonic()
        for node, port in enumerate(self._ports):
            directory = self._directory / f"node-{node + 1}"
            directory.mkdir()
            options = ["--port", str(port), "--bind", HOST, "--dir", str(directory), "--appendonly", "yes"]
            if node:
                options += ["--replicaof", HOST, str(self._ports[0])]
            with self._log_of(node).open("wb") as log:
                # In a session of its own: Ctrl-C is for us, and we end it.
                process = await asyncio.create_subprocess_exec(
                    self._server, *options, stdout=log, stderr=log, start_new_session=True
                )
            self._processes.append(process)
            await self._until(node, _STARTED)
        for node in range(1, NODES):
            await self._until(node, _IN_SYNC)
        return time.monotonic() - began

    async def _until(self, node: int, said: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while said not in (text := self._log_of(node).read_text(errors="replace")):
            if self._processes[node].returncode is not None or time.monotonic() > deadline:
                raise PeerUnavailable(f"Redis server {node + 1} did not start:\n{text[-_SAID_MAX:]}")
            await asyncio.sleep(_POLL_S)

    async def end(self) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def process_ids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def _log_of(self, node: int) -> Path:
        return self._directory / f"server-{node + 1}.log"
