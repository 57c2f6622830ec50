"""The clusters that groups are measured on: ours and Kafka's, three nodes each, as everywhere in `bench`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from bench.cluster.processes import output_of, tell
from bench.peers.kafka.cluster import KafkaCluster
from bench.peers.kafka.installation import Installation
from quorate.client import AsyncAdmin
from quorate.node.local_cluster import LocalCluster

__all__ = ["GroupSide", "KafkaSide", "QuorateSide"]

_NODES: Final = 3
#: what a node and its clients consist of
_IMPORTS: Final = "import bench.groups.quorate_client, quorate.node.process, quorate.rpc.lean.transport"


class GroupSide(ABC):
    """One life of one cluster, as an asynchronous context: started on entry, gone on exit."""

    #: how often a member joins and leaves in one life
    cycles: int
    #: how often one is killed: in the first cycles, and at most as often
    kills: int
    #: about how long a change takes, by a call and by a crash, until all is calm: watched for as long before
    call_s: float
    crash_s: float

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    @abstractmethod
    async def create_topic(self, topic: str, partitions: int) -> None:
        """Three replicas, two of them enough to acknowledge."""

    @abstractmethod
    def client(self, command: str, *arguments: object) -> tuple[str, ...]:
        """The program for `bench.groups.member_program`; the address comes before the arguments."""


class QuorateSide(GroupSide):
    cycles = 3
    kills = 3
    call_s = 3.0
    crash_s = 4.0

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._bytecode = tempfile.mkdtemp(prefix="quorate-bytecode-")
        self.cluster: LocalCluster

    async def __aenter__(self) -> Self:
        # As an installation has it: no process compiles what another one has compiled.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = self._bytecode
        try:
            await output_of(sys.executable, "-c", _IMPORTS)
            self.cluster = LocalCluster.create(brokers=_NODES, is_combined=True, settings=self._settings)
            await self.cluster.__aenter__()
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.cluster.__aexit__(kind, error, trace)
        finally:
            self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._bytecode, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    async def create_topic(self, topic: str, partitions: int) -> None:
        async with AsyncAdmin(self.bootstrap) as admin:
            await admin.create_topic(
                topic,
                partitions=partitions,
                replication_factor=_NODES,
                configs={"min.insync.replicas": "2"},
            )

    def client(self, command: str, *arguments: object) -> tuple[str, ...]:
        program = (sys.executable, "-m", "bench.groups.quorate_client")
        return (*program, command, self.bootstrap, *map(str, arguments))

    def process_ids(self) -> dict[str, int]:
        """By the name of the node."""
        return {node.name: node.process.pid for node in self.cluster.nodes if node.process is not None}


class KafkaSide(GroupSide):
    cycles = 2
    #: a crash is noticed when the session is over, after 45 s
    kills = 1
    call_s = 10.0
    crash_s = 50.0

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._cluster = KafkaCluster(installation)

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        try:
            await self._cluster.start()
        except BaseException:
            await self._cluster.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.__aexit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    async def create_topic(self, topic: str, partitions: int) -> None:
        program = (str(self._installation.python), "-m", "bench.peers.kafka.confluent_client")
        await tell(*program, "create-topic", self.bootstrap, topic, str(partitions))

    def client(self, command: str, *arguments: object) -> tuple[str, ...]:
        program = (str(self._installation.python), "-m", "bench.groups.confluent_client")
        return (*program, command, self.bootstrap, *map(str, arguments))
