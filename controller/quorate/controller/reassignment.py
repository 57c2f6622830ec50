"""Moving a partition to other brokers: grow, catch up, hand over, let go, shrink (rule 47).

*Grow.* The new replicas join the old ones, and start to copy. The leader stays, the ISR stays: a reassignment
never adds to the ISR, only AlterPartition does, when a replica has shown that it is in sync (rule 23).

*Catch up.* The leader asks for each new replica to join the ISR in its own time. MinISR does not count them
before the end (quorate.metadata.topic_settings), and old replicas go on counting.

The move is *ready* as soon as all new replicas are in the ISR, and those of the ISR that stay are MinISR or
more, at least one of them active, so that nothing that was committed leaves with the old ones and nobody has
to wait for a leader. Not while the partition is recovering (rule 34): what an old replica holds may still be
wanted.

*Hand over.* If the leader is one of those that go, one that stays leads from now on. Nothing else changes:
the old leader is in the ISR, so nothing is committed before it has fetched in the new leader epoch.

*Let go.* The new leader asks for an ISR without the old replicas, each of them once it has fetched in the
leader's epoch (``IsrMembership``). One that is dead leaves the ISR by being fenced, one that is stuck by its
lag.

*Shrink*, when none of those that go is in the ISR. The leader epoch grows, so that whatever anybody knows
about the replicas before does not count any more (rules 2, 7).

Why so many steps: an old leader that has not heard yet goes on answering reads, with a lease that is good for
seconds (rule 37). The lease covers a leader that is fenced, since that takes longer. It does not cover a
*planned* move, which is as quick as the controller. So the invariant is: whoever led, and neither knows that
it no longer does nor has lost its lease, is in the ISR; then nothing is committed that it would have to know.
To drop the old leader from replicas and ISR in the record that elects the next one was rejected: the next one
commits at once, and the old one answers with the end of the log as it was.

A reassignment can be *called off* until it is complete. What goes then are the new replicas. If one of them
is or was in the ISR or the ELR, records may have been committed that only it and too few others hold, so the
old ones left in the ISR must be MinISR or more; else it is refused, and will be possible again when the old
ones have caught up. If none of them is in the ISR, they go at once. Otherwise one of them may lead, or have
led, without knowing that it no longer does; so they leave by the same steps, as replicas that are both
*adding*, for MinISR goes on not counting them, and *removing*. Such a move has only one way to go, so it
cannot be called off again; but another one may take its place. At the end the leader epoch grows here too: a
replica that is removed and soon added again, empty, must not pass for the one before.

Both lists of a reassignment are part of ``replicas``, with those that are to stay first: the operator chose
the target's order. So after calling it off the replicas are the ones from before, but the target's order
holds among those that were in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Assignment, Elections, topics_in_order
from quorate.controller.lookup import find_partition, partition_name
from quorate.controller.new_partitions import check_replicas
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    NotEnoughReplicas,
    ReassignmentInProgress,
    UnsafeReassignment,
)
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, Recovery
from quorate.metadata.topic_settings import min_insync_replicas, min_insync_replicas_of
from quorate.v1 import admin_pb2

__all__ = [
    "cancel_move",
    "complete_reassignment",
    "complete_reassignments",
    "finish_move",
    "is_called_off",
    "is_reassigning",
    "list_reassignments",
    "reassign_partitions",
    "start_move",
]

#: Each move is a record of one batch, and of all that the brokers then have to copy.
_MOVES_MAX: Final = 10_000


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def is_called_off(partition: PartitionImage) -> bool:
    """The new replicas are on their way out again."""
    adding = partition.adding_replicas
    return bool(adding) and set(adding).issubset(partition.removing_replicas)


# --- starting ---------------------------------------------------------------------------------------------


def reassign_partitions(
    image: MetadataImage, request: admin_pb2.ReassignPartitionsRequest
) -> Decision[admin_pb2.ReassignPartitionsResponse]:
    """All moves of the request, or none."""
    if len(request.moves) > _MOVES_MAX:
        raise InvalidRequest(f"{len(request.moves)} moves in one request, {_MOVES_MAX} are possible")
    elections = Elections(image)
    events: list[ControllerEvent] = []
    seen: set[tuple[TopicId, PartitionId]] = set()
    for move in request.moves:
        partition = find_partition(image, move.partition)
        if (partition.topic_id, partition.partition) in seen:
            raise InvalidRequest(f"{move.partition.topic}-{move.partition.partition} is named twice")
        seen.add((partition.topic_id, partition.partition))
        if move.replicas:
            after = start_move(elections, image, partition, tuple(map(BrokerId, move.replicas)))
            name = "reassignment_started"
        else:
            after = cancel_move(elections, image, partition)
            name = "reassignment_cancelled"
        if after is not partition:
            events.append(_event(name, image, after))
    response = admin_pb2.ReassignPartitionsResponse()
    if request.validate_only:
        return Decision((), response)
    return Decision(tuple(elections.records), response, (*events, *elections.events))


def start_move(
    elections: Elections, image: MetadataImage, partition: PartitionImage, target: tuple[BrokerId, ...]
) -> PartitionImage:
    """Grow, and take the next steps at once where nothing has to be copied.

    The partition itself: nothing to do.
    """
    if target == _target_of(partition):
        return partition
    joining = [broker_id for broker_id in target if broker_id not in partition.replicas]
    _check_start(image, partition, target, joining)
    leaving = tuple(broker_id for broker_id in partition.replicas if broker_id not in target)
    replicas = (*target, *leaving)
    # After a move that was called off some are here that do not count yet.
    adding = tuple(each for each in replicas if each in joining or each in partition.adding_replicas)
    if not adding and not leaving:
        # Only the order is new, and with it the preferred leader.
        return elections.change(partition, assignment=Assignment(target))
    grown = Assignment(replicas, adding=adding, removing=leaving)
    return finish_move(elections, image, elections.change(partition, assignment=grown))


def _check_start(
    image: MetadataImage, partition: PartitionImage, target: Sequence[BrokerId], joining: Sequence[BrokerId]
) -> None:
    name = _name(image, partition)
    check_replicas(image, name, target, joining=joining)
    if is_reassigning(partition) and not is_called_off(partition):
        raise ReassignmentInProgress(
            f"{name} is being moved to {_listed(_target_of(partition))}; wait for it, or call it off",
            topic=image.topics[partition.topic_id].name,
            partition=partition.partition,
        )
    if partition.leader == NO_LEADER and joining:
        raise NotEnoughReplicas(
            f"{name} has no leader from which new replicas could copy", partition=partition.partition
        )
    for broker_id in joining:
        if not image.brokers[broker_id].is_active:
            raise BrokerNotAvailable(
                f"{name}: broker {broker_id} is fenced or stopping and cannot copy anything now",
                broker_id=broker_id,
            )


def _target_of(partition: PartitionImage) -> tuple[BrokerId, ...]:
    return tuple(each for each in partition.replicas if each not in partition.removing_replicas)


# --- completing -------------------------------------------------------------------------------------------


class Completion(NamedTuple):
    """What ``Elections.change`` is to be told, with a new leader epoch."""

    assignment: Assignment
    isr: tuple[BrokerId, ...]


def finish_move(elections: Elections, image: MetadataImage, partition: PartitionImage) -> PartitionImage:
    """Take the next step, if it can be taken now. To be called after every change of an ISR.

    ``partition``: as it is after that change, which need not be in the image yet.
    """
    if _can_hand_over(image, partition):
        # The old leader stays in the ISR until it knows (rule 37).
        leader = elections.first_active(_target_of(partition), partition.isr)
        return elections.change(partition, leader=leader)
    completion = complete_reassignment(image, partition)
    if completion is None:
        return partition
    after = elections.change(
        partition, isr=completion.isr, assignment=completion.assignment, bump_leader_epoch=True
    )
    name = "reassignment_undone" if is_called_off(partition) else "reassignment_completed"
    elections.events.append(_event(name, image, after))
    return after


def complete_reassignment(image: MetadataImage, partition: PartitionImage) -> Completion | None:
    """Whether the old replicas can go now, and what is left then."""
    if not _is_ready(image, partition) or not set(partition.isr).isdisjoint(partition.removing_replicas):
        return None
    return Completion(Assignment(_target_of(partition)), partition.isr)


def _can_hand_over(image: MetadataImage, partition: PartitionImage) -> bool:
    return partition.leader in partition.removing_replicas and _is_ready(image, partition)


def _is_ready(image: MetadataImage, partition: PartitionImage) -> bool:
    """Whether those that are to stay can do without the others."""
    if not is_reassigning(partition) or partition.recovery is Recovery.RECOVERING:
        return False
    target = _target_of(partition)
    isr = [member for member in partition.isr if member in target]
    joining = set(partition.adding_replicas).difference(partition.removing_replicas)
    return joining.issubset(isr) and _is_safe(image, partition, isr, replica_count=len(target))


def _is_safe(
    image: MetadataImage, partition: PartitionImage, isr: Sequence[BrokerId], *, replica_count: int
) -> bool:
    """Whether the partition can go on with this ISR alone, and ``replica_count`` replicas."""
    needed = min(min_insync_replicas(image, image.topics[partition.topic_id]), replica_count)
    return len(isr) >= needed and any(image.brokers[member].is_active for member in isr)


def complete_reassignments(image: MetadataImage) -> Decision[None]:
    """The next step of every one that can take it.

    ISRs are not all that decides: a lower MinISR or a broker's return can too.
    """
    elections = Elections(image)
    for topic in topics_in_order(image):
        for partition in topic.partitions:
            finish_move(elections, image, partition)
    return Decision(tuple(elections.records), None, tuple(elections.events))


# --- calling off ------------------------------------------------------------------------------------------


def cancel_move(elections: Elections, image: MetadataImage, partition: PartitionImage) -> PartitionImage:
    """Back to the replicas from before, by steps if new ones are in the ISR.

    The partition itself: nothing is under way, or it was called off before.
    """
    if not is_reassigning(partition) or is_called_off(partition):
        return partition
    adding = partition.adding_replicas
    original = tuple(each for each in partition.replicas if each not in adding)
    isr = tuple(member for member in partition.isr if member not in adding)
    may_be_needed = {*partition.isr, *partition.elr, *partition.last_known_elr}.intersection(adding)
    if may_be_needed and not _is_safe(image, partition, isr, replica_count=len(original)):
        min_isr = min_insync_replicas_of(image, partition)
        raise UnsafeReassignment(
            f"{_name(image, partition)}: without the new replicas {_listed(adding)} only these would be in "
            f"sync: {_listed(isr) or 'none'}; min.insync.replicas is {min_isr}",
            topic=image.topics[partition.topic_id].name,
            partition=partition.partition,
        )
    if len(isr) == len(partition.isr):
        return elections.change(partition, assignment=Assignment(original), bump_leader_epoch=bool(adding))
    # A new one may lead, or have led, and not know that it no longer does (rule 37).
    undoing = Assignment((*original, *adding), adding=adding, removing=adding)
    return finish_move(elections, image, elections.change(partition, assignment=undoing))


# --- telling ----------------------------------------------------------------------------------------------


def list_reassignments(
    image: MetadataImage, _request: admin_pb2.ListReassignmentsRequest
) -> admin_pb2.ListReassignmentsResponse:
    reassignments = [
        admin_pb2.Reassignment(
            partition=partition_name(image, partition),
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
            isr=partition.isr,
        )
        for _, topic_id in sorted(image.topic_ids.items())
        for partition in image.topics[topic_id].partitions
        if is_reassigning(partition)
    ]
    return admin_pb2.ListReassignmentsResponse(reassignments=reassignments)


def _event(name: str, image: MetadataImage, partition: PartitionImage) -> ControllerEvent:
    return ControllerEvent(
        name, {"partition": _name(image, partition), "replicas": list(_target_of(partition))}
    )


def _name(image: MetadataImage, partition: PartitionImage) -> str:
    return f"{image.topics[partition.topic_id].name}-{partition.partition}"


def _listed(broker_ids: Sequence[BrokerId]) -> str:
    return ", ".join(map(str, broker_ids))
