"""Leaders go back to where they belong.

After a broker was away, others lead what it led. The *preferred* leader of a partition is its first
replica; placement spreads those evenly, so moving leaders back spreads the load again. The same round takes
leaders away from brokers that are being drained.

Only a replica in the ISR of an active broker gets a leader: nothing is at stake but a short pause of the
partition. Each round is bounded, so that clients do not lose all their leaders in one moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quorate.controller.decision import Decision
from quorate.controller.elections import Elections, topics_in_order
from quorate.controller.lookup import find_partition, partition_name
from quorate.core.ids import BrokerId
from quorate.errors import BrokerNotAvailable, QuorateError
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.admin_pb2 import (
    ElectPreferredLeadersRequest,
    ElectPreferredLeadersResponse,
    PartitionRefusal,
)

__all__ = ["elect_preferred_leaders", "move_leaders_back"]


def move_leaders_back(
    image: MetadataImage, *, moves_max: int, leaving: Collection[BrokerId] = ()
) -> Decision[int]:
    """One round of the controller's own; the answer is how many were moved.

    ``leaving``: brokers on the way out, who get no leaders back.
    """
    elections = Elections(image, leaving=leaving)
    for partition, leader in _misplaced(image, elections):
        if len(elections.records) >= moves_max:
            break
        elections.change(partition, leader=leader)
    return Decision(tuple(elections.records), len(elections.records), tuple(elections.events))


def elect_preferred_leaders(
    image: MetadataImage, request: ElectPreferredLeadersRequest
) -> Decision[ElectPreferredLeadersResponse]:
    """By an operator's wish: the named partitions, or all where it can be done."""
    elections = Elections(image)
    response = ElectPreferredLeadersResponse()
    if not request.partitions:
        for partition, leader in _misplaced(image, elections):
            elections.change(partition, leader=leader)
            response.moved.append(partition_name(image, partition))
        return Decision(tuple(elections.records), response)
    named = {(name.topic, name.partition): name for name in request.partitions}
    for _, name in sorted(named.items()):
        try:
            partition = find_partition(image, name)
            _require_preferred_leader(image, elections, partition)
        except QuorateError as error:
            response.refused.append(PartitionRefusal(partition=name, error=detail_from_error(error)))
            continue
        if elections.change(partition, leader=partition.replicas[0]) is not partition:
            response.moved.append(name)
    return Decision(tuple(elections.records), response)


def _misplaced(image: MetadataImage, elections: Elections) -> Iterator[tuple[PartitionImage, BrokerId]]:
    """Partitions that somebody else should lead, each with whom."""
    draining = {broker.broker_id for broker in image.brokers.values() if broker.is_draining}
    for topic in topics_in_order(image):
        for partition in topic.partitions:
            preferred, is_drained = partition.replicas[0], partition.leader in draining
            if partition.leader == NO_LEADER or (partition.leader == preferred and not is_drained):
                continue
            best = elections.best_leader(partition)
            if best is not None and best != partition.leader and (best == preferred or is_drained):
                yield partition, best


def _require_preferred_leader(image: MetadataImage, elections: Elections, partition: PartitionImage) -> None:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return
    if preferred not in partition.isr:
        raise BrokerNotAvailable(
            f"the preferred leader, broker {preferred}, is not in sync", broker_id=preferred
        )
    if preferred not in elections.active:
        raise BrokerNotAvailable(
            f"the preferred leader, broker {preferred}, is not active", broker_id=preferred
        )
    if image.brokers[preferred].is_draining:
        raise BrokerNotAvailable(
            f"the preferred leader, broker {preferred}, is being drained or decommissioned, and is given no "
            "leaders; cancel that first, or reassign the partition so that another replica comes first",
            broker_id=preferred,
        )
