"""What a real cluster holds in the end, for the checks: in every replica's files, or as it was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from quorate.chaos.checks.final_state import CopyOfLog, FinalPartition, FinalState
from quorate.chaos.history.history import History
from quorate.chaos.live.answers import Answer, ask
from quorate.chaos.live.reach import DataDirectory, Reach
from quorate.chaos.live.replica_files import ReplicaFiles, read_replica, replica_directory
from quorate.core.disk import Disk
from quorate.core.ids import BrokerId, Offset, TopicPartition
from quorate.core.os_disk import OsDisk

__all__ = ["collect", "read_files", "seen_by_readers"]


async def collect(
    reach: Reach, history: History, topics: Sequence[str], *, deleting: Collection[str] = ()
) -> FinalState:
    """Every node runs, or will soon, and nobody writes any more. The arguments are those of ``ask``."""
    return read_files(reach, await ask(reach, history, topics, deleting=deleting))


def read_files(reach: Reach, answers: Mapping[TopicPartition, Answer]) -> FinalState:
    """Nodes may run or not: what they have answered is committed, and stays."""
    disk = OsDisk(read_only=True)
    try:
        return FinalState(
            {
                partition: _final_partition(disk, reach.data_dirs, partition, answer)
                for partition, answer in answers.items()
            }
        )
    finally:
        disk.close()


def seen_by_readers(history: History) -> FinalState:
    """What each partition held when it was last read to its end; of any other nothing is known."""
    records: dict[TopicPartition, dict[Offset, bytes]] = {}
    starts: dict[TopicPartition, Offset] = {}
    for assignment in history.assignments:
        # A member of a group has read a part of it.
        if assignment.caught_up_s is not None and assignment.group is None:
            for partition, start in assignment.starts.items():
                records[partition], starts[partition] = {}, start or Offset(0)
    for poll in history.polls:
        if poll.assignment.caught_up_s is not None and poll.assignment.group is None:
            records[poll.partition].update(poll.records)
    return FinalState(
        {
            partition: FinalPartition(
                high_watermark=Offset(max(found, default=starts[partition] - 1) + 1),
                records=found,
                log_start_offset=starts[partition],
            )
            for partition, found in records.items()
        }
    )


def _final_partition(
    disk: Disk,
    data_dirs: Mapping[BrokerId, DataDirectory],
    partition: TopicPartition,
    answer: Answer,
) -> FinalPartition:
    replicas = {
        found.name: _replica(disk, found.path, partition, answer)
        for broker_id in answer.replicas
        if (found := data_dirs.get(broker_id)) is not None
    }
    # Of the first replica that is whole; all must be the same, and a check sees to that.
    whole = (files.records for files in replicas.values() if not files.copy.faults)
    return FinalPartition(
        high_watermark=answer.high_watermark,
        records=next(whole, answer.records),
        copies={name: files.copy for name, files in replicas.items()},
        log_start_offset=answer.log_start_offset,
        may_delete=answer.may_delete,
        unclean_leader_epochs=answer.unclean_leader_epochs,
    )


def _replica(disk: Disk, data_dir: str, partition: TopicPartition, answer: Answer) -> ReplicaFiles:
    directory = replica_directory(disk, data_dir, answer.topic_id, partition.partition)
    if directory is None:
        return _NOTHING_THERE
    return read_replica(
        disk,
        directory,
        log_start_offset=answer.log_start_offset,
        high_watermark=answer.high_watermark,
    )


_NOTHING_THERE: Final = ReplicaFiles(CopyOfLog({}, ("it holds no replica",)), {})
