"""The last resort: an operator makes a replica the leader though it may lack acknowledged records.

A partition comes here when every replica that was certain to be complete is gone: lossy starts or wiped
disks have taken them out of ISR and ELR, or those that are left never come back. Nothing does this by
itself (rule 33). What this file sees to:

- It is not done while a complete replica could be reached, or the partition is led: then it need not be.
- The choice is made on facts: (leader epoch of the last batch, log end offset) of *every* replica, compared
  in that order, as in an election of Raft. A log whose records have all expired has no last epoch, and is
  judged by where it ends (``_best``). A replica that could not be asked might be the best one, or even
  complete, so it is only left out where the operator says so. If the best one is not active (fenced or
  stopping), the operator waits for it or names another.
- It is done once for each incident. An operator gives up what is missing *now*; a copy of the request that
  arrives in the next incident would give up what others have acknowledged since, and nobody has looked at.
  So the request names the topic's id and the leader epoch in which nobody leads: it grows with every
  election, and nothing is acknowledged without one. In any other epoch it is refused; but where the present
  leader was elected out of that very epoch by giving up, which is on record, it is answered as done: its
  first answer was lost.
- What follows is marked: the partition is RECOVERING with an ISR of one until its leader confirms (rule
  34), the new leader epoch is on record as unclean, so that others may truncate across it and only there
  (rule 11), and the event says that acknowledged records may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Elections
from quorate.controller.lookup import find_partition
from quorate.core.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset
from quorate.errors import InvalidRequest, RecoveryRefused
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from quorate.v1.admin_pb2 import RecoverPartitionRequest, RecoverPartitionResponse, RecoveryCandidate

__all__ = ["ReplicaEnd", "find_incident", "is_recovered", "recover_partition", "replicas_to_ask"]


class ReplicaEnd(NamedTuple):
    """Where a replica's log ends. Of two with records, the greater one has more of what was acknowledged."""

    #: leader epoch of the last batch; -1: there is none, or none any more
    last_epoch: LeaderEpoch
    #: exclusive
    log_end_offset: Offset


def find_incident(image: MetadataImage, request: RecoverPartitionRequest) -> PartitionImage:
    """The partition, if it is as the operator has seen it, or as this request has left it."""
    name = f"{request.partition.topic}-{request.partition.partition}"
    if not request.partition.topic_id or not request.HasField("leader_epoch"):
        raise InvalidRequest(
            f"a recovery of {name} names the topic's id and the leader epoch of the incident, which "
            "DescribeTopic tells: a request that arrives late must not elect uncleanly once more",
            topic=request.partition.topic or None,
            partition=request.partition.partition,
        )
    partition = find_partition(image, request.partition)
    if partition.leader_epoch != request.leader_epoch and not is_recovered(partition, request):
        raise _refusal(
            image,
            partition,
            f"is in leader epoch {partition.leader_epoch}, and the request is about epoch "
            f"{request.leader_epoch}: there was another election. Look at the partition, and decide anew",
        )
    return partition


def is_recovered(partition: PartitionImage, request: RecoverPartitionRequest) -> bool:
    """Whether the leader of now was elected out of that incident, by giving up what it may lack."""
    if partition.leader == NO_LEADER or partition.leader_epoch != request.leader_epoch + 1:
        return False
    is_wanted = not request.HasField("leader") or request.leader == partition.leader
    return is_wanted and partition.leader_epoch in partition.unclean_leader_epochs


def replicas_to_ask(image: MetadataImage, partition: PartitionImage) -> tuple[BrokerId, ...]:
    """Whose log ends ``recover_partition`` wants; refused where there is nothing to recover."""
    if partition.leader != NO_LEADER:
        raise _refusal(image, partition, f"is led by broker {partition.leader}")
    return tuple(sorted(partition.replicas))


