"""A cluster of real processes for tests, on the test's own event loop.

A thin layer over `quorate.node.local_cluster`: nodes by name or id, clients that are closed with the cluster,
and a way back to a sound cluster after a test has broken it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar, Unpack

from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from quorate.client.arguments import check_integer, check_integer_or_none, check_topic_argument
from quorate.client.consumer.options import OptionArguments as ConsumerArguments
from quorate.client.producer.options import OptionArguments as ProducerArguments
from quorate.errors import (
    InvalidRequest,
    NotLeaderOrFollower,
    QuorateError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from quorate.node.local_cluster import LocalCluster as NodeProcesses
from quorate.v1 import admin_pb2

__all__ = ["AsyncLocalCluster", "NodeRef"]

T = TypeVar("T")

#: a node by its name ("broker-1") or its id (1)
NodeRef: TypeAlias = str | int

_POLL_S: Final = 0.05
_TIMEOUT_S: Final = 60.0


class AsyncLocalCluster:
    """Use as an asynchronous context manager, or start and stop it."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | None = None,
        directory: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """What it is made of.

        ``controllers``: so many processes of their own; None: the first three brokers (five, where there are
        as many) are the controllers as well, which takes fewer processes. ``directory``: where it lives; one
        that lived there before goes on as it was made; None: a temporary one, removed at the end.
        ``settings``: keys of every node's configuration.
        """
        self._brokers = check_integer("brokers", brokers, bits=32)
        self._controllers = check_integer_or_none("controllers", controllers, bits=32)
        # Controllers of their own are a cluster, too: of metadata.
        if self._brokers < (1 if controllers is None else 0):
            raise InvalidRequest(f"brokers is {brokers}: a cluster has at least one")
        if self._controllers is not None and self._controllers < 1:
            raise InvalidRequest(f"controllers is {controllers}: a cluster has at least one")
        self._directory = directory
        self._settings = dict(settings or {})
        self._started: NodeProcesses | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns once every broker serves."""
        try:
            await self.begin()
        except BaseException:
            await self.stop()
            raise

    async def begin(self) -> None:
        """As ``start``; but whoever calls it stops the cluster, too, if this fails or is cancelled."""
        if self._started is None:
            self._started = self._open()
            await self._started.start()
            await self._started.wait_for_controller()

    async def stop(self) -> None:
        """Clients are closed, nodes stop cleanly, a temporary directory is removed; twice is harmless."""
        processes, self._started = self._started, None
        if processes is None:
            return
        closers, self._closers = self._closers, []
        try:
            await asyncio.gather(*(close() for close in closers))
        finally:
            await processes.dispose()

    # -- what it is

    @property
    def bootstrap(self) -> str:
        """For clients of your own."""
        return self._processes.bootstrap

    @property
    def directory(self) -> str:
        """``cluster.json``, and for each node its data and its log."""
        return self._processes.directory

    @property
    def nodes(self) -> list[str]:
        return self._processes.names

    def is_running(self, node: NodeRef) -> bool:
        return self._processes.is_running(self._name(node))

    def log_file(self, node: NodeRef) -> str:
        return self._processes.log_file(self._name(node))

    # -- clients, which are closed with the cluster if nobody closes them before

    def producer(self, **options: Unpack[ProducerArguments]) -> AsyncProducer:
        producer = AsyncProducer(self.bootstrap, **options)
        # Without waiting: whoever wants to know what became of a record has asked for it.
        self._closers.append(lambda: producer.close(timeout=0))
        return producer

    def consumer(
        self, *, topics: list[str] | None = None, **options: Unpack[ConsumerArguments]
    ) -> AsyncConsumer:
        consumer = AsyncConsumer(self.bootstrap, topics=topics, **options)
        self._closers.append(consumer.close)
        return consumer

    def admin(self) -> AsyncAdmin:
        admin = AsyncAdmin(self.bootstrap)
        self._closers.append(admin.close)
        return admin

    # -- whom to break

    async def leader_of(self, topic: str, partition: int = 0, *, timeout: float = _TIMEOUT_S) -> int:  # noqa: ASYNC109 - as in LocalCluster
        """The id of the broker that leads the partition, once there is one."""
        check_topic_argument(topic)
        check_integer("partition", partition, bits=32)

        async def find() -> int | None:
            async with self._processes.connect() as connection:
                partitions = (await connection.describe_topic(topic)).partitions
            if not 0 <= partition < len(partitions):
                raise UnknownTopicOrPartition(
                    f"{topic} has no partition {partition}: it has {len(partitions)}",
                    topic=topic,
                    partition=partition,
                )
            described = partitions[partition]
            return described.leader if described.HasField("leader") else None

        try:
            return await _poll(find, timeout)
        except TimeoutError:
            raise NotLeaderOrFollower(
                f"{topic}-{partition} has no leader after {timeout:g} s", topic=topic, partition=partition
            ) from None

    async def controller(self) -> int:
        """The id of the node that is the active controller."""
        return (await self._processes.wait_for_controller()).controller

    # -- breaking and mending

    async def kill(self, *nodes: NodeRef) -> None:
        """kill -9, all of them at once."""
        await self._processes.kill(*map(self._name, nodes))

    async def pause(self, *nodes: NodeRef) -> None:
        """SIGSTOP: they are silent, and do not know it."""
        for node in nodes:
            await self._processes.pause(self._name(node))

    async def resume(self, *nodes: NodeRef) -> None:
        for node in nodes:
            self._processes.resume(self._name(node))

    async def restart(self, *nodes: NodeRef) -> None:
        """Stop those that run, cleanly; start all of them; returns once they serve."""
        names = [self._name(node) for node in nodes]
        await self._processes.stop(names)
        await self._processes.start(names)

    async def wipe(self, *nodes: NodeRef) -> None:
        """Throw away the data of nodes that do not run."""
        for node in nodes:
            self._processes.wipe(self._name(node))

    async def heal(self, *, timeout: float = _TIMEOUT_S) -> None:  # noqa: ASYNC109 - as in LocalCluster
        """Resume whoever is paused, start whoever is down, and wait until every replica is in sync."""
        for node in self._processes.nodes:
            if node.process is not None and node.is_running and node.process.is_stopped:
                self._processes.resume(node.name)
        await self._processes.start()
        await self.wait_until_healthy(timeout=timeout)

    async def wait_until_healthy(self, *, timeout: float = _TIMEOUT_S) -> None:  # noqa: ASYNC109 - as above
        """Until every broker serves and every replica of every partition is in sync."""
        last: admin_pb2.DescribeClusterResponse | None = None

        async def look() -> bool | None:
            nonlocal last
            async with self._processes.connect() as connection:
                last = await connection.describe_cluster()
            return True if _is_healthy(last) else None

        try:
            await _poll(look, timeout)
        except TimeoutError:
            raise RequestTimedOut(f"not healthy after {timeout:g} s: {_ills(last)}") from None

    # -- how

    @property
    def _processes(self) -> NodeProcesses:
        if self._started is None:
            raise InvalidRequest("the cluster does not run: use it in a with statement, or start it")
        return self._started

    def _open(self) -> NodeProcesses:
        if self._directory is not None and NodeProcesses.exists_in(self._directory):
            processes = NodeProcesses(self._directory)
            processes.set(self._settings)
            return processes
        return NodeProcesses.create(
            self._directory,
            brokers=self._brokers,
            controllers=self._controllers or 0,
            is_combined=self._controllers is None,
            settings=self._settings,
        )

    def _name(self, node: NodeRef) -> str:
        names = {each.id: each.name for each in self._processes.nodes}
        return node if isinstance(node, str) else names.get(node, str(node))


async def _poll(ask: Callable[[], Awaitable[T | None]], timeout_s: float) -> T:
    """Until there is an answer; errors that pass are no answer."""
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                found = await ask()
            except UnknownTopicOrPartition:
                raise  # the controller says so, who knows; brokers learn of a topic later
            except QuorateError as error:
                if not error.retriable:
                    raise
            else:
                if found is not None:
                    return found
            await asyncio.sleep(_POLL_S)


def _is_healthy(cluster: admin_pb2.DescribeClusterResponse) -> bool:
    counts = (cluster.offline_partition_count, cluster.under_replicated_partition_count)
    return not any(counts) and not any(broker.is_fenced for broker in cluster.brokers)


def _ills(cluster: admin_pb2.DescribeClusterResponse | None) -> str:
    if cluster is None:
        return "nobody answers"
    fenced = [str(broker.broker_id) for broker in cluster.brokers if broker.is_fenced]
    return (
        f"{cluster.offline_partition_count} partition(s) have no leader, "
        f"{cluster.under_replicated_partition_count} lack replicas in sync, "
        f"fenced brokers: {', '.join(fenced) or 'none'}"
    )
