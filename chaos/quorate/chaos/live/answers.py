"""What a real cluster says it holds in the end: to a reader, to an admin, and in its committed metadata.

Asked once every node is back and nobody writes any more. What the files of the replicas say is another
question, which needs no node: see ``quorate.chaos.live.final_state``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.history import History
from quorate.chaos.live.committed_metadata import committed_metadata
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin, AsyncConsumer
from quorate.client.transport import client_transport
from quorate.core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)

__all__ = ["Answer", "ask"]

#: without a record
_TIMEOUT_S: Final = 60.0

UncleanEpochs = Mapping[TopicPartition, tuple[LeaderEpoch, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """About one partition."""

    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    log_start_offset: Offset
    #: exclusive
    high_watermark: Offset
    #: values by offset, as a reader was shown them
    records: Mapping[Offset, bytes]
    may_delete: bool
    #: empty also where the metadata is out of reach
    unclean_leader_epochs: tuple[LeaderEpoch, ...]


async def ask(
    reach: Reach, history: History, topics: Sequence[str], *, deleting: Collection[str] = ()
) -> dict[TopicPartition, Answer]:
    """``deleting``: topics of which retention may have deleted records. The last reader is in the history."""
    answers: dict[TopicPartition, Answer] = {}
    async with AsyncAdmin(reach.bootstrap) as admin:
        for topic in topics:
            description = await until_whole(admin, topic)
            starts = await _offsets(admin, topic, "earliest")
            read, ends = await _read_all(reach.bootstrap, admin, starts, history)
            unclean = await _unclean_epochs(reach, admin, TopicName(topic))
            for described in description.partitions:
                partition = TopicPartition(TopicName(topic), PartitionId(described.partition))
                answers[partition] = Answer(
                    topic_id=TopicId(description.topic_id),
                    replicas=tuple(sorted(map(BrokerId, described.replicas))),
                    log_start_offset=starts[partition],
                    high_watermark=ends[partition],
                    records=read[partition],
                    may_delete=topic in deleting,
                    unclean_leader_epochs=unclean.get(partition, ()),
                )
    return answers


# -- what readers see


async def _offsets(
    admin: AsyncAdmin, asked: str | Iterable[TopicPartition], at: Literal["earliest", "latest"]
) -> dict[TopicPartition, Offset]:
    listed = await admin.list_offsets(asked, at)
    found: dict[TopicPartition, Offset] = {}
    for partition, each in listed.items():
        assert each.offset is not None, "every log has a beginning and an end"
        found[partition] = Offset(each.offset)
    return found


async def _read_all(
    bootstrap: str, admin: AsyncAdmin, starts: Mapping[TopicPartition, Offset], history: History
) -> tuple[dict[TopicPartition, dict[Offset, bytes]], dict[TopicPartition, Offset]]:
    """Through a consumer, from the beginning; what it saw goes into the history, too. Also where it ends.

    Nobody writes, but what was written last may become committed meanwhile: it ends where it still ends once
    everything up to there was read.
    """
    records: dict[TopicPartition, dict[Offset, bytes]] = {partition: {} for partition in starts}
    positions = dict(starts)
    assignment = history.assign(f"last reader, {history.last_serial}", starts)
    async with AsyncConsumer(bootstrap) as consumer:
        consumer.assign(list(starts))
        while positions != (ends := await _offsets(admin, starts, "latest")):
            polled = await consumer.poll(max_records=5_000, timeout=_TIMEOUT_S)
            if not polled:
                names = ", ".join(str(each) for each, end in ends.items() if positions[each] < end)
                raise Violation(f"no record within {_TIMEOUT_S:g} s, and more in {names}", check="unseen")
            history.polled(assignment, polled)
            for record in polled:
                partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
                records[partition][Offset(record.offset)] = record.value or b""
                positions[partition] = Offset(record.offset + 1)
    history.caught_up(assignment)
    return records, ends


# -- what the metadata says


async def _unclean_epochs(reach: Reach, admin: AsyncAdmin, name: TopicName) -> UncleanEpochs:
    if not reach.controllers:
        return {}
    offset = (await admin.describe_cluster()).metadata_offset
    image = await committed_metadata(client_transport(), reach.controllers, offset)
    topic = image.topic_named(name)
    return {
        TopicPartition(name, partition.partition): partition.unclean_leader_epochs
        for partition in (() if topic is None else topic.partitions)
    }
