"""Looks at a simulated cluster after every callback of its processes, and raises what must not be.

It reads the real objects and the simulated disks, and changes nothing: a run with it is the same, step by
step, as the run without it. ``examined`` counts what it has looked at; a run in which nothing was committed,
or nobody was ever down, proves little, and it shows there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from quorate.broker.hosted import topic_config_of
from quorate.chaos.checks.final_state import AcceptedLoss
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.broker_view import BrokerView
from quorate.chaos.invariants.compacted_log import CompactedLog
from quorate.chaos.invariants.controller_view import ControllerView
from quorate.chaos.invariants.demands import Demands, PartitionDemands
from quorate.chaos.invariants.metadata_watch import MetadataWatch
from quorate.chaos.invariants.partition_watch import PartitionWatch
from quorate.chaos.sim.process import SimProcess
from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    Offset,
    PartitionId,
    ReplicaKey,
    TopicId,
    TopicName,
    TopicPartition,
)
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage

__all__ = ["Observer"]


class _View:
    """One machine."""

    __slots__ = ("broker", "broker_image", "controller", "machine", "starts")

    def __init__(self, machine: SimMachine, broker: BrokerView | None) -> None:
        self.machine = machine
        self.broker = broker
        self.controller: ControllerView | None = None
        self.broker_image: MetadataImage | None = None
        self.starts = -1


class Observer:
    """``install`` it before the cluster starts, or make it then and call ``look`` yourself."""

    def __init__(self, cluster: SimCluster, demands: Demands | None = None) -> None:
        """``demands``: of the plan, if there is one; without, what the cluster calls required is."""
        self.examined: Counter[str] = Counter()
        #: told of every committed state of a partition that is seen, in order
        self.on_partition: Callable[[TopicPartition, PartitionImage], None] | None = None
        self._cluster = cluster
        self._demands = demands or Demands()
        self._metadata = MetadataWatch(self.examined, self._has_failed_replica)
        self._partitions: dict[ReplicaKey, PartitionWatch] = {}
        #: ids that a name ever had
        self._ids: dict[TopicName, set[TopicId]] = {}
        self._views: dict[str, _View] = {}
        #: of every process that ever did something; of clients that are processes there is nothing to see
        self._view_of: dict[SimProcess, _View | None] = {}
        #: of the cluster's machines, as counted when they were looked at last
        self._changes_seen = -1
        self._brokers: list[BrokerView] = []
        self._has_failed = False

    def install(self) -> None:
        self._cluster.simulation.loop.after_turn = self.look

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata that any node has, or had before it died."""
        return self._metadata.image

    # -- what has happened

    def look(self, process: SimProcess | None = None) -> None:
        """``process``: the one that has just done something; None: any may have. Raises ``Violation``."""
        # Once: when a run ends because of it, there is more to be seen, and to raise it would hide the first.
        if self._has_failed:
            return
        self.examined["looks"] += 1
        try:
            cluster = self._cluster
            if len(self._views) != len(cluster.machines):
                self._add_machines()
            if cluster.changes_of_machines != self._changes_seen:
                self._look_at_machines()
            if process is None:
                for view in self._views.values():
                    self._look_at(view)
                return
            try:
                found = self._view_of[process]
            except KeyError:
                found = self._view_of[process] = self._views.get(process.name.partition("#")[0])
            if found is not None:
                self._look_at(found)
        except BaseException:
            self._has_failed = True
            raise

    def acknowledged(self, partition: TopicPartition, offset: Offset) -> None:
        """A client was told with acks=all that its record stands at ``offset``."""
        ids = self._ids.get(partition.topic, set())
        # Which one of several topics of that name was meant, nobody can tell.
        if len(ids) != 1:
            return
        (topic_id,) = ids
        watch = self._partitions.get(ReplicaKey(topic_id, partition.partition))
        if watch is not None:
            watch.acknowledged(offset)

    def losses_of(self, partition: TopicPartition) -> tuple[AcceptedLoss, ...]:
        """What operators have given up of the topic that has that name now."""
        topic_id = self.image.topic_ids[partition.topic]
        return tuple(self._partitions[ReplicaKey(topic_id, partition.partition)].losses)

    def _add_machines(self) -> None:
        for name, machine in self._cluster.machines.items():
            if name not in self._views:
                broker = BrokerView(machine, self._partitions) if machine.config.is_broker else None
                self._views[name] = _View(machine, broker)
                if broker is not None:
                    self._brokers.append(broker)
        self._changes_seen = -1

    def _look_at_machines(self) -> None:
        self._changes_seen = self._cluster.changes_of_machines
        for broker in self._brokers:
            if not broker.is_as_before:
                broker.machine_changed(self._registered_epoch(broker))

    def _registered_epoch(self, broker: BrokerView) -> BrokerEpoch:
        registered = self._metadata.image.brokers.get(broker.broker_id)
        return BrokerEpoch(-1) if registered is None else registered.broker_epoch

    # -- one machine

    def _look_at(self, view: _View) -> None:
        """Past all properties, as everything that is done after every callback."""
        machine = view.machine
        if view.starts != machine.starts:
            view.starts = machine.starts
            view.controller = (
                ControllerView(machine, self._metadata) if machine.config.is_controller else None
            )
            view.broker_image = None
        node = machine.node
        if node is None:
            return
        controller = node._controller
        if controller is not None and view.controller is not None:
            image = view.controller.look(controller)
            if image is not None:
                self._saw_image(machine.name, image)
        broker = node._broker
        if broker is not None and view.broker is not None:
            replicas = broker._replicas
            if replicas._image is not None and replicas._image is not view.broker_image:
                view.broker_image = replicas._image
                self._saw_image(machine.name, replicas._image)
            view.broker.look(replicas._replicas)

    # -- the metadata

    def _has_failed_replica(self, broker_id: BrokerId, key: ReplicaKey) -> bool:
        watch = self._partitions.get(key)
        copy = None if watch is None else watch.copies.get(broker_id)
        return copy is not None and copy.is_excused

    def _saw_image(self, name: str, image: MetadataImage) -> None:
        before = self._metadata.saw_image(name, image)
        if before is None:
            return
        for topic_id in sorted(before.topics):
            if topic_id not in image.topics:
                self._forget_topic(before, topic_id)
        for key, partition in self._metadata.changed_partitions(before):
            topic = image.topics[key.topic_id]
            self._ids.setdefault(topic.name, set()).add(key.topic_id)
            watch = self._partitions.get(key)
            if watch is None:
                watch = self._partitions[key] = self._new_watch(image, topic, key.partition)
            watch.image_changed(partition)
            if self.on_partition is not None:
                self.on_partition(TopicPartition(topic.name, key.partition), partition)
        self._end_excuses(image)

    def _new_watch(self, image: MetadataImage, topic: TopicImage, number: PartitionId) -> PartitionWatch:
        """Whether a topic is compacted is decided when it is made: no plan changes it."""
        now_s = self._cluster.simulation.loop.time
        config = topic_config_of(self._cluster.brokers[0].config, image, topic)
        compacted = None
        if config.is_compacted:
            compacted = CompactedLog(now_s=now_s, delete_retention_s=config.delete_retention_ms / 1000)
        name = str(TopicPartition(topic.name, number))
        demands = PartitionDemands(self._demands, topic.name)
        return PartitionWatch(name, self.examined, now_s, compacted=compacted, demands=demands)

    def _end_excuses(self, image: MetadataImage) -> None:
        for broker in self._brokers:
            if broker.lost_in_epoch is None:
                continue
            registered = image.brokers.get(broker.broker_id)
            if (
                registered is not None
                and registered.broker_epoch > broker.lost_in_epoch
                and not registered.is_fenced
            ):
                broker.broker_is_back()

    def _forget_topic(self, before: MetadataImage, topic_id: TopicId) -> None:
        for partition in before.topics[topic_id].partitions:
            key = ReplicaKey(topic_id, partition.partition)
            self._partitions.pop(key, None)
            for broker in self._brokers:
                broker.forget(key)
