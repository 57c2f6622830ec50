"""What a heartbeat asks for: to serve, to stop, to give up damaged replicas.

A broker is told that it is unfenced only once it has seen all that was decided about itself, up to its
registration or its last fencing (rule 36). Otherwise a broker that was fenced and comes back would get its
lease renewed while it still believes that it leads what others lead by now (rule 37).

For the same reason a broker that was *given up* is told that it is fenced before it is so on record: its
leaders are being taken away, a piece at a time, and it may not know of the first pieces yet.

And every answer names the offset up to which everything was decided. A broker whose heartbeats get through
while its metadata is stuck must not keep its lease: leaders are moved by plan, too, and one that does not
fetch from the next leader is taken out of the ISR in the end.

To stop, a broker asks and goes on serving. Its leaders are moved and it is taken out of the ISRs, a piece
with each heartbeat (``quorate.controller.departures``); with the last one its stop is put on record. The next
heartbeats are answered with "not yet" until every other active broker has seen that record, so that clients
find the new leaders. Then it is fenced and may go. The fencing ends its session: its next process registers
at once, instead of being taken for a second one. A partition that nobody else can lead is left without a
leader, with this broker in its ISR; it does not hold up the stop.

Whatever is put on record about a broker carries the numbers of its witnesses as well
(``quorate.controller.previous_run``).

A report of damage names the leader epoch that it speaks of, and is void in a later one. A replica is repaired
in a later one only, so however late the report arrives, it does not throw out one that is whole again, which
may be the last that has everything. Nobody is left out by that: a broker that finds a later epoch counting on
its damaged replica reports it again, and whoever leads in one has forgotten what the replica said before
(rule 7).

One heartbeat does one of these things; the next one comes soon enough for the others. More partitions may
wait for a broker than one batch holds: those that are left when it is unfenced get their leaders right
afterwards (``quorate.controller.leaderless``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from quorate.controller.brokers import broker_change, fence_broker, require_broker_epoch
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX, leave_partitions
from quorate.controller.elections import Elections
from quorate.controller.leaderless import elect_waiting
from quorate.controller.witnesses import HeardWitnesses, heard_in
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.metadata.image import NO_LEADER, BrokerImage, MetadataImage
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse, DamagedReplica

__all__ = ["heartbeat"]


def heartbeat(
    image: MetadataImage,
    request: BrokerSessionRequest,
    *,
    state_offset: int,
    others_offset: int | None,
    session_timeout_ms: int,
    is_given_up: bool = False,
    leaving: Collection[BrokerId] = (),
    changes_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
) -> Decision[BrokerSessionResponse]:
    """Decide on one heartbeat; ``BrokerSessions`` knows the offsets, who was given up and who is leaving.

    ``state_offset``: where the broker's registration, fencing or stop stands on record, whichever came last.
    ``others_offset``: every other active broker has applied up to here (inclusive); None: there is no other.
    ``changes_max``: of partitions, in this batch.
    """
    broker = require_broker_epoch(image, request.broker_id, request.broker_epoch)
    answer = BrokerSessionResponse(
        sequence=request.sequence,
        is_fenced=broker.is_fenced or is_given_up,
        session_timeout_ms=session_timeout_ms,
        metadata_offset=image.offset,
    )
    damaged = _give_up(image, broker.broker_id, request.damaged)
    if damaged.records:
        return Decision(tuple(damaged.records), answer, tuple(damaged.events))
    if is_given_up:
        return Decision((), answer)
    heard = heard_in(request)
    if broker.is_shutting_down or (request.wants_shutdown and broker.is_fenced):
        has_seen = others_offset is None or others_offset >= state_offset
        return _let_go(image, broker, answer, heard, everybody_has_seen=has_seen)
    if request.wants_shutdown:
        return _begin_stop(image, broker, answer, heard, leaving=leaving, changes_max=changes_max)
    if request.wants_unfence and broker.is_fenced and request.metadata_offset >= state_offset:
        return _unfence(image, broker, answer, heard, leaving=leaving, changes_max=changes_max)
    return Decision((), answer)


def _unfence(
    image: MetadataImage,
    broker: BrokerImage,
    answer: BrokerSessionResponse,
    heard: HeardWitnesses,
    *,
    leaving: Collection[BrokerId],
    changes_max: int,
) -> Decision[BrokerSessionResponse]:
    elections = Elections(image, arriving=broker.broker_id, leaving=leaving)
    elect_waiting(elections, image, changes_max=changes_max)
    answer.is_fenced = False
    event = _event("broker_unfenced", broker)
    records = (broker_change(broker, is_fenced=False, heard=heard), *elections.records)
    return Decision(records, answer, (event, *elections.events))


def _begin_stop(
    image: MetadataImage,
    broker: BrokerImage,
    answer: BrokerSessionResponse,
    heard: HeardWitnesses,
    *,
    leaving: Collection[BrokerId],
    changes_max: int,
) -> Decision[BrokerSessionResponse]:
    """One piece, and complete as an answer to one heartbeat: the next one goes on."""
    elections, is_last = leave_partitions(image, broker.broker_id, leaving=leaving, changes_max=changes_max)
    if not is_last:
        return Decision(tuple(elections.records), answer, tuple(elections.events))
    records = (broker_change(broker, is_shutting_down=True, heard=heard), *elections.records)
    return Decision(records, answer, (_event("broker_shutting_down", broker), *elections.events))


def _let_go(
    image: MetadataImage,
    broker: BrokerImage,
    answer: BrokerSessionResponse,
    heard: HeardWitnesses,
    *,
    everybody_has_seen: bool,
) -> Decision[BrokerSessionResponse]:
    if broker.is_fenced:
        # It leads nothing, and whoever follows the metadata knows: either never unfenced, or let go before.
        answer.may_shut_down = True
        return Decision((), answer)
    if not everybody_has_seen:
        return Decision((), answer)
    fencing = fence_broker(image, broker.broker_id, heard=heard)
    assert fencing.is_complete, "who is stopping on record has left all partitions"
    answer.is_fenced = True
    answer.may_shut_down = True
    return Decision(fencing.records, answer, (_event("broker_may_shut_down", broker),))


def _give_up(image: MetadataImage, broker_id: BrokerId, damaged: Iterable[DamagedReplica]) -> Elections:
    """Damaged replicas do not count and do not lead, until they have caught up like any other (rule 44).

    The leader may still believe what such a replica told it before, and ask for it to be in the ISR (again),
    even if it is not at the moment. Unlike after a registration, the broker's epoch is the same, so nothing
    would be wrong with that request. A new leader epoch makes it void, and the leader forget (rule 7).
    """
    elections = Elections(image)
    found_in = {(TopicId(each.topic_id), each.partition): each.leader_epoch for each in damaged}
    for (topic_id, number), leader_epoch in sorted(found_in.items()):
        partition = image.partition(topic_id, PartitionId(number))
        if partition is None or broker_id not in partition.replicas:
            continue
        if leader_epoch < partition.leader_epoch:
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
