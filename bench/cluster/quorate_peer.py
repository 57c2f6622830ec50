"""Our own cluster under the loads: started by `quorate up`, measured by `quorate bench`, as anybody would.

Three nodes, each broker and controller in one process, as Kafka's are beside them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.cluster.peer import Latencies, Load, Peer
from bench.cluster.processes import output_of, tell
from bench.resident_memory import resident_bytes
from quorate.node.local_cluster import LocalCluster

__all__ = ["QuoratePeer"]

_QUORATE: Final = str(Path(sys.executable).with_name("quorate"))
#: what `quorate up`, a node and a client consist of
_IMPORTS: Final = (
    "import quorate.client, quorate.console.local_clusters, quorate.console.measuring.producing, "
    "quorate.node.process, quorate.rpc.lean.transport"
)


class QuoratePeer(Peer):
    system = "quorate"
    fail_overs = 10

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="quorate-peer-")
        self._bytecode = tempfile.mkdtemp(prefix="quorate-bytecode-")
        self._bootstrap = ""

    async def __aenter__(self) -> QuoratePeer:
        # Python compiles a module once, and then has it as bytecode, unless its environment says not to write
        # any: then each process compiles all of us anew, and that is what a start would measure.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = self._bytecode
        await output_of(sys.executable, "-c", _IMPORTS)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if LocalCluster.exists_in(self._directory):
                await LocalCluster(self._directory).stop()
        finally:
            for directory in (self._directory, self._bytecode):
                shutil.rmtree(directory, ignore_errors=True)

    async def start(self) -> float:
        began = time.monotonic()
        await output_of(
            _QUORATE, "up", "--dir", self._directory, "--combined", "--port", "0", "--detach", "--quiet"
        )
        seconds = time.monotonic() - began
        self._bootstrap = LocalCluster(self._directory).bootstrap
        return seconds

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._create_topic(topic, partitions, "min.insync.replicas=2")

    async def create_synced_topic(self, topic: str, partitions: int) -> None:
        await self._create_topic(topic, partitions, "min.insync.replicas=2", "durability=fsync")

    async def _create_topic(self, topic: str, partitions: int, *settings: str) -> None:
        await output_of(
            *(_QUORATE, "--bootstrap", self._bootstrap, "topic", "create", topic),
            *("--partitions", str(partitions), "--replication-factor", "3"),
            *(word for setting in settings for word in ("--config", setting)),
        )

    def resident_bytes(self) -> list[int]:
        return [resident_bytes(process_id) for process_id in self.process_ids()]

    def process_ids(self) -> list[int]:
        processes = (node.process for node in LocalCluster(self._directory).nodes)
        return [process.pid for process in processes if process is not None]

    async def produce(self, load: Load) -> Mapping[str, float]:
        return {
            "send_many": await self.produce_by(load, "--send-many"),
            "send": await self.produce_by(load),
        }

    async def produce_bulk(self, load: Load) -> float:
        return await self.produce_by(load, "--send-many")

    async def many_producers(
        self, topic: str, producers: int, value_bytes: int, *, warm_up_s: float, seconds: float
    ) -> float:
        numbers = (producers, value_bytes, warm_up_s, seconds)
        told = await tell(
            *(sys.executable, "-m", "bench.cluster.many_producers", self._bootstrap, topic),
            *map(str, numbers),
        )
        rate: float = told["records_per_s"]
        return rate

    async def produce_one_per_batch(self, load: Load) -> float:
        return await self.produce_by(load, "--batch-bytes", "1")

    async def produce_by(self, load: Load, *options: str) -> float:
        """Acknowledged records per second, with ``options`` of `quorate bench produce`."""
        rate: float = (await self._bench("produce", *_options(load), *options))["records_per_s"]
        return rate

    async def send_alone(self, load: Load) -> Latencies:
        return _latencies(await self._bench("latency", *_options(load)))

    async def end_to_end(self, load: Load, *, rate: float) -> Latencies:
        return _latencies(await self._bench("latency", *_options(load), "--rate", str(rate)))

    async def consume(self, load: Load) -> Mapping[str, float]:
        told = await self._bench("consume", "--topic", load.topic, "--records", str(load.records))
        return {"poll": told["records_per_s"]}

    async def fail_over(self, topic: str, *, times: int, with_controller: bool) -> list[float]:
        told = await self._bench(
            *("failover", "--topic", topic, "--dir", self._directory, "--times", str(times)),
            *("--victim", "controller" if with_controller else "leader"),
        )
        seconds: list[float] = told["seconds"]
        return seconds

    async def _bench(self, *arguments: str) -> dict[str, Any]:
        return await tell(
            *(_QUORATE, "--bootstrap", self._bootstrap, "--output", "json", "--quiet", "bench"), *arguments
        )


def _options(load: Load) -> tuple[str, ...]:
    return (
        *("--topic", load.topic, "--records", str(load.records), "--size", str(load.value_bytes)),
        *("--warm-up-records", str(load.warm_up_records)),
    )


def _latencies(told: Mapping[str, Any]) -> Latencies:
    return Latencies(told["latency_ms"]["p50"], told["latency_ms"]["p99"])
