"""Emptying a broker for good: its replicas move to others, a bounded number at a time, then it is forgotten.

The request is asked again and again, by a person or by the command line, until the answer says that the
broker is gone. Each time it starts as many moves as there is room for, and tells how far it is; nothing is
kept between two requests except what stands in the metadata: that the broker is being emptied, and the
moves. What has no leader waits, since there is nobody to copy from; whoever asks is told which partitions
those are, because without one that comes back, or is recovered, it would be for ever.

Each replica goes to the broker that suits best: in a rack where the partition has fewest replicas, then one
that holds least of the same topic, then one that holds least of all.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Final

from quorate.controller.brokers import broker_change, find_broker, unregister_broker
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Elections, topics_in_order
from quorate.controller.placement import BrokerLoads, can_take_replicas, rack_of
from quorate.controller.reassignment import cancel_move, is_reassigning, start_move
from quorate.core.ids import BrokerId, TopicId
from quorate.errors import NotEnoughReplicas, UnsafeReassignment
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from quorate.v1 import admin_pb2

__all__ = ["MOVES_AT_ONCE_MAX", "OFFLINE_NAMED_MAX", "decommission_broker"]

#: More would take longer for each, and bring none to its end before the others.
MOVES_AT_ONCE_MAX: Final = 50
OFFLINE_NAMED_MAX: Final = 20


def decommission_broker(
    image: MetadataImage, request: admin_pb2.DecommissionBrokerRequest
) -> Decision[admin_pb2.DecommissionBrokerResponse]:
    broker = find_broker(image, request.broker_id)
    held = [
        partition
        for topic in topics_in_order(image)
        for partition in topic.partitions
        if broker.broker_id in partition.replicas
    ]
    moving = [partition for partition in held if broker.broker_id in partition.removing_replicas]
    if request.cancel:
        return _cancel(image, broker, held, moving)
    if not held and broker.is_fenced:
        gone = unregister_broker(image, broker.broker_id)
        return Decision(gone.records, admin_pb2.DecommissionBrokerResponse(is_removed=True), gone.events)
    return _continue(image, broker, held, moving)


def _continue(
    image: MetadataImage, broker: BrokerImage, held: list[PartitionImage], moving: list[PartitionImage]
) -> Decision[admin_pb2.DecommissionBrokerResponse]:
    elections = Elections(image)
    substitutes = _Substitutes(image, broker)
    started = 0
    stuck: PartitionImage | None = None
    for partition in held:
        if len(moving) + started >= MOVES_AT_ONCE_MAX:
            break
        if is_reassigning(partition) or partition.leader == NO_LEADER:
            # It has to end, or find a leader to copy from; a later request comes back to it.
            continue
        target = substitutes.target_for(partition)
        if target is None:
            stuck = partition
            continue
        start_move(elections, image, partition, target)
        started += 1
    if stuck is not None and not moving and not started:
        raise _nowhere_to_go(image, broker, stuck)
    records = list(elections.records)
    events = list(elections.events)
    if not broker.is_draining:
        records.insert(0, broker_change(broker, is_draining=True))
        events.append(
            ControllerEvent("broker_decommissioning", {"broker_id": broker.broker_id, "replicas": len(held)})
        )
    offline = [partition for partition in held if partition.leader == NO_LEADER]
    response = admin_pb2.DecommissionBrokerResponse(
        remaining_replica_count=len(held),
        moving_count=len(moving) + started,
        offline_count=len(offline),
        offline_partitions=[_name_of(image, partition) for partition in offline[:OFFLINE_NAMED_MAX]],
    )
    return Decision(tuple(records), response, tuple(events))


def _cancel(
    image: MetadataImage, broker: BrokerImage, held: list[PartitionImage], moving: list[PartitionImage]
) -> Decision[admin_pb2.DecommissionBrokerResponse]:
    elections = Elections(image)
    cancelled = 0
    for partition in moving:
        # One that cannot be called off safely goes on to its end; its replica has moved then.
        with contextlib.suppress(UnsafeReassignment):
            cancel_move(elections, image, partition)
            cancelled += 1
    records = list(elections.records)
    events = list(elections.events)
    if broker.is_draining:
        records.insert(0, broker_change(broker, is_draining=False))
        events.append(ControllerEvent("broker_decommissioning_cancelled", {"broker_id": broker.broker_id}))
    response = admin_pb2.DecommissionBrokerResponse(
        remaining_replica_count=len(held), moving_count=len(moving) - cancelled
    )
    return Decision(tuple(records), response, tuple(events))


def _name_of(image: MetadataImage, partition: PartitionImage) -> admin_pb2.PartitionName:
    topic = image.topics[partition.topic_id]
    return admin_pb2.PartitionName(topic=topic.name, partition=partition.partition)


def _nowhere_to_go(image: MetadataImage, broker: BrokerImage, partition: PartitionImage) -> NotEnoughReplicas:
    name = f"{image.topics[partition.topic_id].name}-{partition.partition}"
    return NotEnoughReplicas(
        f"no broker can take the replica of {name} from broker {broker.broker_id}: all others that run and "
        f"are not draining have one already. Add a broker, or move the topic to fewer replicas",
        broker_id=broker.broker_id,
        partition=partition.partition,
    )


class _Substitutes:
    """Brokers that can take replicas of the one that leaves, with what they hold once the moves are made."""

    def __init__(self, image: MetadataImage, leaving: BrokerImage) -> None:
        self._image = image
        self._leaving = leaving.broker_id
        self._candidates = [
            broker
            for _, broker in sorted(image.brokers.items())
            if can_take_replicas(broker) and broker.broker_id != leaving.broker_id
        ]
        self._total = BrokerLoads.of_image(image).replicas
        self._by_topic: dict[TopicId, Counter[BrokerId]] = {}

    def target_for(self, partition: PartitionImage) -> tuple[BrokerId, ...] | None:
        """Its replicas with another broker in place of the one that leaves; None: there is no other."""
        free = [broker for broker in self._candidates if broker.broker_id not in partition.replicas]
        if not free:
            return None
        in_topic = self._load_of_topic(partition.topic_id)
        racks = Counter(
            rack_of(self._image.brokers[replica])
            for replica in partition.replicas
            if replica != self._leaving
        )
        chosen = min(
            free,
            key=lambda each: (
                racks[rack_of(each)],
                in_topic[each.broker_id],
                self._total[each.broker_id],
                each.broker_id,
            ),
        ).broker_id
        in_topic[chosen] += 1
        self._total[chosen] += 1
        return tuple(chosen if replica == self._leaving else replica for replica in partition.replicas)

    def _load_of_topic(self, topic_id: TopicId) -> Counter[BrokerId]:
        load = self._by_topic.get(topic_id)
        if load is None:
            load = BrokerLoads.of(self._image.topics[topic_id].partitions).replicas
            self._by_topic[topic_id] = load
        return load
