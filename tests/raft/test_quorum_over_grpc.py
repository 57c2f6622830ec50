"""A quorum on real disks and real connections, in one process."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import NoReturn

from quorate.chaos.models.quorum.quorum_harness import History, HistoryMachine
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.config import HostPort, VoterAddress
from quorate.core.os_disk import OsDisk
from quorate.core.transport import Server
from quorate.metadata.raft.entries import Index
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.quorum_config import QuorumConfig
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.voters import NodeId


def _fatal(reason: str) -> NoReturn:
    raise AssertionError(reason)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Node:
    def __init__(self, config: QuorumConfig, disk: OsDisk, history: History) -> None:
        self._config = config
        self._disk = disk
        self._history = history
        self.machine = HistoryMachine(history)
        self.quorum: Quorum | None = None
        self._server: Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.machine = HistoryMachine(self._history)
        transport = client_transport()
        self.quorum = await Quorum.open(
            config=self._config,
            clock=SystemClock(),
            disk=self._disk,
            transport=transport,
            random_bytes=os.urandom,
            on_fatal=_fatal,
            state_machine=self.machine,
        )
        self._server = await transport.serve(self._config.own_address, self.quorum.services())
        self._running = asyncio.create_task(self.quorum.run())

    async def stop(self) -> None:
        assert self.quorum is not None
        assert self._server is not None
        assert self._running is not None
        quorum, self.quorum = self.quorum, None
        await quorum.close()
        await self._running
        # Longer than the test may take: no stream of another voter is waited for.
        await self._server.stop(3_600)


async def _leader(nodes: list[Node]) -> Quorum:
    while True:
        for node in nodes:
            state = node.machine.soft_state
            if node.quorum is None or state is None or state.role is not Role.LEADER:
                continue
            if node.machine.index >= state.term_start:
                return node.quorum
        await asyncio.sleep(0.01)


async def _applied(node: Node, index: Index) -> None:
    while True:
        if node.machine.index >= index:
            return
        await asyncio.sleep(0.01)


async def _has_snapshot(directory: Path) -> None:
    """Taken beside everything else: who is stopped before that has none to begin with."""
    while True:
        if any(name.endswith(".snapshot") for name in os.listdir(directory)):
            return
        await asyncio.sleep(0.01)


async def _propose(quorum: Quorum, *commands: bytes) -> None:
    proposals = [quorum.propose(command, term=quorum.status.term) for command in commands]
    await asyncio.gather(*(proposal.committed() for proposal in proposals))


async def test_quorum_founds_commits_hands_over_and_takes_a_voter_back(tmp_path: Path) -> None:
    voters = tuple(
        VoterAddress(node_id, HostPort("127.0.0.1", port)) for node_id, port in enumerate(_free_ports(3), 1)
    )
    disk = OsDisk(sync_threads=4)
    history = History()
    configs = [
        QuorumConfig(
            node_id=NodeId(voter.node_id),
            directory=str(tmp_path / str(voter.node_id)),
            voters=voters,
            snapshot_interval_bytes=5_000,
        )
        for voter in voters
    ]
    nodes = [Node(config, disk, history) for config in configs]
    async with asyncio.timeout(30):
        await asyncio.gather(*(node.start() for node in nodes))
        first = await _leader(nodes)
        await _propose(first, *(b"%d" % number for number in range(300)))
        stopped = next(node for node in nodes if node.quorum is first)
        await _has_snapshot(tmp_path / str(first.status.key.node_id))
        await stopped.stop()
        second = await _leader(nodes)
        await _propose(second, b"while one is away")
        await stopped.start()
        last = second.status.last_index
        await asyncio.gather(*(_applied(node, last) for node in nodes))
        assert len({node.machine.digest for node in nodes}) == 1
        assert stopped.machine.installs == 1
        await second.read_barrier()
        for node in nodes:
            await node.stop()
    disk.close()
