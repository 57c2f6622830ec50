"""One node: a broker behind a transport, from start to stop.

Order matters at both ends. At the start, logs are recovered before the first address is opened, so
that a client that can connect is served. At the stop, addresses close first, then what waits is
answered, then logs are synced and closed, and the marker of a clean stop comes last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from quorate.broker.broker import Broker
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.core.transport import Server, Transport

__all__ = ["Node", "Surroundings"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a node needs of the world; the simulator supplies its own."""

    clock: Clock
    disk: Disk
    transport: Transport
    random_bytes: Callable[[int], bytes]
    #: ends the process at once, without cleaning up
    on_fatal: Callable[[str], NoReturn]


class Node:
    def __init__(self, config: NodeConfig, clock: Clock, broker: Broker, servers: Sequence[Server]) -> None:
        """For ``start``."""
        self._config = config
        self._clock = clock
        self._broker = broker
        self._servers = servers

    @classmethod
    async def start(cls, config: NodeConfig, surroundings: Surroundings) -> Node:
        """Returns once the node serves on every listener."""
        clock = surroundings.clock
        began = clock.monotonic()
        broker = await Broker.open(
            config,
            clock=clock,
            disk=surroundings.disk,
            random_bytes=surroundings.random_bytes,
            on_fatal=surroundings.on_fatal,
        )
        servers: list[Server] = []
        node = cls(config, clock, broker, servers)
        try:
            for listener in config.listeners:
                server = await surroundings.transport.serve(str(listener), broker.services())
                servers.append(server)
        except BaseException:
            await node.stop()
            raise
        log.info(
            "node_started",
            addresses=node.addresses,
            data_dir=config.data_dir,
            seconds=round(clock.monotonic() - began, 3),
        )
        return node

    @property
    def addresses(self) -> list[str]:
        """Where the node listens, with real ports."""
        return [server.address for server in self._servers]

    async def run(self, stop_requested: asyncio.Event) -> None:
        """Returns when a stop is asked for; raises when something that must not end has ended."""
        async with asyncio.TaskGroup() as tasks:
            maintenance = tasks.create_task(self._broker.maintain_forever(), name="maintenance")
            await stop_requested.wait()
            maintenance.cancel()

    async def stop(self) -> bool:
        """True if the next start need not recover anything."""
        log.info("node_stopping")
        for server in self._servers:
            await server.set_serving(serving=False)
        self._broker.release_waiting()
        grace_s = self._config.shutdown_grace_ms / 1000
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))
        is_clean = await self._broker.close()
        log.info("node_stopped", clean=is_clean)
        return is_clean
