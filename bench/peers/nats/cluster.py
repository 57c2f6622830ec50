"""Three NATS servers on loopback, with JetStream on files. Every setting that is not needed is left alone."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.peers.nats.installation import Installation
from quorate.chaos.peers.peer import PeerUnavailable
from quorate.node.cluster_layout import HOST, free_ports

__all__ = ["NatsCluster"]

NODES: Final = 3
#: the server writes it once it has read its streams back and takes connections
_STARTED: Final = "Server is ready"
_START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01
_SAID_MAX: Final = 4_000
_CONFIGURATION: Final = """\
server_name: node-{node_id}
listen: {address}
jetstream {{ store_dir: "{directory}/data" }}
cluster {{
  name: drill
  listen: {route}
  routes: [{routes}]
}}
"""


class NatsCluster:
    def __init__(self, installation: Installation) -> None:
        self._server = installation.server
        addresses = [f"{HOST}:{port}" for port in free_ports(2 * NODES)]
        self._addresses, self._routes = addresses[:NODES], addresses[NODES:]
        self.bootstrap = ",".join(f"nats://{address}" for address in self._addresses)
        self._processes: list[asyncio.subprocess.Process] = []
        self._directories: list[Path] = []

    @asynccontextmanager
    async def laid_out(self) -> AsyncIterator[None]:
        directory = Path(tempfile.mkdtemp(prefix="nats-peer-"))
        try:
            self._directories = [directory / f"node-{node_id}" for node_id in range(1, NODES + 1)]
            for node in range(NODES):
                self._directories[node].mkdir()
                self._write_configuration(node)
            yield
        finally:
            await self.kill_all()
            shutil.rmtree(directory, ignore_errors=True)

    def _write_configuration(self, node: int) -> None:
        routes = ", ".join(f'"nats-route://{route}"' for route in self._routes)
        content = _CONFIGURATION.format(
            node_id=node + 1,
            address=self._addresses[node],
            route=self._routes[node],
            routes=routes,
            directory=self._directories[node],
        )
        (self._directories[node] / "server.conf").write_text(content)

    async def start(self) -> None:
        """All of them, at once."""
        assert not self._processes, "they run"
        for directory in self._directories:
            with (directory / "server.log").open("wb") as log:
                # In a session of its own: Ctrl-C is for us, and we end it.
                process = await asyncio.create_subprocess_exec(
                    self._server, "-c", directory / "server.conf", stderr=log, start_new_session=True
                )
            self._processes.append(process)
        for node in range(NODES):
            await self._until_started(node)

    async def _until_started(self, node: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        log = self._directories[node] / "server.log"
        while _STARTED not in (text := log.read_text(errors="replace")):
            if self._processes[node].returncode is not None or time.monotonic() > deadline:
                raise PeerUnavailable(f"NATS server {node + 1} did not start:\n{text[-_SAID_MAX:]}")
            await asyncio.sleep(_POLL_S)

    async def kill_all(self) -> None:
        """kill -9, of all of them before the first is waited for."""
        processes, self._processes = self._processes, []
        running = [process for process in processes if process.returncode is None]
        for process in running:
            process.send_signal(signal.SIGKILL)
        for process in running:
            await process.wait()
