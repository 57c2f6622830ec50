"""A leader asks for another ISR, and the controller makes sure that it may have it.

The leader alone sees who has caught up; the controller alone may commit an ISR (rule 21). Between the two
lie messages that come late, twice, or from a past life, so everything that the leader assumed is checked
again:

- its own broker epoch: it has not been fenced and registered anew since;
- the leader epoch: it still leads. A *higher* one than this controller knows means that somebody else is
  controller by now;
- the partition epoch: nothing has changed since, compare and set;
- every member: a replica of the partition, registered, active, and of the broker epoch with which it
  fetched (rule 24). Without the last check a request that was delayed would admit a broker whose disk was
  wiped since;
- every new member: not on its way out. On record such a broker is well until it has left its last partition
  (``quorate.controller.departures``), and a leader that puts it back as fast as it is taken out would keep
  it from ever getting there;
- a recovering partition stays at one member until its leader confirms (rule 34).

The leader also says when every member has synced its log, after a topic was changed to ``durability=fsync``
(rule 45). It is believed where it speaks of all who count.

A refusal is typed, because the leader acts on it (rule 22): after INELIGIBLE_REPLICA and
OPERATION_NOT_ATTEMPTED it knows that this copy of its wish changed nothing; after anything else it must wait
for the members of both ISRs. A leader that would have to wait for a member for ever, because another copy may
still be on its way and the member is gone, *withdraws*: the partition epoch moves on, and every copy is
refused.

Where the new ISR lets a reassignment take its next step, that is done in the same batch (rule 47).
"""

from __future__ import annotations

from collections.abc import Collection

from quorate.controller.brokers import require_broker_epoch
from quorate.controller.decision import Decision
from quorate.controller.elections import Elections
from quorate.controller.reassignment import finish_move
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.errors import (
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    NotLeaderOrFollower,
    OperationNotAttempted,
    QuorateError,
    UnknownTopicOrPartition,
    wrong_leader_epoch,
)
from quorate.metadata.image import MetadataImage, PartitionImage, Recovery
from quorate.metadata.records import RECOVERY_OF_STATE, STATE_OF_RECOVERY
from quorate.metadata.topic_settings import durability_of
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.controller_pb2 import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionAlteration,
    PartitionAlterationResult,
)
from quorate.v1.metadata_pb2 import RECOVERY_STATE_UNSPECIFIED

__all__ = ["alter_partition"]


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, *, leaving: Collection[BrokerId] = ()
) -> Decision[AlterPartitionResponse]:
    """Each partition on its own: one that is refused does not spoil the others.

    ``leaving``: brokers whose partitions are being taken away; nothing on record tells of it yet.
    """
    require_broker_epoch(image, request.broker_id, request.broker_epoch)
    leader = BrokerId(request.broker_id)
    elections = Elections(image)
    response = AlterPartitionResponse()
    seen: set[tuple[str, int]] = set()
    for wish in request.partitions:
        result = response.partitions.add(topic_id=wish.topic_id, partition=wish.partition)
        try:
            _require_first_mention(seen, wish)
            after = _alter(image, elections, leader, wish, leaving)
        except QuorateError as error:
            result.error.CopyFrom(detail_from_error(error))
            continue
        _describe(after, result)
    return Decision(tuple(elections.records), response, tuple(elections.events))


def _require_first_mention(seen: set[tuple[str, int]], wish: PartitionAlteration) -> None:
    name = (wish.topic_id, wish.partition)
    if name in seen:
        raise OperationNotAttempted(f"the request names partition {wish.partition} of {wish.topic_id} twice")
    seen.add(name)


def _alter(
    image: MetadataImage,
    elections: Elections,
    leader: BrokerId,
    wish: PartitionAlteration,
    leaving: Collection[BrokerId],
) -> PartitionImage:
    partition = image.partition(TopicId(wish.topic_id), PartitionId(wish.partition))
    if partition is None:
        raise UnknownTopicOrPartition(
            f"there is no partition {wish.partition} of topic {wish.topic_id}",
            topic_id=wish.topic_id,
            partition=wish.partition,
        )
    _check_epochs(partition, leader, wish)
    if wish.withdraw:
        return elections.renew(partition)
    recovery = _wanted_recovery(partition, wish)
    _check_members(partition, wish, recovery)
    _check_eligible(image, wish)
    _check_staying(partition, wish, leaving)
    isr = sorted(BrokerId(member.broker_id) for member in wish.isr)
    is_synced = partition.is_synced or (wish.is_synced and _is_said_of_all(image, partition, isr))
    changed = elections.change(partition, isr=isr, recovery=recovery, is_synced=is_synced)
    return finish_move(elections, image, changed)