def recover_partition(
    image: MetadataImage, request: RecoverPartitionRequest, *, log_ends: Mapping[BrokerId, ReplicaEnd]
) -> Decision[RecoverPartitionResponse]:
    """``log_ends``: what the replicas answered; those that did not answer are missing."""
    partition = find_incident(image, request)
    if is_recovered(partition, request):
        return Decision((), RecoverPartitionResponse(leader=partition.leader))
    asked = replicas_to_ask(image, partition)
    ends = {broker_id: log_ends[broker_id] for broker_id in asked if broker_id in log_ends}
    missing = [broker_id for broker_id in asked if broker_id not in ends]
    complete = [broker_id for broker_id in (*partition.isr, *partition.elr) if broker_id in ends]
    if complete:
        raise _refusal(
            image,
            partition,
            f"can still be led without any loss by brokers {complete}, which run; it will be once they serve",
        )
    if missing and not request.accept_missing_replicas:
        raise _refusal(
            image,
            partition,
            f"has replicas on brokers {missing} that could not be asked, and one of them may hold more than "
            "the others; start them, or accept that they are left out",
        )
    leader = _choose(image, partition, request, ends)
    elections = Elections(image)
    after = elections.elect_uncleanly(partition, leader)
    candidates = [_candidate(broker_id, ends.get(broker_id)) for broker_id in asked]
    event = ControllerEvent(
        "partition_recovered",
        {
            "topic": request.partition.topic,
            "partition": partition.partition,
            "leader": leader,
            "leader_epoch": after.leader_epoch,
            "possible_data_loss": True,
            "log_ends": {broker_id: tuple(end) for broker_id, end in sorted(ends.items())},
            "missing": missing,
            "former_members": sorted({*partition.isr, *partition.elr, *partition.last_known_elr}),
        },
        is_warning=True,
    )
    return Decision(
        tuple(elections.records), RecoverPartitionResponse(leader=leader, candidates=candidates), (event,)
    )


def _choose(
    image: MetadataImage,
    partition: PartitionImage,
    request: RecoverPartitionRequest,
    ends: Mapping[BrokerId, ReplicaEnd],
) -> BrokerId:
    active = Elections(image).active
    answered = [broker_id for broker_id in partition.replicas if broker_id in ends]
    if not answered:
        raise _refusal(image, partition, "has no replica that could be asked")
    wanted = BrokerId(request.leader) if request.HasField("leader") else _best(partition, answered, ends)
    if wanted not in ends or wanted not in active:
        able = [broker_id for broker_id in answered if broker_id in active]
        raise _refusal(image, partition, f"cannot be led by broker {wanted} now; these can: {able}")
    return wanted


def _best(
    partition: PartitionImage, answered: Sequence[BrokerId], ends: Mapping[BrokerId, ReplicaEnd]
) -> BrokerId:
    """Of equals the first in the order of the replicas.

    An empty log got where it ends because all before that was committed, and its time is over: whoever ends
    no later holds nothing that counts, and would have offsets given out twice. Once something was given up,
    nobody knows whether it got there before or after that, and a log with records goes first.
    """
    best = max(answered, key=lambda broker_id: ends[broker_id])
    if partition.unclean_leader_epochs:
        return best
    no_earlier = [each for each in answered if ends[each].log_end_offset >= ends[best].log_end_offset]
    empty = [each for each in no_earlier if ends[each].last_epoch == NO_LEADER_EPOCH]
    return max(empty, key=lambda broker_id: ends[broker_id], default=best)


def _candidate(broker_id: BrokerId, end: ReplicaEnd | None) -> RecoveryCandidate:
    if end is None:
        return RecoveryCandidate(broker_id=broker_id, is_missing=True)
    return RecoveryCandidate(
        broker_id=broker_id, last_epoch=end.last_epoch, log_end_offset=end.log_end_offset
    )


def _refusal(image: MetadataImage, partition: PartitionImage, reason: str) -> RecoveryRefused:
    topic = image.topics[partition.topic_id].name
    return RecoveryRefused(
        f"partition {topic}-{partition.partition} {reason}", topic=topic, partition=partition.partition
    )
