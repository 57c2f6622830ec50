"""What a simulated cluster may lose now, by the fault model that the project states.

Processes may die and links may fail without limit. Data is another matter: of a partition's replicas, MinISR
- 1 may at the same time have lost what they had not synced, or their disk. A loss counts until the broker is
back in every ISR, as the new process itself knows it: what others know may be from before the loss. What is
synced survives every power failure.

MinISR is the smallest that the run ever uses. A replica that is just being added does not count: what was
committed without it is not on it. A change of MinISR voids the ELR (rule 29): while fewer than MinISR are in
sync after it, only those are certain to be complete, and one of them has to keep what it has. So it is not
asked for where all who run have lost something, as nobody may have noticed yet, and from the moment at which
it is asked for the ELR counts no more.

Some losses cannot be seen to be repaired: a bit that rotted in a file that nobody has read, or a page that
the kernel takes for written and the device does not have. They count to the end of the run. And while a disk
is being harmed, a process on it that is in sync may be the next one to be told of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.plan import TopicPlan
from quorate.chaos.cluster.view import partitions_of
from quorate.core.config import Durability
from quorate.core.ids import BrokerId
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.metadata.topic_settings import min_insync_replicas_of

__all__ = ["FaultBudget"]


@dataclass(frozen=True, slots=True)
class _Loss:
    #: how often the machine's process had been started
    starts: int
    #: also what was synced
    is_of_disk: bool
    is_lasting: bool


class FaultBudget:
    """``image``: the newest committed metadata; not that of a controller that may be behind."""

    def __init__(
        self, cluster: SimCluster, topics: Sequence[TopicPlan], image: Callable[[], MetadataImage]
    ) -> None:
        self._cluster = cluster
        self._image = image
        self._min_isr = {topic.name: topic.min_insync_replicas for topic in topics}
        self._synced = {topic.name for topic in topics if topic.durability == Durability.FSYNC}
        self._losses: dict[str, _Loss] = {}
        #: machines that go on losing
        self._harmed: set[str] = set()
        #: topics for which a change of MinISR is under way, or may be
        self._changing: Counter[str] = Counter()

    def no_longer_synced(self, topic: str) -> None:
        """Its durability was changed: from here on what it acknowledges may not be on any device."""
        self._synced.discard(topic)

    @property
    def is_everything_synced(self) -> bool:
        return len(self._synced) == len(self._min_isr) and all(
            self._is_synced(name.topic, partition) for name, partition in partitions_of(self._image())
        )

    @contextmanager
    def changing_min_isr(self, topic: str) -> Iterator[bool]:
        """Whether it may be changed. If an error ends it, it may be carried out at any time after."""
        self._forget_what_is_restored()
        lost = {self._cluster.machine(name).config.node_id for name in self._losses}
        self._changing[topic] += 1
        yield all(
            any(self._is_running(each) and each not in lost for each in partition.isr)
            for name, partition in partitions_of(self._image())
            if name.topic == topic
        )
        self._changing[topic] -= 1

    def spend_unsynced(self, machine: SimMachine) -> bool:
        """Whether the machine may lose its power now; if so, it counts as having lost it."""
        return self._spend(machine, is_of_disk=False, is_lasting=False)

    def spend_disk(self, machine: SimMachine, *, is_lasting: bool = False) -> bool:
        """Whether it may lose what is on its disk, or some of it."""
        return self._spend(machine, is_of_disk=True, is_lasting=is_lasting)

    @contextmanager
    def harming(self, machine: SimMachine, has_harmed: Callable[[], bool]) -> Iterator[None]:
        """What was spent stays spent; if it has harmed, until a process that starts afterwards is in sync."""
        self._harmed.add(machine.name)
        yield
        self._harmed.discard(machine.name)
        if has_harmed():
            self._losses[machine.name] = replace(self._losses[machine.name], starts=machine.starts)

    def _spend(self, machine: SimMachine, *, is_of_disk: bool, is_lasting: bool) -> bool:
        self._forget_what_is_restored()
        number = machine.config.node_id
        for topic_partition, partition in partitions_of(self._image()):
            is_exempt = not is_of_disk and self._is_synced(topic_partition.topic, partition)
            if number not in partition.replicas or is_exempt:
                continue
            lost = self._lost_without(machine, topic_partition.topic, partition)
            if len(lost) >= self._room(topic_partition.topic, partition):
                return False
            complete = {*partition.isr, *partition.elr}
            if self._changing[topic_partition.topic]:
                # When the change comes, the dead may have been taken out of the ISR.
                complete = {each for each in partition.isr if self._is_running(each)}
            if number in complete and complete.issubset({number, *lost}):
                return False
        before = self._losses.get(machine.name)
        self._losses[machine.name] = _Loss(
            machine.starts,
            is_of_disk or (before is not None and before.is_of_disk),
            is_lasting or (before is not None and before.is_lasting),
        )
        return True

    def _is_running(self, broker_id: BrokerId) -> bool:
        return any(each.is_running for each in self._cluster.brokers if each.config.node_id == broker_id)

    def _is_synced(self, topic: str, partition: PartitionImage) -> bool:
        """After an unclean election not before the metadata says so again."""
        return topic in self._synced and (partition.is_synced or not partition.unclean_leader_epochs)

    def _room(self, topic: str, partition: PartitionImage) -> int:
        """How many replicas may have lost something."""
        settled = len(partition.replicas) - len(partition.adding_replicas)
        # Of a topic that is in no plan, the group's own, nobody changes it.
        min_isr = self._min_isr.get(topic) or min_insync_replicas_of(self._image(), partition)
        return min(min_isr, settled) - 1

    def _lost_without(self, machine: SimMachine, topic: str, partition: PartitionImage) -> set[BrokerId]:
        """Which other replicas have."""
        numbers = {
            self._cluster.machine(name).config.node_id
            for name, loss in self._losses.items()
            if name != machine.name and (loss.is_of_disk or not self._is_synced(topic, partition))
        }
        return numbers.intersection(partition.replicas)

    def _forget_what_is_restored(self) -> None:
        for name, loss in list(self._losses.items()):
            if name in self._harmed or loss.is_lasting:
                continue
            if self._is_restored(self._cluster.machine(name), loss):
                del self._losses[name]

    def _is_restored(self, machine: SimMachine, loss: _Loss) -> bool:
        broker = machine.broker
        if broker is None or machine.starts == loss.starts or not machine.is_ready:
            return False
        number = machine.config.node_id
        held = {replica.topic_partition: replica for replica in broker.replicas}
        for topic_partition, partition in partitions_of(self._image()):
            if number not in partition.replicas:
                continue
            replica = held.get(topic_partition)
            if replica is None or replica.state is None or number not in replica.state.image.isr:
                return False
        return True
