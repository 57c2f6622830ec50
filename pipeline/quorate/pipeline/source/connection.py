"""The way from a Spark process to the cluster: one for each process and cluster, opened when first needed.

Readers and writers are pickled, and Python workers are forked and used for many tasks: so no object of the
data source holds a connection, they all ask here. A child that was forked opens its own.

The lean transport, not grpcio: an executor's Python starts without loading grpcio, and spends less on each
byte. Both speak gRPC, nodes cannot tell them apart.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from quorate.core.plain_structlog import import_plain_structlog

# Only processes that Spark starts for a query come here, and a query waits for each of them.
import_plain_structlog()

from quorate.client.background import BackgroundLoop  # noqa: E402
from quorate.client.cluster import ClusterView  # noqa: E402
from quorate.client.transport import client_transport  # noqa: E402
from quorate.core.clock import Clock, SystemClock  # noqa: E402
from quorate.core.config import RpcTransport  # noqa: E402

__all__ = ["Connection", "connection_to"]

T = TypeVar("T")

#: A process talks to a few clusters at most; more of them are a program that leaks.
_CONNECTIONS_MAX: Final = 16

_guard = threading.Lock()
_open: dict[tuple[int, tuple[str, ...]], Connection] = {}


class Connection:
    """What is known of a cluster, and the thread that talks to it."""

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        self.bootstrap = bootstrap
        self.clock: Clock = SystemClock()
        self.rng = random.Random()
        self._background = BackgroundLoop.acquire()
        self.cluster = self._background.call(self._open())

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """On the connection's own loop; the caller waits."""
        return self._background.call(work, timeout_s=timeout_s)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """On the connection's own loop, while the caller does something else."""
        return asyncio.run_coroutine_threadsafe(work, self._background.loop)

    def close(self) -> None:
        try:
            self._background.call(self.cluster.close())
        finally:
            self._background.release()

    async def _open(self) -> ClusterView:
        transport = client_transport(RpcTransport.LEAN)
        return ClusterView(transport, self.bootstrap, clock=self.clock, rng=self.rng)


def connection_to(bootstrap: tuple[str, ...]) -> Connection:
    """The one of this process; it lives as long as the process, or until many others were opened."""
    key = os.getpid(), bootstrap
    with _guard:
        found = _open.get(key)
        if found is None:
            found = _open[key] = Connection(bootstrap)
            # A worker's daemon collects garbage after each task. What was imported and opened up to here is
            # none: left out of it, a task costs a tenth.
            gc.freeze()
            while len(_open) > _CONNECTIONS_MAX:
                oldest = next(iter(_open))
                forgotten = _open.pop(oldest)
                if oldest[0] == os.getpid():  # a parent's belongs to the parent
                    forgotten.close()
        return found


def _forget_the_parents() -> None:
    global _guard
    _guard = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
