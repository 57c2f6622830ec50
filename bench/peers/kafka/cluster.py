"""Three Kafka nodes on loopback, each broker and controller in one process, as Kafka's quick start has them.

Every setting is Kafka's default but for what three nodes on one machine cannot do without, three replicas and
two in sync. The options of the virtual machine are those of Kafka's own start script, with its 1 GiB of heap.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.peers.kafka.installation import Installation
from bench.resident_memory import resident_bytes
from quorate.chaos.peers.peer import PeerUnavailable
from quorate.console.measuring.values import values_of
from quorate.node.cluster_layout import HOST, free_ports

__all__ = ["KafkaCluster"]

NODES: Final = 3
_VM_OPTIONS: Final = (
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
    "-Djava.awt.headless=true",
)
_LOG_OPTIONS: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)
#: Kafka writes it once the broker is registered and unfenced and its sockets take requests.
_STARTED: Final = "Kafka Server started"
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{address},CONTROLLER://{controller_address}
advertised.listeners=PLAINTEXT://{address}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/data
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
auto.create.topics.enable=false
"""


class KafkaCluster:
    """As an asynchronous context manager: formatted on entry; killed and removed on exit."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-peer-"))
        addresses = [f"{HOST}:{port}" for port in free_ports(2 * NODES)]
        voters = ",".join(f"{node}@{addresses[NODES + node - 1]}" for node in range(1, NODES + 1))
        self.bootstrap = ",".join(addresses[:NODES])
        self.node_ids = range(1, NODES + 1)
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        for node_id, address, controller_address in zip(
            self.node_ids, addresses[:NODES], addresses[NODES:], strict=True
        ):
            directory = self._directory_of(node_id)
            directory.mkdir()
            properties = _PROPERTIES.format(
                node_id=node_id,
                voters=voters,
                address=address,
                controller_address=controller_address,
                directory=directory,
            )
            (directory / "server.properties").write_text(properties)

    async def __aenter__(self) -> Self:
        try:
            await self._format()
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node_id in self.node_ids:
            await self.kill(node_id)
        self._remove()

    async def start(self) -> float:
        """Seconds until all are unfenced. Formatting, which `quorate up` does on the way, is not counted."""
        began = time.monotonic()
        for node_id in self.node_ids:
            await self._spawn(node_id)
        for node_id in self.node_ids:
            await self._until_started(node_id)
        return time.monotonic() - began

    async def start_again(self, node_id: int) -> None:
        await self._spawn(node_id)
        await self._until_started(node_id)

    async def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            for process in self._processes.values():
                await process.wait()
        self._processes.clear()

    async def kill(self, node_id: int) -> None:
        """kill -9; nothing happens where it does not run."""
        process = self._processes.pop(node_id, None)
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()

    def process_ids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def resident_bytes(self) -> list[int]:
        return [resident_bytes(process_id) for process_id in self.process_ids()]

    def file_of_values(self, value_bytes: int) -> str:
        """For the producer's tool; it goes with the cluster."""
        path = self._directory / f"values-{value_bytes}"
        if not path.exists():
            path.write_bytes(b"\n".join(values_of(value_bytes)) + b"\n")
        return str(path)

    async def _format(self) -> None:
        cluster_id = (await self._tool("random-uuid")).split()[-1]
        for node_id in self.node_ids:
            await self._tool("format", "--cluster-id", cluster_id, "--config", self._properties_of(node_id))

    async def _tool(self, *arguments: str) -> str:
        command = (
            "java",
            "-cp",
            self._installation.class_path,
            _LOG_OPTIONS[0],
            "kafka.tools.StorageTool",
            *arguments,
        )
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise PeerUnavailable(f"{' '.join(command)}\n{output.decode()}")
        return output.decode()

    async def _spawn(self, node_id: int) -> None:
        command = ("java", *_VM_OPTIONS, *_LOG_OPTIONS, "-cp", self._installation.class_path, "kafka.Kafka")
        with self._log_of(node_id).open("wb") as log:
            # In a session of its own: Ctrl-C is for us, and we end it.
            self._processes[node_id] = await asyncio.create_subprocess_exec(
                *command, self._properties_of(node_id), stdout=log, stderr=log, start_new_session=True
            )

    async def _until_started(self, node_id: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while _STARTED not in (text := self._log_of(node_id).read_text(errors="replace")):
            if self._processes[node_id].returncode is not None or time.monotonic() > deadline:
                raise PeerUnavailable(f"Kafka node {node_id} did not start:\n{text[-4000:]}")
            await asyncio.sleep(_POLL_S)

    def _directory_of(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}"

    def _properties_of(self, node_id: int) -> str:
        return str(self._directory_of(node_id) / "server.properties")

    def _log_of(self, node_id: int) -> Path:
        return self._directory_of(node_id) / "server.log"

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
