"""What replicas on this broker look like from outside, for controllers and for descriptions of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quorate.broker.replica.partition import Partition
from quorate.core.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from quorate.core.transport import Call
from quorate.errors import DiskFull, NotLeaderOrFollower, QuorateError, UnknownTopicOrPartition
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import PartitionLog
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    LogEnd,
    ReplicaDescription,
)

__all__ = ["ReplicaDescriber"]


class ReplicaDescriber:
    """Handlers of ReplicaService. Replicas that are not here are left out of an answer."""

    def __init__(self, find: Callable[[str, int], Partition]) -> None:
        """``find`` raises for a replica that is not here, or cannot be used."""
        self._find = find

    async def describe_log_ends(self, request: DescribeLogEndsRequest, _: Call) -> DescribeLogEndsResponse:
        """Of those that can be read: an operator's recovery chooses among them (rule 33)."""
        return DescribeLogEndsResponse(
            log_ends=[
                _log_end(name, found.log)
                for name, found in self._look_up(request.replicas)
                if isinstance(found, Partition) and found.failure is None
            ]
        )

    async def describe_replicas(self, request: DescribeReplicasRequest, _: Call) -> DescribeReplicasResponse:
        return DescribeReplicasResponse(
            replicas=[_description(name, found) for name, found in self._look_up(request.replicas)]
        )

    def _look_up(
        self, names: Iterable[ReplicaName]
    ) -> Iterator[tuple[ReplicaName, Partition | QuorateError]]:
        for name in names:
            try:
                yield name, self._find(name.topic_id, name.partition)
            except (UnknownTopicOrPartition, NotLeaderOrFollower):
                continue
            except QuorateError as error:
                yield name, error


def _log_end(name: ReplicaName, partition_log: PartitionLog) -> LogEnd:
    return LogEnd(
        replica=name, last_epoch=_last_epoch(partition_log), log_end_offset=partition_log.log_end_offset
    )


def _last_epoch(partition_log: PartitionLog) -> LeaderEpoch:
    """Of the last batch: an epoch in which this replica led and wrote nothing is no sign of newer records."""
    if partition_log.log_end_offset == 0:
        return NO_LEADER_EPOCH
    return partition_log.leader_epoch_at(Offset(partition_log.log_end_offset - 1))


def _description(name: ReplicaName, found: Partition | QuorateError) -> ReplicaDescription:
    if isinstance(found, QuorateError):
        return ReplicaDescription(replica=name, error=detail_from_error(found))
    failure = found.failure
    if failure is not None:
        return ReplicaDescription(replica=name, error=detail_from_error(failure))
    description = ReplicaDescription(
        replica=name,
        log_start_offset=found.log.log_start_offset,
        high_watermark=found.high_watermark,
        log_end_offset=found.log.log_end_offset,
        size_bytes=found.log.size_in_bytes,
    )
    if found.log.lacks_room():
        directory = found.log.directory
        full = DiskFull(f"no space left to append in {directory}; what is there is read", path=directory)
        description.error.CopyFrom(detail_from_error(full))
    return description
