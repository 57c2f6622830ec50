"""What must hold of a cluster's logs, given what its clients were told.

Run once the cluster is whole again and quiet. Every check reads the logs of the replicas themselves, not
through the broker's handlers: what the disks hold is the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.history import History
from quorate.core.ids import Offset, TopicPartition
from quorate.core.records import decode_batch, split_batches

__all__ = ["Violation", "check_history", "check_replicas_agree", "records_of", "replicas_of"]

_READ_BYTES: int = 1 << 20


class Violation(AssertionError):
    """A promise was broken."""


def replicas_of(cluster: SimCluster) -> dict[TopicPartition, list[Partition]]:
    """Every replica of every broker that runs."""
    found: dict[TopicPartition, list[Partition]] = {}
    for machine in cluster.brokers:
        if machine.node is not None and machine.node.broker is not None:
            for replica in machine.node.broker.replicas:
                found.setdefault(replica.topic_partition, []).append(replica)
    return found


def batches_of(replica: Partition, end_offset: Offset) -> Iterator[bytes]:
    """Up to ``end_offset``, as they are stored."""
    offset = replica.log.log_start_offset
    while offset < end_offset:
        read = replica.log.read(offset, bytes_max=_READ_BYTES, end_offset=end_offset)
        if not read.batches:
            raise Violation(f"{replica.topic_partition}: nothing to read at {offset}, before {end_offset}")
        yield read.batches
        offset = read.next_offset


def records_of(replica: Partition, end_offset: Offset) -> dict[Offset, bytes]:
    """Value by offset."""
    records: dict[Offset, bytes] = {}
    for batches in batches_of(replica, end_offset):
        for batch in split_batches(batches):
            for record in decode_batch(batch):
                records[Offset(record.offset)] = record.value or b""
    return records


def check_replicas_agree(replicas: Sequence[Partition]) -> None:
    """Byte for byte, up to the lowest high watermark among them (rule 1: log matching)."""
    end_offset = min(replica.high_watermark for replica in replicas)
    contents = [b"".join(batches_of(replica, end_offset)) for replica in replicas]
    if any(content != contents[0] for content in contents[1:]):
        raise Violation(f"{replicas[0].topic_partition}: replicas differ below {end_offset}")


def check_history(history: History, committed: Mapping[TopicPartition, Mapping[Offset, bytes]]) -> None:
    """``committed``: value by offset, of every partition that was written to."""
    for partition, records in committed.items():
        _check_nothing_lost(history, partition, records)
        _check_nothing_twice_nor_refused(history, partition, records)
        _check_order(history, partition, records)
        _check_reads(history, partition, records)


def _check_nothing_lost(history: History, partition: TopicPartition, records: Mapping[Offset, bytes]) -> None:
    for sent in history.acknowledged:
        assert sent.offset is not None
        if sent.partition == partition and records.get(sent.offset) != sent.value:
            raise Violation(
                f"{partition}: {sent.value!r} was acknowledged at {sent.offset}, where "
                f"{records.get(sent.offset)!r} is"
            )


def _check_nothing_twice_nor_refused(
    history: History, partition: TopicPartition, records: Mapping[Offset, bytes]
) -> None:
    counts = Counter(records.values())
    twice = [value for value, count in counts.items() if count > 1]
    if twice:
        raise Violation(f"{partition}: written twice by an idempotent producer: {sorted(twice)[:5]}")
    sent_here = {sent.value: sent for sent in history.sent if sent.partition == partition}
    for value in records.values():
        sent = sent_here.get(value)
        if sent is None:
            raise Violation(f"{partition}: {value!r} was never sent there")
        if sent.is_refused:
            raise Violation(f"{partition}: {value!r} is there, and was refused with {sent.error}")


def _check_order(history: History, partition: TopicPartition, records: Mapping[Offset, bytes]) -> None:
    """A producer's records stand in the order in which they were sent."""
    offsets = {value: offset for offset, value in records.items()}
    last: dict[str, tuple[int, Offset]] = {}
    for sent in history.sent:
        offset = offsets.get(sent.value) if sent.partition == partition else None
        if offset is None:
            continue
        number, before = last.get(sent.producer, (-1, Offset(-1)))
        if offset < before:
            raise Violation(
                f"{partition}: record {sent.number} of {sent.producer} stands at {offset}, before "
                f"record {number} at {before}"
            )
        last[sent.producer] = (sent.number, offset)


def _check_reads(history: History, partition: TopicPartition, records: Mapping[Offset, bytes]) -> None:
    """What a reader was shown stays, and a reader is shown everything in order, once (rule 17)."""
    positions: dict[str, Offset] = {}
    for reader, read_from, offset, value in history.read:
        if read_from != partition:
            continue
        if records.get(offset) != value:
            found = records.get(offset)
            raise Violation(f"{partition}: {reader} read {value!r} at {offset}, where {found!r} is")
        due = positions.get(reader, Offset(0))
        if offset != due:
            raise Violation(f"{partition}: {reader} read offset {offset}, {due} was due")
        positions[reader] = Offset(offset + 1)
