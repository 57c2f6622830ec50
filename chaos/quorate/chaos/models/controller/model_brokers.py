"""Brokers of the controller's model: a process, a disk, and what the process believes.

Everything here is *below* the controller: logs are lists of entries, and leaders and followers do what the
replication rules ask of them (rules 7, 8, 13, 14, 16, 23), no more. In particular a leader proposes whoever
has caught up, fenced or not: to refuse that is the controller's part (rule 24).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.v1.controller_pb2 import AlterPartitionRequest

__all__ = ["Backup", "Entry", "Key", "Leading", "ModelBroker", "Proposal", "Replica", "View", "common_prefix"]


class Key(NamedTuple):
    """A partition; a recreated topic has another one."""

    topic_id: TopicId
    partition: PartitionId


class Entry(NamedTuple):
    leader_epoch: int
    number: int


@dataclass
class Replica:
    entries: list[Entry] = field(default_factory=list)
    #: so many of them survive a power loss
    synced: int = 0

    def cut(self, length: int) -> None:
        del self.entries[length:]
        self.synced = min(self.synced, length)


class View(NamedTuple):
    """A partition as one broker knows it."""

    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    min_isr: int
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    #: nothing counts before it is synced
    is_fsync: bool = False


class Proposal(NamedTuple):
    isr: frozenset[BrokerId]
    partition_epoch: int
    request: AlterPartitionRequest


@dataclass
class Leading:
    """What a leader knows in one leader epoch; forgotten with it (rule 7)."""

    leader_epoch: int
    #: where its log ended when the epoch began
    start: int
    high_watermark: int = 0
    #: follower -> (log end, broker epoch) of its last fetch
    ends: dict[BrokerId, tuple[int, int]] = field(default_factory=dict)
    #: in flight; counts into the maximal ISR until it is known to be settled (rules 13, 22)
    proposal: Proposal | None = None


class Backup(NamedTuple):
    directory: int
    noted_epoch: int
    has_marker: bool
    unnoted_incarnations: list[str]
    replicas: dict[Key, Replica]
    witness: int
    device_witness: int


class ModelBroker:
    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        # The disk.
        self.directory = 0
        self.noted_epoch = 0
        #: processes that began since then
        self.unnoted_incarnations: list[str] = []
        self.has_marker = False
        self.replicas: dict[Key, Replica] = {}
        #: the machine has not been restarted since the epoch was noted
        self.is_same_boot = True
        #: the number in its cache witness, and how much of it survives a loss of the page cache
        self.witness = 0
        self.synced_witness = 0
        #: the last number that the controller heard from this registration; 0: it heard none
        self.told_witness = 0
        #: in the same boot, and nobody has been told
        self.is_cache_lost = False
        #: the number in its device witness, which is on the device; heartbeats carry it
        self.device_witness = 0
        #: the last one that the controller heard from this registration
        self.told_device_witness = 0
        #: another directory than that of the last epoch that was noted, or an older state of it
        self.is_replaced = False
        #: partitions of which records may be lost, and the controller has not been told yet
        self.has_lost: set[Key] = set()
        #: to be reported with the next heartbeat or registration
        self.damaged: set[Key] = set()
        self.backup: Backup | None = None
        # The process.
        self.is_running = False
        self.incarnation = 0
        self.broker_epoch = 0
        #: was told that it is unfenced
        self.is_serving = False
        self.is_stopping = False
        #: may answer alone: it was heard a short time ago, and knows what was decided by then (rule 37)
        self.has_lease = False
        #: metadata offset that an answer to a heartbeat named and this broker has not applied yet
        self.lease_waits_for: int | None = None
        #: metadata is applied up to here
        self.applied = 0
        #: newer than ``applied``, from answers to AlterPartition
        self.replies: dict[Key, View] = {}
        self.leading: dict[Key, Leading] = {}
        #: reported -> neither led nor followed until the metadata up to here is known, when others lead
        self.quarantined: dict[Key, int] = {}

    def log(self, key: Key) -> Replica:
        return self.replicas.setdefault(key, Replica())

    def holds(self, key: Key, entries: list[Entry]) -> bool:
        replica = self.replicas.get(key)
        return not entries or (replica is not None and replica.entries[: len(entries)] == entries)

    def has_unsynced(self, key: Key) -> bool:
        replica = self.replicas.get(key)
        return replica is not None and replica.synced < len(replica.entries)

    def is_quarantined(self, key: Key) -> bool:
        return key in self.damaged or self.applied < self.quarantined.get(key, 0)

    def end_process(self) -> None:
        self.is_running = self.is_serving = self.is_stopping = False
        self.lose_lease()
        self.replies.clear()
        self.leading.clear()
        self.quarantined.clear()

    def renew_lease(self, metadata_offset: int) -> None:
        self.lease_waits_for = metadata_offset
        self.metadata_applied()

    def metadata_applied(self) -> None:
        if self.lease_waits_for is not None and self.applied >= self.lease_waits_for:
            self.has_lease, self.lease_waits_for = True, None

    def lose_lease(self) -> None:
        """Its time is over, or it has given it up."""
        self.has_lease, self.lease_waits_for = False, None

    def note_epoch(self) -> None:
        self.noted_epoch = self.broker_epoch
        self.unnoted_incarnations = []
        self.is_same_boot = True
        self.is_replaced = False

    def stop_cleanly(self) -> None:
        for replica in self.replicas.values():
            replica.synced = len(replica.entries)
        self.synced_witness = self.witness
        self.has_marker = True
        self.end_process()

    def back_up(self) -> None:
        self.backup = Backup(
            self.directory,
            self.noted_epoch,
            self.has_marker,
            list(self.unnoted_incarnations),
            copy.deepcopy(self.replicas),
            self.witness,
            self.device_witness,
        )

    def lose_directory(self) -> None:
        self.end_process()
        self.directory += 1
        self.noted_epoch = 0
        self.unnoted_incarnations = []
        self.has_marker = False
        self.witness = self.synced_witness = self.device_witness = 0
        self.is_replaced = True
        self.replicas = {}
        self.damaged.clear()

    def restore(self, backup: Backup) -> None:
        """An old copy of the directory, as if it were the current one."""
        self.end_process()
        self.directory, self.noted_epoch, self.has_marker = backup[:3]
        self.unnoted_incarnations = list(backup.unnoted_incarnations)
        self.replicas = copy.deepcopy(backup.replicas)
        self.witness = self.synced_witness = backup.witness
        self.device_witness = backup.device_witness
        self.is_replaced = True
        self.damaged.clear()


def common_prefix(one: list[Entry], other: list[Entry]) -> int:
    for position, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return position
    return min(len(one), len(other))
