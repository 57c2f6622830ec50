"""All nodes of a run, those that vote and those that could, and their disks, also the ones that are gone."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.chaos.raft.node import SimulatedNode, Surroundings
from quorate.chaos.raft.trace import WORLD
from quorate.chaos.raft.voter_disk import VoterDisk
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.ready import HardState
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters

__all__ = ["Cluster", "founding_voters"]


def founding_voters(count: int) -> Voters:
    return Voters(tuple(_voter(NodeId(number), _directory_id(number, 0)) for number in range(1, count + 1)))


def _directory_id(node_id: int, formatted: int) -> DirectoryId:
    return DirectoryId(f"{'abcdefghij'[node_id]}{formatted}")


def _voter(node_id: NodeId, directory_id: DirectoryId) -> Voter:
    return Voter(VoterKey(node_id, directory_id), f"node-{node_id}:9093")


class Cluster:
    def __init__(self) -> None:
        self.nodes: dict[NodeId, SimulatedNode] = {}
        #: every directory there ever was. One that was wiped stays as it was then: a leader may hear later,
        #: and rightly count, what it had acknowledged
        self._disks: dict[VoterKey, VoterDisk] = {}
        self._formatted: dict[NodeId, int] = {}
        self._surroundings: Surroundings | None = None

    def build(self, surroundings: Surroundings, founding: Voters, spares: int) -> None:
        self._surroundings = surroundings
        for number in range(1, len(founding) + spares + 1):
            node_id = NodeId(number)
            is_founder = founding.by_node_id(node_id) is not None
            disk = self._format(node_id, founding if is_founder else Voters(()))
            node = SimulatedNode(node_id, disk, surroundings)
            self.nodes[node_id] = node
            surroundings.links.connect(node_id, node.receive)

    def note(self, text: str) -> None:
        assert self._surroundings is not None
        if self._surroundings.trace is not None:
            self._surroundings.trace.note(WORLD, text)

    # --- looking --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SimulatedNode]:
        return iter(self.nodes.values())

    def running(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.is_up and not node.is_paused]

    def leaders(self) -> list[SimulatedNode]:
        """Those that believe to lead; during a change there may be several, of different terms."""
        return [node for node in self.nodes.values() if node.is_leader]

    def newest_leader(self) -> SimulatedNode | None:
        return max(self.leaders(), key=lambda node: node.term, default=None)

    def voter(self, node: SimulatedNode) -> Voter:
        return _voter(node.node_id, node.disk.directory_id)

    def is_wiped(self, key: VoterKey) -> bool:
        """The directory that this key names is no more."""
        return self.nodes[key.node_id].key != key

    def is_recovering(self, key: VoterKey) -> bool:
        return self._disks[key].hard_state.is_recovering

    def may_be_counted(self, key: VoterKey, index: Index, term: Term) -> bool:
        disk = self._disks.get(key)
        return disk is not None and disk.may_be_counted(index, term)

    def last_durable(self, key: VoterKey) -> Index:
        return self._disks[key].last_index

    def hard_state(self, key: VoterKey) -> HardState:
        return self._disks[key].hard_state

    # --- doing ----------------------------------------------------------------------------------------

    def wipe(self, node: SimulatedNode) -> None:
        """The node has an empty disk. It was founded long ago, so it waits to be told who the voters are."""
        assert not node.is_up
        node.disk = self._format(node.node_id, Voters(()))
        self.note(f"node {node.node_id} is wiped, its directory is now {node.disk.directory_id}")

    def _format(self, node_id: NodeId, founding: Voters) -> VoterDisk:
        formatted = self._formatted.get(node_id, 0)
        self._formatted[node_id] = formatted + 1
        disk = VoterDisk(_directory_id(node_id, formatted), founding)
        self._disks[VoterKey(node_id, disk.directory_id)] = disk
        return disk
