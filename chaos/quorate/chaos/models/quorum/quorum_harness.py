"""Whole quorums on simulated time, disks and network, with the real driver, journal and transport."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

from quorate.chaos.sim.clock import SimClock, Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.config import HostPort, VoterAddress
from quorate.errors import QuorumDamaged
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot
from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.quorum_config import QuorumConfig
from quorate.metadata.raft.ready import Role, SoftState
from quorate.metadata.raft.voters import NodeId

T = TypeVar("T")

DIRECTORY = "/data/quorum"
PORT = 9093


class Fatal(Exception):
    """Where a real process would have ended."""


class History:
    """What the quorum has committed, as all voters together have shown it."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.digests: dict[int, str] = {}
        self.installs = 0

    def applied(self, entry: Entry, digest: str) -> None:
        assert self.entries.setdefault(entry.index, entry) == entry, f"two entries at {entry.index}"
        assert self.digests.setdefault(entry.index, digest) == digest, f"two states at {entry.index}"


class HistoryMachine:
    """A state machine that remembers every command, and compares itself with all others as it goes."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.index = Index(0)
        self.digest = ""
        #: by index
        self.commands: dict[int, str] = {}
        self.soft_state: SoftState | None = None
        self.installs = 0

    def apply(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            assert entry.index == self.index + 1
            content = f"{self.digest}:{entry.index}:{entry.term}:{entry.kind}:".encode() + entry.data
            self.digest = hashlib.sha256(content).hexdigest()
            self.index = entry.index
            if entry.kind is EntryKind.COMMAND:
                self.commands[entry.index] = entry.data.decode()
            self._history.applied(entry, self.digest)

    async def take_snapshot(self) -> tuple[Index, bytes]:
        index = self.index
        state = {"index": index, "digest": self.digest, "commands": list(self.commands.items())}
        await asyncio.sleep(0.01)
        return index, json.dumps(state).encode()

    async def install_snapshot(self, snapshot: Snapshot) -> None:
        await asyncio.sleep(0.01)
        state = json.loads(snapshot.data)
        assert state["index"] == snapshot.id.index
        self.index, self.digest = Index(state["index"]), state["digest"]
        self.commands = dict(state["commands"])
        self.installs += 1
        self._history.installs += 1
        assert self._history.digests.get(self.index, self.digest) == self.digest

    def leadership_changed(self, soft_state: SoftState) -> None:
        self.soft_state = soft_state


class SimVoter:
    """One machine: its disk outlives its processes."""

    def __init__(self, world: SimQuorum, node_id: int) -> None:
        self._world = world
        self.node_id = NodeId(node_id)
        self.name = f"v{node_id}"
        self.disk = SimDisk(sync_delay_s=0.002)
        self.clock = SimClock(world.simulation.loop)
        self.quorum: Quorum | None = None
        self.machine = HistoryMachine(world.history)
        self.fatal: str | None = None
        self._server: SimServer | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.quorum is not None

    @property
    def is_leader(self) -> bool:
        return self.quorum is not None and self.quorum.status.role is Role.LEADER

    async def start(self) -> None:
        """Raises ``QuorumDamaged`` where the voter must not start."""
        assert not self.is_up
        await self._gone()
        self.fatal = None
        self.machine = HistoryMachine(self._world.history)
        transport = SimTransport(self._world.network, self.name)
        quorum = await Quorum.open(
            config=self._world.config(self.node_id),
            clock=self.clock,
            disk=self.disk,
            transport=transport,
            random_bytes=self._world.random.randbytes,
            on_fatal=self._die,
            state_machine=self.machine,
        )
        self._server = await transport.serve(f"{self.name}:{PORT}", quorum.services())
        self.quorum = quorum
        self._running = asyncio.create_task(quorum.run(), name=f"run-{self.name}")

    async def stop(self) -> None:
        """As an operator asks for it."""
        assert self.quorum is not None
        assert self._server is not None
        await self.quorum.close()
        await self._server.stop(0.1)
        self._collapse()
        await self._gone()

    async def kill(self, *, power_loss: bool = False, rng: random.Random | None = None) -> None:
        """kill -9, or the plug."""
        if power_loss:
            self.disk.power_loss(rng)
        else:
            self.disk.crash()
        self._collapse()
        await self._gone()

    def _collapse(self) -> None:
        """Nobody listens any more, and nobody is connected."""
        self.quorum = None
        if self._server is not None:
            self._server.kill()
        self._world.network.break_all_connections(self.name)
        if self._running is not None:
            self._running.cancel()

    async def _gone(self) -> None:
        if self._running is None:
            return
        running, self._running = self._running, None
        await asyncio.wait([running])
        if not running.cancelled() and (error := running.exception()) is not None and self.fatal is None:
            raise error

    def _die(self, reason: str) -> NoReturn:
        if self.fatal is None:
            self.fatal = reason
            self.disk.crash()
            self._collapse()
        raise Fatal(reason)


class SimQuorum:
    """A world with ``count`` voters that are configured to found a quorum."""

    def __init__(
        self, simulation: Simulation, count: int, *, snapshot_bytes: int = 1 << 30, entries_kept: int = 10_000
    ) -> None:
        self.simulation = simulation
        self.random = simulation.rng
        self.network = SimNetwork(simulation.loop, simulation.rng, break_after_s=2.0)
        self.history = History()
        self._snapshot_bytes = snapshot_bytes
        self._limits = Limits(entries_kept=entries_kept)
        self.configured = tuple(
            VoterAddress(node_id, HostPort(f"v{node_id}", PORT)) for node_id in range(1, count + 1)
        )
        self.voters = {node_id: SimVoter(self, node_id) for node_id in range(1, count + 1)}

    def config(self, node_id: NodeId) -> QuorumConfig:
        return QuorumConfig(
            node_id=node_id,
            directory=DIRECTORY,
            voters=self.configured,
            limits=self._limits,
            segment_bytes=4 << 10,
            snapshot_interval_bytes=self._snapshot_bytes,
        )

    def add_machine(self, node_id: int) -> SimVoter:
        """Configured with all the others; they do not know of it."""
        self.configured = (*self.configured, VoterAddress(node_id, HostPort(f"v{node_id}", PORT)))
        self.voters[node_id] = SimVoter(self, node_id)
        return self.voters[node_id]

    async def start(self) -> None:
        await asyncio.gather(*(voter.start() for voter in self.voters.values()))

    async def leader(self, *, other_than: SimVoter | None = None) -> SimVoter:
        """Waits for one that has committed something in its term."""
        while True:
            for voter in self.voters.values():
                if voter is other_than or not voter.is_leader:
                    continue
                state = voter.machine.soft_state
                if (
                    state is not None
                    and state.role is Role.LEADER
                    and voter.machine.index >= state.term_start
                ):
                    return voter
            await asyncio.sleep(0.01)

    async def propose(self, voter: SimVoter, command: str) -> Index:
        assert voter.quorum is not None
        proposal = voter.quorum.propose(command.encode(), term=voter.quorum.status.term)
        await proposal.committed()
        return proposal.index

    async def settled(self) -> None:
        """Waits until all that are up have applied the same."""
        while True:
            leader = await self.leader()
            assert leader.quorum is not None
            last = leader.quorum.status.last_index
            if all(voter.machine.index == last for voter in self.voters.values() if voter.is_up):
                return
            await asyncio.sleep(0.05)

    async def end(self) -> None:
        for voter in self.voters.values():
            await voter.kill()


def simulate(
    count: int,
    scenario: Callable[[SimQuorum], Awaitable[T]],
    *,
    seed: int = 1,
    snapshot_bytes: int = 1 << 30,
    entries_kept: int = 10_000,
    time_limit_s: float = 300.0,
) -> T:
    async def run(simulation: Simulation) -> T:
        world = SimQuorum(simulation, count, snapshot_bytes=snapshot_bytes, entries_kept=entries_kept)
        try:
            return await scenario(world)
        finally:
            await world.end()

    return run_simulation(run, seed=seed, time_limit_s=time_limit_s)


__all__ = ["DIRECTORY", "Fatal", "HistoryMachine", "QuorumDamaged", "SimQuorum", "SimVoter", "simulate"]
