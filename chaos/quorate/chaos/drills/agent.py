"""What a drill needs of whoever runs the cluster: how to kill, pause, start and isolate a node.

A drill speaks to this interface alone, so the same story is told with processes on this machine, with
containers, or with machines that are reached by ssh. No agent can do everything. Each says what it can, and a
drill that needs more is skipped with the reason, instead of being run without its fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quorate.chaos.faults.network import NetworkFaults
    from quorate.chaos.faults.powerloss import FaultyDisk

__all__ = ["Ability", "AgentNode", "ClusterAgent"]


class Ability(StrEnum):
    """Beside starting a node, which every agent can."""

    KILL = "kill -9 a node"
    STOP = "stop a node with SIGTERM"
    PAUSE = "pause and resume a node"
    WIPE = "empty a node's data directory"
    FILES = "read and damage a node's files"
    LOGS = "read what nodes have logged"
    ISOLATE = "cut a node off from all others"
    LINKS = "disturb single links between nodes"
    GROW = "add a broker"
    DISK = "decide what a node's disk takes and keeps"


@dataclass(frozen=True, slots=True)
class AgentNode:
    name: str
    id: int
    roles: tuple[str, ...]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles


class ClusterAgent(Protocol):
    """Nodes go by their names. Whatever is asked for has happened when the call returns."""

    @property
    def kind(self) -> str:
        """For the report: "processes on this machine"."""

    @property
    def abilities(self) -> frozenset[Ability]: ...

    def what_is_missing_for(self, abilities: Collection[Ability]) -> str:
        """Why it has none of these abilities, as a clause; empty: there is nothing to say."""

    @property
    def nodes(self) -> Sequence[AgentNode]: ...

    @property
    def is_temporary(self) -> bool:
        """The cluster is gone after the drill, with everything in it."""

    @property
    def facts(self) -> Mapping[str, str]:
        """For the report: settings, and what else matters."""

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""

    @property
    def network(self) -> NetworkFaults | None:
        """For ``Ability.LINKS``."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Inside, the cluster runs. What the agent has started or changed is undone on the way out."""

    async def discard(self) -> None:
        """Instead of ``running``: nobody needs it after all."""

    async def start(self, *names: str) -> None: ...

    async def kill(self, *names: str) -> None:
        """kill -9, of all of them before the first is waited for."""

    async def stop(self, *names: str) -> None: ...

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None: ...

    async def wipe(self, name: str) -> None:
        """Of a node that does not run."""

    async def isolate(self, name: str) -> None:
        """From every other node and from clients, until ``heal``."""

    async def heal(self) -> None: ...

    async def add_broker(self) -> str:
        """Started, too; returns its name."""

    def disk(self, name: str) -> FaultyDisk:
        """For ``Ability.DISK``."""

    def times_logged(self, event: str, *, node: str | None = None, about: str = "") -> int:
        """For ``Ability.LOGS``: how often the nodes have logged it, all together or one of them.

        ``about``: only where the entry has this in it.
        """

    def data_dir(self, name: str) -> str | None:
        """None: its files cannot be reached from here."""
