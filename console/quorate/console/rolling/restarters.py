"""Who stops and starts the nodes: we do, in a local cluster; elsewhere the commands of an agent file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.command_agent import CommandAgent
from quorate.console.existing_cluster import existing_cluster
from quorate.console.rolling.safety import RollingNode
from quorate.errors import UnsupportedOperation
from quorate.node.interruption import uninterrupted

__all__ = ["AgentRestarter", "LocalRestarter", "Restarter"]


class Restarter(Protocol):
    @property
    def nodes(self) -> Sequence[RollingNode]: ...

    @property
    def bootstrap(self) -> str: ...

    async def restart(self, name: str) -> None:
        """By SIGTERM, so that it hands its leaders over. It may still be on its way up when this returns.

        Cancelled in between, it starts the node before it ends.
        """


class LocalRestarter:
    """Of a cluster that `quorate up` made. Nodes that were stopped by themselves stay so."""

    def __init__(self, directory: str) -> None:
        self._cluster = existing_cluster(directory)

    @property
    def nodes(self) -> Sequence[RollingNode]:
        return [node for node in self._cluster.nodes if not node.is_left_out]

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    async def restart(self, name: str) -> None:
        await self._cluster.restart(name)


class AgentRestarter:
    def __init__(self, path: str) -> None:
        self._agent = CommandAgent.from_file(path)
        if Ability.STOP not in self._agent.abilities:
            raise UnsupportedOperation(f"{path} has no command to stop a node", path=path)

    @property
    def nodes(self) -> Sequence[RollingNode]:
        return self._agent.nodes

    @property
    def bootstrap(self) -> str:
        return self._agent.bootstrap

    async def restart(self, name: str) -> None:
        await uninterrupted(self._stop_and_start(name))

    async def _stop_and_start(self, name: str) -> None:
        await self._agent.stop(name)
        await self._agent.start(name)
