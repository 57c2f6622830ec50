"""One real replica on a simulated disk, and the metadata that tells it its part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from immutables import Map

from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.chaos.sim.disk import SimDisk
from quorate.core.clock import Clock
from quorate.core.config import Durability
from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from quorate.core.records import LEADER_EPOCH_END, encode_values, parse_header, stamped_prefix
from quorate.metadata.image import BrokerImage, PartitionImage
from quorate.storage import LogConfig, LogContext, OpenFiles, PartitionLog, StartKind

TOPIC_ID: Final = TopicId("topic-topic-topic-top1")
CONFIG: Final = LogConfig(segment_bytes=4_000, retention_ms=-1, max_message_bytes=100_000)
EVERYTHING: Final = 1 << 30
_TIMESTAMP: Final = 1_767_225_600_000


def client_batch(*values: bytes) -> bytes:
    """As a producer sends it."""
    return encode_values(values or (b"v",), timestamp_ms=_TIMESTAMP)


def leader_batch(base_offset: int, leader_epoch: int, *values: bytes) -> bytes:
    """As a leader has it in its log."""
    batch = client_batch(*values)
    prefix = stamped_prefix(
        parse_header(batch), base_offset=Offset(base_offset), leader_epoch=LeaderEpoch(leader_epoch)
    )
    return bytes(prefix) + batch[LEADER_EPOCH_END:]


def bytes_of(partition: Partition, end_offset: int | None = None) -> bytes:
    """The log from its start."""
    log = partition.log
    end = log.log_end_offset if end_offset is None else Offset(end_offset)
    found, offset = b"", log.log_start_offset
    while offset < end:
        read = log.read(offset, bytes_max=EVERYTHING, end_offset=end)
        found, offset = found + read.batches, read.next_offset
    return found


def image(
    *,
    leader: int,
    leader_epoch: int,
    isr: Sequence[int] = (1, 2, 3),
    number: int = 0,
    replicas: Sequence[int] = (1, 2, 3),
    partition_epoch: int | None = None,
    adding: Sequence[int] = (),
    elr: Sequence[int] = (),
    unclean: Sequence[int] = (),
) -> PartitionImage:
    return PartitionImage(
        topic_id=TOPIC_ID,
        partition=PartitionId(number),
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, isr)),
        elr=tuple(map(BrokerId, elr)),
        last_known_elr=(),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=10 * leader_epoch if partition_epoch is None else partition_epoch,
        adding_replicas=tuple(map(BrokerId, adding)),
        unclean_leader_epochs=tuple(map(LeaderEpoch, unclean)),
    )


def brokers_of(epochs: dict[int, int]) -> Map[BrokerId, BrokerImage]:
    """By broker id; all are well."""
    return Map(
        {
            BrokerId(broker_id): BrokerImage(
                broker_id=BrokerId(broker_id),
                broker_epoch=BrokerEpoch(epoch),
                incarnation_id=f"{broker_id}-{epoch}",
                directory_id=f"directory-{broker_id}",
                address=address_of(broker_id),
                rack="",
                feature_level_min=1,
                feature_level_max=1,
                is_fenced=False,
                is_shutting_down=False,
                is_draining=False,
            )
            for broker_id, epoch in epochs.items()
        }
    )


def address_of(broker_id: int) -> str:
    return f"b{broker_id}:9092"


def state_of(
    partition: PartitionImage,
    *,
    durability: Durability = Durability.REPLICATED,
    min_insync_replicas: int = 1,
    broker_epochs: dict[int, int] | None = None,
) -> PartitionState:
    epochs = broker_epochs or dict.fromkeys((1, 2, 3), 1)
    return PartitionState(partition, min_insync_replicas, durability, brokers_of(epochs))


def _end_process(reason: str) -> NoReturn:
    raise RuntimeError(reason)


async def open_replica(
    disk: SimDisk,
    clock: Clock,
    *,
    broker_id: int,
    number: int = 0,
    high_watermark: int = 0,
    start: StartKind = StartKind.PROCESS_CRASH,
    config: LogConfig = CONFIG,
    on_isr_wish: Callable[[Partition], None] = lambda _: None,
    on_failure: Callable[[Partition], None] = lambda _: None,
) -> Partition:
    directory = f"/data/t-{number}"
    for parent, path in (("/", "/data"), ("/data", directory)):
        if not disk.exists(path):
            disk.make_directory(path)
            await disk.fsync_directory(parent)
    context = LogContext(disk, clock, OpenFiles(disk, files_max=16), _end_process)
    log = await PartitionLog.open(context, config, directory, start=start)
    return Partition(
        TopicPartition(TopicName("t"), PartitionId(number)),
        TOPIC_ID,
        log,
        broker_id=BrokerId(broker_id),
        clock=clock,
        high_watermark=Offset(high_watermark),
        replica_lag_s=10.0,
        on_isr_wish=on_isr_wish,
        on_failure=on_failure,
    )


def with_changes(partition: PartitionImage, **changes: object) -> PartitionImage:
    return dataclasses.replace(partition, **changes)  # type: ignore[arg-type]  # fields of any type
