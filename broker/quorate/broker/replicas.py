"""All replicas on this broker, kept in step with the metadata.

Metadata arrives as an image and what changed in it. Whatever can be done at once is: a partition that another
broker leads from now on stops being led here within the same turn of the event loop in which this broker
learns of it, before any other request is looked at. Only making a log waits for the disk; that happens in
``run``, and the replica takes up whatever part the metadata gives it by then.

Nothing here is inferred. A log on disk that the metadata does not mention is left alone; a log goes only when
the metadata says that its topic was deleted, or that this broker has no replica of it any more (rule 42).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from quorate.broker.directory.deletions import LogDeletions
from quorate.broker.hosted import topic_config_of
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig, TopicConfig
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, ReplicaKey, TopicId, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import (
    DiskFull,
    LogDamaged,
    QuorateError,
    StorageError,
    StorageFailed,
    TooManyOpenFiles,
)
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.metadata.topic_settings import durability_of, min_insync_replicas_of
from quorate.storage import LogConfig, LogDirectory, PartitionKey, PartitionLog

__all__ = ["Replicas", "log_config_of"]

log = get_logger(__name__)

#: Making a log waits for the device: enough at once to keep it busy.
_CREATING_AT_ONCE: Final = 32
#: A log that could not be made, or opened, for want of room say, is tried again after this.
_RETRY_S: Final = 5.0
#: these pass without a restart
_PASSING: Final = (DiskFull, TooManyOpenFiles)


class _Leader(NamedTuple):
    """Whom a replica follows: another of these means to begin again."""

    broker_id: BrokerId
    leader_epoch: LeaderEpoch
    address: str


class Replicas:
    def __init__(
        self,
        config: NodeConfig,
        *,
        clock: Clock,
        logs: LogDirectory,
        fetchers: ReplicaFetchers,
        deletions: LogDeletions,
        on_isr_wish: Callable[[Partition], None],
        on_failure: Callable[[ReplicaKey, LeaderEpoch], None],
    ) -> None:
        self._config = config
        self._broker_id = config.node_id
        self._clock = clock
        self._logs = logs
        #: as they were saved by the process before this one, of replicas that have not been taken up since
        self._high_watermarks: dict[PartitionKey, Offset] = {}
        self._fetchers = fetchers
        self._deletions = deletions
        self._on_isr_wish = on_isr_wish
        self._on_failure = on_failure
        self._image: MetadataImage | None = None
        self._replicas: dict[ReplicaKey, Partition] = {}
        #: logs that could not be opened or made, and why
        self._unusable: dict[ReplicaKey, QuorateError] = {}
        self._followed: dict[ReplicaKey, _Leader] = {}
        #: replicas without a log, in the order in which they came
        self._missing: dict[ReplicaKey, None] = {}
        self._is_something_missing = asyncio.Event()
        #: logs that are being made, and those that will be tried again
        self._creating: set[ReplicaKey] = set()
        self._retrying: set[ReplicaKey] = set()
        #: which logs are here could not be seen when the metadata asked for some to go
        self._must_look_again = False

    def recovered(
        self, high_watermarks: Mapping[PartitionKey, Offset], unusable: Mapping[PartitionKey, StorageError]
    ) -> None:
        """Every log there is has been opened, or could not be. Before the first metadata."""
        self._high_watermarks = dict(high_watermarks)
        self._unusable = {ReplicaKey(key.topic_id, key.partition): error for key, error in unusable.items()}

    # -- looking

    def get(self, topic_id: TopicId, partition: PartitionId) -> Partition | QuorateError | None:
        """An error: the replica is here and cannot be used. None: it is not here."""
        name = ReplicaKey(topic_id, partition)
        return self._replicas.get(name) or self._unusable.get(name)

    def is_unusable(self, name: ReplicaKey) -> bool:
        """Whether the replica is here, and neither leads nor follows because its log or disk has failed."""
        found = self.get(*name)
        return isinstance(found, QuorateError) or (found is not None and found.failure is not None)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._replicas.values())

    def led(self) -> Iterable[Partition]:
        return [replica for replica in self._replicas.values() if replica.leadership is not None]

    def is_creating_any_of(self, topic_id: TopicId) -> bool:
        """Whether a log of the topic may appear on disk although the metadata does not want it any more."""
        return any(name.topic_id == topic_id for name in self._creating)

    def high_watermark_of(self, key: PartitionKey) -> Offset:
        """0 where the metadata knows of no replica here: nothing of it may be compacted (rules 42 and 48)."""
        replica = self._replicas.get(ReplicaKey(key.topic_id, key.partition))
        return replica.high_watermark if replica is not None else Offset(0)

    def expire(self, key: PartitionKey) -> Offset:
        """A leader looks what has expired, and tells its followers. As far as this replica may delete by now.

        0 where the metadata knows of no replica here: nothing of it may be deleted (rules 42 and 48).
        """
        replica = self._replicas.get(ReplicaKey(key.topic_id, key.partition))
        if replica is None:
            return Offset(0)
        if replica.leadership is not None:
            replica.leadership.want_log_start()
        return replica.deletable_below

    def high_watermarks(self) -> dict[PartitionKey, Offset]:
        return {_log_key(replica): replica.high_watermark for replica in self._replicas.values()}

    def found_damaged(self, key: PartitionKey, damage: LogDamaged) -> None:
        """By whoever looks after logs: nobody else may read that part of it for long (rule 44)."""
        replica = self._replicas.get(ReplicaKey(key.topic_id, key.partition))
        if replica is not None:
            replica.fail(damage)

    # -- the metadata has changed

    def apply(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """``delta`` None: everything is new."""
        self._image = image
        if delta is None:
            self._report_strangers(image)
            for topic_id in sorted(image.topics):
                self._apply_partitions(image.topics[topic_id].partitions)
            return
        for topic_id in delta.removed_topics:
            for partition in delta.before.topics[topic_id].partitions:
                self._leave(_name(partition))
        is_everything = delta.is_cluster_reconfigured
        for topic_id in sorted(image.topics) if is_everything else delta.reconfigured_topics:
            self._reconfigure(topic_id)
        self._apply_partitions(delta.partitions)
        if delta.brokers:
            # Who may be in an ISR is a matter of brokers, too.
            self._apply_partitions(
                image.topics[replica.topic_id].partitions[replica.topic_partition.partition]
                for replica in list(self)
                if replica.is_to_lead
            )

    def _apply_partitions(self, partitions: Iterable[PartitionImage]) -> None:
        for partition in partitions:
            name = _name(partition)
            if self._broker_id not in partition.replicas:
                self._leave(name)
            elif name in self._replicas:
                self._take_part(self._replicas[name], partition)
            elif name not in self._unusable:
                self._missing[name] = None
                self._is_something_missing.set()
            elif isinstance(self._unusable[name], _PASSING):
                self._retry_later(name)

    def _take_part(self, replica: Partition, partition: PartitionImage) -> None:
        image = self._image
        assert image is not None
        topic = image.topics[partition.topic_id]
        replica.apply(
            PartitionState(
                image=partition,
                min_insync_replicas=min_insync_replicas_of(image, partition),
                durability=durability_of(image, topic),
                brokers=image.brokers,
            )
        )
        leader = image.brokers.get(partition.leader)
        if leader is None or partition.leader == self._broker_id:
            self._unfollow(replica)
            return
        wanted = _Leader(partition.leader, partition.leader_epoch, leader.address)
        name = _name(partition)
        if self._followed.get(name) != wanted:
            self._followed[name] = wanted
            self._fetchers.follow(replica, leader.address)

    def _unfollow(self, replica: Partition) -> None:
        if self._followed.pop(replica.key, None) is not None:
            self._fetchers.unfollow(replica)

    def _reconfigure(self, topic_id: TopicId) -> None:
        image = self._image
        assert image is not None
        topic = image.topics.get(topic_id)
        if topic is None:
            return
        log_config = log_config_of(self._config, topic_config_of(self._config, image, topic))
        for partition in topic.partitions:
            replica = self._replicas.get(_name(partition))
            if replica is not None:
                replica.log.reconfigure(log_config)
                self._take_part(replica, partition)

    def _leave(self, name: ReplicaKey) -> None:
        """On a committed record that says so: this broker has no replica of the partition any more."""
        self._missing.pop(name, None)
        replica = self._replicas.pop(name, None)
        if replica is None:
            if self._unusable.pop(name, None) is not None:
                self._delete_unusable(name)
            return
        self._unfollow(replica)
        replica.stop()
        self._deletions.delete_later(_log_key(replica))

    def _delete_unusable(self, name: ReplicaKey) -> None:
        for key in self._logs_on_disk():
            if (key.topic_id, key.partition) == name:
                self._deletions.delete_later(key)

    def _report_strangers(self, image: MetadataImage) -> None:
        for key in self._logs_on_disk():
            partition = image.partition(key.topic_id, key.partition)
            if key.topic_id in image.removed_topics or (
                partition is not None and self._broker_id not in partition.replicas
            ):
                self._deletions.delete_later(key)
            elif partition is None:
                log.warning("log_of_unknown_topic", directory=key.directory_name)

    def _logs_on_disk(self) -> list[PartitionKey]:
        """None of them where the disk cannot tell, for want of a descriptor above all: then later again."""
        try:
            return self._logs.partitions_on_disk()
        except StorageError as error:
            log.warning("logs_not_listed", code=error.code, error=error.message)
            self._clock.call_later(_RETRY_S, self._look_again)
            return []

    def _look_again(self) -> None:
        self._must_look_again = True
        self._is_something_missing.set()

    # -- logs that have to be made

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._is_something_missing.wait()
            self._is_something_missing.clear()
            if self._must_look_again:
                self._must_look_again = False
                assert self._image is not None
                # What is to go of a replica that could not be used is among these, too.
                self._report_strangers(self._image)
            missing, self._missing = self._missing, {}
            slots = asyncio.Semaphore(_CREATING_AT_ONCE)
            async with asyncio.TaskGroup() as tasks:
                for name in missing:
                    tasks.create_task(self._create_one(name, slots), name="create-log")

    async def _create_one(self, name: ReplicaKey, slots: asyncio.Semaphore) -> None:
        async with slots:
            image = self._image
            assert image is not None
            partition = image.partition(name.topic_id, name.partition)
            if partition is None or self._broker_id not in partition.replicas or name in self._replicas:
                return
            topic = image.topics[name.topic_id]
            key = PartitionKey(topic.name, name.partition, name.topic_id)
            self._creating.add(name)
            try:
                found = await self._open_log(key, topic_config_of(self._config, image, topic))
            except StorageError as error:
                log.error(
                    "log_not_created", directory=key.directory_name, code=error.code, error=error.message
                )
                self._unusable[name] = error
                self._give_up_if_led(partition, error)
                self._retry_later(name)
                return
            finally:
                self._creating.discard(name)
            self._add(key, found)

    def _give_up_if_led(self, partition: PartitionImage, error: StorageError) -> None:
        """A disk that fails makes no log for it: somebody else who can has to lead. A full one gets room."""
        if (
            isinstance(error, StorageFailed)
            and partition.leader == self._broker_id
            and len(partition.isr) > 1
        ):
            self._on_failure(_name(partition), partition.leader_epoch)

    async def _open_log(self, key: PartitionKey, config: TopicConfig) -> PartitionLog:
        await self._deletions.withdraw(key)
        log_config = log_config_of(self._config, config)
        found = self._logs.get(key)
        if found is None:
            return await self._logs.create(key, log_config)
        found.reconfigure(log_config)
        return found

    def _retry_later(self, name: ReplicaKey) -> None:
        if name not in self._retrying:
            self._retrying.add(name)
            self._clock.call_later(_RETRY_S, lambda: self._try_again(name))

    def _try_again(self, name: ReplicaKey) -> None:
        self._retrying.discard(name)
        if self._unusable.pop(name, None) is not None:
            self._missing[name] = None
            self._is_something_missing.set()

    def _add(self, key: PartitionKey, partition_log: PartitionLog) -> None:
        """The metadata may have changed while the log was made."""
        image = self._image
        assert image is not None
        name = ReplicaKey(key.topic_id, key.partition)
        partition = image.partition(*name)
        if partition is None or self._broker_id not in partition.replicas:
            self._deletions.delete_later(key)
            return
        replica = Partition(
            TopicPartition(key.topic, key.partition),
            key.topic_id,
            partition_log,
            broker_id=self._broker_id,
            clock=self._clock,
            # Of the log as this process found it. What it became since, only its replica knew.
            high_watermark=self._high_watermarks.pop(key, Offset(0)),
            replica_lag_s=self._config.replica_lag_time_max_ms / 1000,
            on_isr_wish=self._on_isr_wish,
            on_failure=lambda failed: self._on_failure(failed.key, failed.leader_epoch),
        )
        self._replicas[name] = replica
        self._take_part(replica, partition)

    def stop(self) -> None:
        """End what waits for replicas; the logs stay open for their owner to close."""
        for replica in self._replicas.values():
            replica.stop()


def log_config_of(config: NodeConfig, topic: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        index_interval_bytes=topic.index_interval_bytes,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        max_message_bytes=topic.max_message_bytes,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        cleanup_policy=topic.cleanup_policy,
        delete_retention_ms=topic.delete_retention_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
    )


def _name(partition: PartitionImage) -> ReplicaKey:
    return ReplicaKey(partition.topic_id, partition.partition)


def _log_key(replica: Partition) -> PartitionKey:
    topic, partition = replica.topic_partition
    return PartitionKey(topic, partition, replica.topic_id)
