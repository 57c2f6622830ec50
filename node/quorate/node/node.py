"""A node: the roles that its configuration gives it, and a transport, from start to stop.

Order matters at both ends. At the start the addresses are opened first: a controller is needed by others, and
by the broker in the same process, long before that broker has recovered its logs; until then requests for
records are turned away, and health checks say so. At the stop the broker leaves first, while everybody can
still be asked to take over, then the controller hands its leadership on; then what waits is answered and
addresses close; logs are synced and closed, and the marker of a clean stop comes last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from quorate.broker.broker import Broker
from quorate.controller.controller import Controller
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig, NodeRole, VoterAddress
from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.core.transport import Server, Service, Transport
from quorate.node.metrics.insides import status_of_quorum
from quorate.node.stop_times import BROKERS_FIRST_S

__all__ = ["Node", "Surroundings"]

log = get_logger(__name__)

#: A controller that has closed has answered everybody; only streams are left, which do not end by themselves.
_CONTROLLER_GRACE_S: Final = 0.2
_LEAVING_CHECK_S: Final = 0.05


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
        self._is_stopping = False

    @classmethod
    async def start(cls, config: NodeConfig, surroundings: Surroundings) -> Node:
        """Returns once the node listens; what it has to recover and to join, it does in ``run``."""
        clock = surroundings.clock
        servers: list[Server] = []
        broker, controller = await _open_roles(config, surroundings)
        node = cls(config, clock, broker=broker, controller=controller, servers=servers)
        try:
            for listener in config.listeners:
                server = await surroundings.transport.serve(
                    str(listener), node._services(), serving=broker is None
                )
                servers.append(server)
        except BaseException:
            await node.stop()
            raise
        log.info(
            "node_listening",
            roles=[role.value for role in config.node_roles],
            addresses=node.addresses,
            data_dir=config.data_dir,
        )
        return node

    def _services(self) -> Sequence[Service]:
        """A node with both roles has the broker's AdminService: it knows about offsets, too."""
        services: dict[str, Service] = {}
        for role in (self._controller, self._broker):
            if role is not None:
                services |= {service.name: service for service in role.services()}
        return list(services.values())

    @property
    def broker(self) -> Broker | None:
        """For whoever looks on: drills and the simulator."""
        return self._broker

    @property
    def controller(self) -> Controller | None:
        return self._controller

    @property
    def addresses(self) -> list[str]:
        """Where the node listens, with real ports."""
        return [server.address for server in self._servers]

    async def missing(self) -> list[str]:
        """What keeps this node from doing all that it is there for, in sentences; empty: it is ready."""
        if self._is_stopping:
            return ["the node is stopping"]
        missing = [] if self._controller is None else _missing_to(self._controller)
        if self._broker is not None:
            missing += await self._broker.readiness.missing()
        return missing

    async def run(self, stop_requested: asyncio.Event, *, on_ready: Callable[[], None]) -> None:
        """Returns when a stop is asked for; raises when something that must not end has ended."""
        try:
            async with asyncio.TaskGroup() as tasks:
                work = []
                if self._controller is not None:
                    work.append(tasks.create_task(self._controller.run(), name="controller"))
                if self._broker is not None:
                    work.append(tasks.create_task(self._broker.run(self.addresses[0]), name="broker"))
                work.append(tasks.create_task(self._announce(on_ready), name="announce"))
                await stop_requested.wait()
                log.info("node_stopping")
                self._is_stopping = True
                await self._leave()
                for task in work:
                    task.cancel()
        except BaseExceptionGroup as errors:
            # One is enough to stop the node, and says why.
            raise _first(errors) from None

    async def _announce(self, on_ready: Callable[[], None]) -> None:
        began = self._clock.monotonic()
        if self._broker is not None:
            await self._broker.is_ready.wait()
            for server in self._servers:
                await server.set_serving(serving=True)
        log.info("node_ready", seconds=round(self._clock.monotonic() - began, 3))
        on_ready()

    async def _leave(self) -> None:
        """While others can still help: leaders of partitions move first, the controller goes last."""
        if self._broker is not None:
            await self._broker.leave()
        if self._controller is not None:
            await self._let_brokers_leave(self._controller)
        await self._close_controller()

    async def _let_brokers_leave(self, controller: Controller) -> None:
        """Whoever stops a whole cluster at once wants the brokers to stop cleanly: they need a quorum."""
        deadline = self._clock.monotonic() + BROKERS_FIRST_S
        while (
            _is_anybody_leaving(controller) and controller.hears_leader and self._clock.monotonic() < deadline
        ):
            await self._clock.sleep(_LEAVING_CHECK_S)

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


def _missing_to(controller: Controller) -> list[str]:
    """To hear the leader is not enough: whoever replaces voters one by one must not take the next one yet.

    What is its own comes first: nobody talks to a directory without a vote, and that it hears no leader
    would send people to look for one that is there.
    """
    status = status_of_quorum(controller)
    if not status.is_running:
        return [f"this controller takes no part in a quorum yet: {status.waiting_for or 'it is starting'}"]
    if status.key not in status.voters:
        return ["this controller has no vote in the quorum: its disk is another one, or it was not added yet"]
    if not controller.hears_leader:
        return ["no controller is known to be active"]
    if status.is_recovering:
        return ["this controller lost the end of its journal: it does not count until it has caught up"]
    return []


def _is_anybody_leaving(controller: Controller) -> bool:
    brokers = controller.image.brokers.values()
    return any(broker.is_shutting_down and not broker.is_fenced for broker in brokers)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _open_roles(
    config: NodeConfig, surroundings: Surroundings
) -> tuple[Broker | None, Controller | None]:
    config = _with_quorum(config)
    controller = broker = None
    if config.is_controller:
        controller = await Controller.open(
            config,
            clock=surroundings.clock,
            disk=surroundings.disk,
            transport=surroundings.transport,
            random_bytes=surroundings.random_bytes,
            on_fatal=surroundings.on_fatal,
        )
    if config.is_broker:
        try:
            broker = await Broker.open(
                config,
                clock=surroundings.clock,
                disk=surroundings.disk,
                transport=surroundings.transport,
                random_bytes=surroundings.random_bytes,
                on_fatal=surroundings.on_fatal,
            )
        except BaseException:
            if controller is not None:
                await controller.close()
            raise
    return broker, controller


def _with_quorum(config: NodeConfig) -> NodeConfig:
    """A broker without controllers is its own: a cluster of one node."""
    if config.controller_voters:
        return config
    address = config.advertised_address or config.listeners[0]
    return replace(
        config,
        node_roles=(NodeRole.CONTROLLER, NodeRole.BROKER),
        controller_voters=(VoterAddress(config.node_id, address),),
    )
