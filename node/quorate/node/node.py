"""A node: the roles that its configuration gives it, and a transport, from start to stop.

Order matters at both ends. At the start, all that a role has on disk is recovered before the first address is
opened, so that whoever can connect is served. At the stop, what waits is answered and addresses close first;
then logs are synced and closed, and the marker of a clean stop comes last. A controller is the exception: it
hands its leadership over while it can still be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from quorate.broker.broker import Broker
from quorate.controller.controller import Controller
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig, NodeRole
from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.core.transport import Server, Service, Transport
from quorate.errors import InvalidConfig
from quorate.metadata.raft.quorum_config import QUORUM_DIRECTORY_NAME

__all__ = ["Node", "Surroundings"]

log = get_logger(__name__)

#: A controller that has closed has answered everybody; only streams are left, which do not end by themselves.
_CONTROLLER_GRACE_S: Final = 0.2


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
    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        *,
        broker: Broker | None,
        controller: Controller | None,
        servers: Sequence[Server],
    ) -> None:
        """For ``start``."""
        self._config = config
        self._clock = clock
        self._broker = broker
        self._controller = controller
        self._servers = servers

    @classmethod
    async def start(cls, config: NodeConfig, surroundings: Surroundings) -> Node:
        """Returns once the node serves on every listener."""
        clock = surroundings.clock
        began = clock.monotonic()
        servers: list[Server] = []
        broker, controller = await _open_roles(config, surroundings)
        node = cls(config, clock, broker=broker, controller=controller, servers=servers)
        try:
            for listener in config.listeners:
                server = await surroundings.transport.serve(str(listener), node._services())
                servers.append(server)
        except BaseException:
            await node.stop()
            raise
        log.info(
            "node_started",
            roles=[role.value for role in config.node_roles],
            addresses=node.addresses,
            data_dir=config.data_dir,
            seconds=round(clock.monotonic() - began, 3),
        )
        return node

    def _services(self) -> Sequence[Service]:
        services: list[Service] = []
        for role in (self._controller, self._broker):
            if role is not None:
                services += role.services()
        return services

    @property
    def addresses(self) -> list[str]:
        """Where the node listens, with real ports."""
        return [server.address for server in self._servers]

    async def run(self, stop_requested: asyncio.Event) -> None:
        """Returns when a stop is asked for; raises when something that must not end has ended."""
        async with asyncio.TaskGroup() as tasks:
            work = []
            if self._broker is not None:
                work.append(tasks.create_task(self._broker.maintain_forever(), name="maintenance"))
            if self._controller is not None:
                work.append(tasks.create_task(self._controller.run(), name="controller"))
            await stop_requested.wait()
            log.info("node_stopping")
            await self._close_controller()
            for task in work:
                task.cancel()

    async def stop(self) -> bool:
        """True if the next start need not recover anything."""
        await self._close_controller()
        for server in self._servers:
            await server.set_serving(serving=False)
        if self._broker is not None:
            self._broker.release_waiting()
        grace_s = _CONTROLLER_GRACE_S if self._broker is None else self._config.shutdown_grace_ms / 1000
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))
        # A controller's journal is synced with every change: it has no other kind of stop.
        is_clean = True if self._broker is None else await self._broker.close()
        log.info("node_stopped", clean=is_clean)
        return is_clean

    async def _close_controller(self) -> None:
        controller, self._controller = self._controller, None
        if controller is not None:
            await controller.close()


async def _open_roles(
    config: NodeConfig, surroundings: Surroundings
) -> tuple[Broker | None, Controller | None]:
    if set(config.node_roles) == {NodeRole.BROKER, NodeRole.CONTROLLER}:
        raise InvalidConfig(
            "node.roles: a node that is both controller and broker is not there yet; run two nodes",
            key="node.roles",
        )
    if NodeRole.BROKER in config.node_roles:
        if surroundings.disk.exists(f"{config.data_dir}/{QUORUM_DIRECTORY_NAME}"):
            raise InvalidConfig(
                f"data.dir: {config.data_dir} belongs to a controller; give the broker one of its own",
                key="data.dir",
            )
        if config.controller_voters:
            raise InvalidConfig(
                "controller.voters: a broker does not join a quorum yet; without it, this one runs by itself",
                key="controller.voters",
            )
        broker = await Broker.open(
            config,
            clock=surroundings.clock,
            disk=surroundings.disk,
            random_bytes=surroundings.random_bytes,
            on_fatal=surroundings.on_fatal,
        )
        return broker, None
    controller = await Controller.open(
        config,
        clock=surroundings.clock,
        disk=surroundings.disk,
        transport=surroundings.transport,
        random_bytes=surroundings.random_bytes,
        on_fatal=surroundings.on_fatal,
    )
    return None, controller