def _is_said_of_all(image: MetadataImage, partition: PartitionImage, isr: list[BrokerId]) -> bool:
    """A leader speaks for the members that it names. One that leaves now may go on to count, in the ELR."""
    is_promised = durability_of(image, image.topics[partition.topic_id]) is Durability.FSYNC
    return is_promised and {*partition.isr, *partition.elr}.issubset(isr)


def _check_epochs(partition: PartitionImage, leader: BrokerId, wish: PartitionAlteration) -> None:
    """Rule 21."""
    if wish.leader_epoch > partition.leader_epoch or wish.partition_epoch > partition.partition_epoch:
        raise NotController(
            f"the leader knows leader epoch {wish.leader_epoch} and partition epoch {wish.partition_epoch}, "
            f"this controller only {partition.leader_epoch} and {partition.partition_epoch}: "
            "another one is active"
        )
    if wish.leader_epoch < partition.leader_epoch:
        raise wrong_leader_epoch(
            f"partition {wish.partition} of {wish.topic_id}",
            request=wish.leader_epoch,
            current=partition.leader_epoch,
        )
    if partition.leader != leader:
        raise NotLeaderOrFollower(
            f"partition {wish.partition} of {wish.topic_id} is led by {partition.leader}, not by {leader}",
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
        )
    if wish.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"the partition epoch is {partition.partition_epoch}, the request names {wish.partition_epoch}",
            request_partition_epoch=wish.partition_epoch,
            current_partition_epoch=partition.partition_epoch,
        )


def _wanted_recovery(partition: PartitionImage, wish: PartitionAlteration) -> Recovery:
    if wish.recovery_state == RECOVERY_STATE_UNSPECIFIED:
        return partition.recovery
    wanted = RECOVERY_OF_STATE.get(wish.recovery_state)
    if wanted is None:
        raise InvalidRequest(f"recovery state {wish.recovery_state} is not known here")
    if wanted is Recovery.RECOVERING and partition.recovery is Recovery.NORMAL:
        raise InvalidRequest("a leader may end the recovery of its partition, not begin it (rule 34)")
    return wanted


def _check_members(partition: PartitionImage, wish: PartitionAlteration, recovery: Recovery) -> None:
    members = [member.broker_id for member in wish.isr]
    if len(set(members)) != len(members):
        raise InvalidRequest(f"the wanted ISR {members} names a broker twice")
    if partition.leader not in members:
        raise InvalidRequest(f"the leader, {partition.leader}, is missing in the wanted ISR {members}")
    strangers = [member for member in members if member not in partition.replicas]
    if strangers:
        raise InvalidRequest(f"brokers {strangers} of the wanted ISR hold no replica of the partition")
    if recovery is Recovery.RECOVERING and len(members) > 1:
        raise InvalidRequest(
            "the ISR of a recovering partition stays at one until its leader confirms (rule 34)"
        )


def _check_eligible(image: MetadataImage, wish: PartitionAlteration) -> None:
    """Rule 24."""
    for member in wish.isr:
        broker = image.brokers.get(BrokerId(member.broker_id))
        if broker is None:
            reason = "is not registered"
        elif broker.is_fenced:
            reason = "is fenced"
        elif broker.is_shutting_down:
            reason = "is about to stop"
        elif broker.broker_epoch != member.broker_epoch:
            reason = f"has epoch {broker.broker_epoch}, and fetched with {member.broker_epoch}"
        else:
            continue
        raise IneligibleReplica(f"broker {member.broker_id} {reason}", broker_id=member.broker_id)


def _check_staying(
    partition: PartitionImage, wish: PartitionAlteration, leaving: Collection[BrokerId]
) -> None:
    """Who is in the ISR still may stay there for the moment: taking it out is not the leader's business."""
    for member in wish.isr:
        if member.broker_id in leaving and member.broker_id not in partition.isr:
            raise IneligibleReplica(
                f"broker {member.broker_id} is leaving its partitions", broker_id=member.broker_id
            )


def _describe(partition: PartitionImage, result: PartitionAlterationResult) -> None:
    result.leader = partition.leader
    result.leader_epoch = partition.leader_epoch
    result.partition_epoch = partition.partition_epoch
    result.isr.extend(partition.isr)
    result.recovery_state = STATE_OF_RECOVERY[partition.recovery]
    result.is_synced = partition.is_synced
