"""Processes on this machine: everything can be done to them.

What costs something is set up only for stories that ask for it: a network that can be cut stands between the
nodes, a disk that forgets stands below them, and both make them slower than they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from quorate.chaos.drills.agent import Ability, AgentNode
from quorate.chaos.drills.story import Layout
from quorate.chaos.faults.network import LocalNetwork, NetworkKind
from quorate.chaos.faults.powerloss import FaultyDisk, why_no_shim
from quorate.errors import Unavailable
from quorate.node.local_cluster import LocalCluster

__all__ = ["LocalAgent"]

_CONTROLLERS: Final = 3
_ALWAYS: Final = frozenset(
    {Ability.KILL, Ability.STOP, Ability.PAUSE, Ability.WIPE, Ability.FILES, Ability.LOGS, Ability.GROW}
)
_BY_NETWORK: Final = frozenset({Ability.ISOLATE, Ability.LINKS})


class LocalAgent:
    kind: Final = "processes on this machine"

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        seed: int,
        uses: Collection[Ability] = (),
        network_kind: NetworkKind | None = None,
        is_temporary: bool = True,
    ) -> None:
        """A cluster that was made for the drill and not started yet; ``uses``: what is to be set up.

        Not temporary: one that runs already, and goes on when the drill is over.
        """
        self.cluster = cluster
        self.is_temporary = is_temporary
        self.network: LocalNetwork | None = None
        self._seed = seed
        self._uses = frozenset(uses)
        self._network_kind = network_kind
        self._disks: dict[str, FaultyDisk] = {}

    @classmethod
    def create(
        cls,
        layout: Layout,
        *,
        seed: int,
        brokers: int | None = None,
        settings: Mapping[str, str] | None = None,
        uses: Collection[Ability] = (),
        network_kind: NetworkKind | None = None,
    ) -> LocalAgent:
        """In a temporary directory. What is asked for here wins over what the story would choose.

        ``seed``: of what its network loses.
        """
        cluster = LocalCluster.create(
            controllers=_CONTROLLERS,
            brokers=layout.brokers if brokers is None else brokers,
            is_combined=layout.is_combined,
            settings={**layout.settings, **(settings or {})},
        )
        return cls(cluster, seed=seed, uses=uses, network_kind=network_kind)

    @classmethod
    def attach(cls, cluster: LocalCluster) -> LocalAgent:
        """To one that somebody runs, with `quorate up`. Nodes that are up keep their network and disks."""
        # Nothing is left to chance: its network is its own.
        return cls(cluster, seed=0, is_temporary=False)

    @property
    def abilities(self) -> frozenset[Ability]:
        if not self.is_temporary:
            return _ALWAYS
        return _ALWAYS | _BY_NETWORK | (frozenset() if why_no_shim() else {Ability.DISK})

    def what_is_missing_for(self, abilities: Collection[Ability]) -> str:  # noqa: ARG002  # it depends on the machine
        return ""

    @property
    def nodes(self) -> Sequence[AgentNode]:
        return [AgentNode(node.name, node.id, node.roles) for node in self.cluster.nodes]

    @property
    def facts(self) -> Mapping[str, str]:
        settings = [f"{key}={value}" for key, value in self.cluster.state.settings.items()]
        return {"settings": ", ".join(settings) or "as they come"}

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if not self.is_temporary:
            yield
            return
        try:
            await self._set_up()
        except BaseException:
            await self.cluster.dispose()
            raise
        try:
            async with self.cluster:
                yield
        finally:
            # Last: nodes that are asked to stop still have to reach one another.
            if self.network is not None:
                await self.network.close()

    async def _set_up(self) -> None:
        if Ability.DISK in self._uses & self.abilities:
            for name in self.cluster.names:
                self._put_on_a_disk(name)
        if self._uses & _BY_NETWORK:
            self.network = await LocalNetwork.open(self.cluster, seed=self._seed, kind=self._network_kind)

    def _put_on_a_disk(self, name: str) -> None:
        self._disks[name] = disk = FaultyDisk(self.cluster.data_dir(name))
        self.cluster.surround(name, environment=disk.environment())

    async def discard(self) -> None:
        if self.is_temporary:
            await self.cluster.dispose()

    async def start(self, *names: str) -> None:
        await self.cluster.start(names)

    async def kill(self, *names: str) -> None:
        await self.cluster.kill(*names)

    async def stop(self, *names: str) -> None:
        killed = await self.cluster.stop(names)
        if killed:
            raise Unavailable(f"asked to stop, {', '.join(killed)} did not end and had to be killed")

    async def pause(self, name: str) -> None:
        await self.cluster.pause(name)

    async def resume(self, name: str) -> None:
        self.cluster.resume(name)

    async def wipe(self, name: str) -> None:
        self.cluster.wipe(name)

    async def isolate(self, name: str) -> None:
        assert self.network is not None, "the story says that it isolates"
        await self.network.isolate(name)

    async def heal(self) -> None:
        if self.network is not None:
            await self.network.heal()

    async def add_broker(self) -> str:
        name = self.cluster.add_broker()
        if self._disks:
            self._put_on_a_disk(name)
        if self.network is not None:
            await self.network.admit(self.cluster, name)
        await self.cluster.start([name])
        return name

    def disk(self, name: str) -> FaultyDisk:
        return self._disks[name]

    def times_logged(self, event: str, *, node: str | None = None, about: str = "") -> int:
        # As it stands in a line of JSON; what a process says to people before it ends is none.
        sign = f'"event": "{event}"'
        count = 0
        for name in self.cluster.names if node is None else (node,):
            with open(self.cluster.log_file(name), encoding="utf-8", errors="replace") as file:
                count += sum(sign in line and about in line for line in file)
        return count

    def data_dir(self, name: str) -> str:
        return self.cluster.data_dir(name)
