"""A cluster of real processes for tests, from an ordinary thread."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from quorate.client import Admin, Consumer, Producer
from quorate.client.background import BackgroundLoop
from quorate.client.consumer.options import OptionArguments as ConsumerArguments
from quorate.client.producer.options import OptionArguments as ProducerArguments
from quorate.errors import InvalidRequest
from quorate.testing.async_cluster import AsyncLocalCluster, NodeRef

__all__ = ["LocalCluster"]

T = TypeVar("T")


class LocalCluster:
    """Use as a context manager, or start and stop it. It has the calls of `AsyncLocalCluster`.

    A program that ends without stopping it does so at its exit; one that is killed leaves the nodes running,
    and ``quorate down --dir`` of its directory stops them.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | None = None,
        directory: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """What it is made of: as of `AsyncLocalCluster`."""
        self._cluster = AsyncLocalCluster(
            brokers, controllers=controllers, directory=directory, settings=settings
        )
        #: while it runs
        self._background: BackgroundLoop | None = None
        self._closers: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once every broker serves."""
        if self._background is not None:
            return
        self._background = BackgroundLoop.acquire()
        atexit.register(self.stop)
        try:
            # Not ``start``: interrupted, its own cleaning up would be cancelled together with the loop.
            self._wait(self._cluster.begin())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Clients are closed, nodes stop cleanly, a temporary directory is removed; twice is harmless."""
        if self._background is None:
            return
        closers, self._closers = self._closers, []
        try:
            for close in closers:
                close()
        finally:
            try:
                self._wait(self._cluster.stop())
            finally:
                self._let_go()

    # -- what it is

    @property
    def bootstrap(self) -> str:
        """For clients of your own."""
        return self._cluster.bootstrap

    @property
    def directory(self) -> str:
        """``cluster.json``, and for each node its data and its log."""
        return self._cluster.directory

    @property
    def nodes(self) -> list[str]:
        return self._cluster.nodes

    def is_running(self, node: NodeRef) -> bool:
        return self._cluster.is_running(node)

    def log_file(self, node: NodeRef) -> str:
        return self._cluster.log_file(node)

    # -- clients, which are closed with the cluster if nobody closes them before

    def producer(self, **options: Unpack[ProducerArguments]) -> Producer:
        producer = Producer(self.bootstrap, **options)
        # Without waiting: whoever wants to know what became of a record has asked for it.
        self._closers.append(lambda: producer.close(timeout=0))
        return producer

    def consumer(self, *, topics: list[str] | None = None, **options: Unpack[ConsumerArguments]) -> Consumer:
        consumer = Consumer(self.bootstrap, topics=topics, **options)
        self._closers.append(consumer.close)
        return consumer

    def admin(self) -> Admin:
        admin = Admin(self.bootstrap)
        self._closers.append(admin.close)
        return admin

    # -- whom to break

    def leader_of(self, topic: str, partition: int = 0, *, timeout: float = 60.0) -> int:
        """The id of the broker that leads the partition, once there is one."""
        return self._wait(self._cluster.leader_of(topic, partition, timeout=timeout))

    def controller(self) -> int:
        """The id of the node that is the active controller."""
        return self._wait(self._cluster.controller())

    # -- breaking and mending

    def kill(self, *nodes: NodeRef) -> None:
        """kill -9, all of them at once."""
        self._wait(self._cluster.kill(*nodes))

    def pause(self, *nodes: NodeRef) -> None:
        """SIGSTOP: they are silent, and do not know it."""
        self._wait(self._cluster.pause(*nodes))

    def resume(self, *nodes: NodeRef) -> None:
        self._wait(self._cluster.resume(*nodes))

    def restart(self, *nodes: NodeRef) -> None:
        """Stop those that run, cleanly; start all of them; returns once they serve."""
        self._wait(self._cluster.restart(*nodes))

    def wipe(self, *nodes: NodeRef) -> None:
        """Throw away the data of nodes that do not run."""
        self._wait(self._cluster.wipe(*nodes))

    def heal(self, *, timeout: float = 60.0) -> None:
        """Resume whoever is paused, start whoever is down, and wait until every replica is in sync."""
        self._wait(self._cluster.heal(timeout=timeout))

    def wait_until_healthy(self, *, timeout: float = 60.0) -> None:
        """Until every broker serves and every replica of every partition is in sync."""
        self._wait(self._cluster.wait_until_healthy(timeout=timeout))

    # -- how

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._background is None:
            work.close()
            raise InvalidRequest("the cluster does not run: use it in a with statement, or start it")
        return self._background.call(work)

    def _let_go(self) -> None:
        atexit.unregister(self.stop)
        background, self._background = self._background, None
        if background is not None:
            background.release()
