"""What a simulated cluster holds in the end, read from the logs of the replicas themselves.

Not through the broker's handlers: what the disks hold is the truth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.checks.final_state import AcceptedLoss, CopyOfLog, FinalPartition, FinalState, SentKey
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.invariants.rot import forget_what_is_in_memory
from quorate.core.ids import Offset, ReplicaKey, TopicPartition
from quorate.core.records import ConsumerRecord, Record, decode_batch, parse_header, split_batches
from quorate.errors import QuorateError

__all__ = [
    "TOMBSTONE_HEADER",
    "assigned_replicas",
    "batches_of",
    "check_replicas_agree",
    "each_record",
    "final_state",
    "read_both_ways",
    "records_of",
    "value_of",
]

_READ_BYTES: Final = 1 << 20
#: has what would be the value, if the record were none
TOMBSTONE_HEADER: Final = "instead of"


def batches_of(replica: Partition, end_offset: Offset) -> Iterator[bytes]:
    """Up to ``end_offset``, as they are stored, several at a time."""
    offset = replica.log.log_start_offset
    while offset < end_offset:
        read = replica.log.read(offset, bytes_max=_READ_BYTES, end_offset=end_offset)
        if not read.batches:
            message = f"{replica.topic_partition}: nothing to read at {offset}, before {end_offset}"
            raise Violation(message, check="replicas-differ")
        yield read.batches
        offset = read.next_offset


def each_record(replica: Partition, end_offset: Offset) -> Iterator[Record]:
    """Up to ``end_offset``, as its batches have it."""
    for batch in _each_batch(replica, end_offset):
        yield from decode_batch(batch)


def _each_batch(replica: Partition, end_offset: Offset) -> Iterator[memoryview]:
    for several in batches_of(replica, end_offset):
        yield from split_batches(several)


def read_both_ways(replica: Partition, end_offset: Offset) -> None:
    """As whoever reads it now, in part from memory; and as whoever reads it later, from files alone.

    From here on it is read from files: what is kept in memory would hide what has become of them.
    """
    with_memory = b"".join(batches_of(replica, end_offset))
    forget_what_is_in_memory(replica)
    from_files = b"".join(batches_of(replica, end_offset))
    if from_files != with_memory:
        raise Violation(
            f"{replica.topic_partition}: memory and files differ below {end_offset}", check="diverged"
        )


def records_of(replica: Partition, end_offset: Offset) -> dict[Offset, bytes]:
    """Value by offset."""
    return {Offset(record.offset): value_of(record) for record in each_record(replica, end_offset)}


def value_of(record: Record | ConsumerRecord) -> bytes:
    """What says which record it is."""
    if record.value is not None:
        return record.value
    return next((value or b"" for name, value in record.headers if name == TOMBSTONE_HEADER), b"")


def check_replicas_agree(replicas: Sequence[Partition]) -> None:
    """Byte for byte, up to the lowest high watermark among them (rule 1: log matching)."""
    end_offset = min(replica.high_watermark for replica in replicas)
    contents = [b"".join(batches_of(replica, end_offset)) for replica in replicas]
    if any(content != contents[0] for content in contents[1:]):
        message = f"{replicas[0].topic_partition}: replicas differ below {end_offset}"
        raise Violation(message, check="replicas-differ")


def assigned_replicas(cluster: SimCluster) -> dict[TopicPartition, list[tuple[str, Partition]]]:
    """Of every partition that there is, those that its metadata names and whose brokers run; leader first."""
    held = {
        (machine.config.node_id, replica.key): (machine.name, replica)
        for machine in cluster.brokers
        if machine.broker is not None
        for replica in machine.broker.replicas
    }
    found: dict[TopicPartition, list[tuple[str, Partition]]] = {}
    for name, partition in partitions_of(newest_image(cluster)):
        key = ReplicaKey(partition.topic_id, partition.partition)
        replicas = [held[number, key] for number in partition.replicas if (number, key) in held]
        found[name] = sorted(replicas, key=lambda each: each[1].leadership is None)
    return found


def final_state(
    cluster: SimCluster,
    *,
    may_delete: Collection[str],
    losses: Mapping[TopicPartition, tuple[AcceptedLoss, ...]],
    keys: Mapping[str, Mapping[bytes, SentKey]],
    counters: Mapping[str, int],
    expected: tuple[str, ...],
) -> FinalState:
    """For the checks, once the cluster is whole and everything is committed. ``expected``: counters.

    ``keys``: of topics that are compacted, as far as they have a history.
    """
    partitions = {}
    for name, replicas in assigned_replicas(cluster).items():
        leader = replicas[0][1]
        state = leader.state
        assert state is not None
        partitions[name] = FinalPartition(
            high_watermark=leader.high_watermark,
            records=records_of(leader, leader.high_watermark),
            copies={machine: _copy(replica, leader.high_watermark) for machine, replica in replicas},
            log_start_offset=leader.log.log_start_offset,
            may_delete=name.topic in may_delete,
            unclean_leader_epochs=tuple(state.image.unclean_leader_epochs),
            losses=losses.get(name, ()),
            keys=keys.get(name.topic, {}) if leader.log.config.compacts else None,
        )
    return FinalState(partitions=partitions, counters=counters, expected=expected)


def _copy(replica: Partition, end_offset: Offset) -> CopyOfLog:
    batches: dict[Offset, bytes] = {}
    try:
        for batch in _each_batch(replica, end_offset):
            batches[Offset(parse_header(batch).base_offset)] = bytes(batch)
    except (QuorateError, Violation) as error:
        return CopyOfLog(batches, (str(error),))
    return CopyOfLog(batches)
