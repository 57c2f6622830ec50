"""What a heartbeat asks for: to serve, to stop, to give up damaged replicas.

A broker is told that it is unfenced only once it has seen all that was decided about itself, up to its
registration or its last fencing (rule 36). Otherwise a broker that was fenced and comes back would get its
lease renewed while it still believes that it leads what others lead by now (rule 37).

To stop, a broker asks and goes on serving. Its stop is put on record, which moves its leaders and takes it
out of the ISRs; the next heartbeats are answered with "not yet" until every other active broker has seen
that record, so that clients find the new leaders. Then it is fenced and may go. The fencing ends its
session: its next process registers at once, instead of being taken for a second one. A partition that
nobody else can lead is left without a leader, with this broker in its ISR; it does not hold up the stop.

One heartbeat does one of these things; the next one comes soon enough for the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.controller.brokers import broker_change, fence_broker, leave_isrs, require_broker_epoch
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Elections, topics_in_order
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse, ReplicaName

__all__ = ["heartbeat"]


def heartbeat(
    image: MetadataImage,
    request: BrokerSessionRequest,
    *,
    state_offset: int,
    others_offset: int | None,
    session_timeout_ms: int,
) -> Decision[BrokerSessionResponse]:
    """Decide on one heartbeat; ``BrokerSessions`` knows the two offsets.

    ``state_offset``: where the broker's registration, fencing or stop stands on record, whichever came last.
    ``others_offset``: every other active broker has applied up to here (inclusive); None: there is no other.
    """
    broker = require_broker_epoch(image, request.broker_id, request.broker_epoch)
    answer = BrokerSessionResponse(
        sequence=request.sequence, is_fenced=broker.is_fenced, session_timeout_ms=session_timeout_ms
    )
    damaged = _give_up(image, broker.broker_id, request.damaged)
    if damaged.records:
        return Decision(tuple(damaged.records), answer, tuple(damaged.events))
    if request.wants_shutdown or broker.is_shutting_down:
        has_seen = others_offset is None or others_offset >= state_offset
        return _shut_down(image, broker, answer, everybody_has_seen=has_seen)
    if request.wants_unfence and broker.is_fenced and request.metadata_offset >= state_offset:
        return _unfence(image, broker, answer)
    return Decision((), answer)


def _unfence(
    image: MetadataImage, broker: BrokerImage, answer: BrokerSessionResponse
) -> Decision[BrokerSessionResponse]:
    elections = Elections(image, arriving=broker.broker_id)
    for topic in topics_in_order(image):
        for partition in topic.partitions:
            if partition.leader == NO_LEADER and broker.broker_id in partition.replicas:
                elections.change(partition)
    answer.is_fenced = False
    event = _event("broker_unfenced", broker)
    records = (broker_change(broker, is_fenced=False), *elections.records)
    return Decision(records, answer, (event, *elections.events))


def _shut_down(
    image: MetadataImage, broker: BrokerImage, answer: BrokerSessionResponse, *, everybody_has_seen: bool
) -> Decision[BrokerSessionResponse]:
    if broker.is_fenced:
        # It leads nothing, and whoever follows the metadata knows: either never unfenced, or let go before.
        answer.may_shut_down = True
        return Decision((), answer)
    if not broker.is_shutting_down:
        elections = Elections(image, leaving=broker.broker_id)
        leave_isrs(elections, image, broker.broker_id)
        records = (broker_change(broker, is_shutting_down=True), *elections.records)
        return Decision(records, answer, (_event("broker_shutting_down", broker), *elections.events))
    if not everybody_has_seen:
        return Decision((), answer)
    fencing = fence_broker(image, broker.broker_id)
    answer.is_fenced = True
    answer.may_shut_down = True
    return Decision(fencing.records, answer, (_event("broker_may_shut_down", broker),))


def _give_up(image: MetadataImage, broker_id: BrokerId, damaged: Iterable[ReplicaName]) -> Elections:
    """Damaged replicas do not count and do not lead, until they have caught up like any other (rule 44).

    The leader may still believe what such a replica told it before, and ask for it to be in the ISR (again),
    even if it is not at the moment. Unlike after a registration, the broker's epoch is the same, so nothing
    would be wrong with that request. A new leader epoch makes it void, and the leader forget (rule 7).
    """
    elections = Elections(image)
    for topic_id, number in sorted({(TopicId(each.topic_id), each.partition) for each in damaged}):
        partition = image.partition(topic_id, PartitionId(number))
        if partition is None or broker_id not in partition.replicas:
            continue
        elections.change(partition, lost=(broker_id,), bump_leader_epoch=partition.leader != NO_LEADER)
        elections.events.append(
            ControllerEvent(
                "replica_damaged",
                {"topic": image.topics[topic_id].name, "partition": number, "broker_id": broker_id},
                is_warning=True,
            )
        )
    return elections


def _event(name: str, broker: BrokerImage) -> ControllerEvent:
    return ControllerEvent(name, {"broker_id": broker.broker_id, "broker_epoch": broker.broker_epoch})
