"""All topics of a node: opened at start, found by every request, made by CreateTopic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from quorate.broker.local_metadata import LocalMetadata, TopicEntry
from quorate.broker.partition import Partition
from quorate.broker.topic import Topic
from quorate.core.config import NodeConfig, TopicConfig
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicPartition
from quorate.core.logging import get_logger
from quorate.core.topic_names import check_partition_count, check_topic_name, topic_id_from
from quorate.errors import (
    DiskFull,
    InvalidConfig,
    InvalidRequest,
    QuorateError,
    StorageError,
    StorageFailed,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from quorate.storage import LogConfig, LogDirectory, PartitionKey, PartitionLog

__all__ = ["TopicRegistry"]

log = get_logger(__name__)

T = TypeVar("T")

#: logs between two reports while a start takes long
_PROGRESS_EVERY: Final = 100

#: Taking the lead and making a log wait for the device: enough at once to keep it busy.
_PARTITIONS_AT_ONCE: Final = 32


class TopicRegistry:
    def __init__(
        self,
        config: NodeConfig,
        directory: LogDirectory,
        metadata: LocalMetadata,
        *,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._config = config
        self._directory = directory
        self._metadata = metadata
        self._random_bytes = random_bytes
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[str, Topic] = {}
        #: one creation at a time: checking a name and taking it lie an await apart
        self._creating = asyncio.Lock()
        self._creations: set[asyncio.Task[Topic]] = set()

    # -- finding

    def find(self, name: str, topic_id: str) -> Topic:
        """By name, by id, or by both, which then have to agree (rule 43)."""
        if not name and not topic_id:
            raise InvalidRequest("a topic is named by its name or by its id; both are missing")
        topic = self._by_id.get(topic_id) if topic_id else self._by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(
                f"there is no topic {name or topic_id}", topic=name or None, topic_id=topic_id or None
            )
        if name and topic.name != name:
            raise UnknownTopicOrPartition(
                f"topic id {topic_id} belongs to {topic.name}, not to {name}", topic=name, topic_id=topic_id
            )
        return topic

    def all(self) -> list[Topic]:
        """Sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partitions(self) -> list[Partition]:
        """Every partition that is served."""
        return [each for topic in self.all() for each in topic.partitions if isinstance(each, Partition)]

    def high_watermark_of(self, key: PartitionKey) -> Offset:
        """0 for a partition that is not served: nothing of it may be deleted (rules 42 and 48)."""
        topic = self._by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return Offset(0)
        partition = topic.partitions[key.partition]
        return partition.high_watermark if isinstance(partition, Partition) else Offset(0)

    # -- opening

    async def open(self) -> None:
        """Open, and where need be recover, every log; then lead every partition of every known topic."""
        topics = {entry: self._config_of(entry) for entry in self._metadata.topics()}
        await self._open_logs({key: config for entry, config in topics.items() for key in _keys(entry)})
        for entry, config in topics.items():
            partitions = tuple(self._existing_partition(key, config) for key in _keys(entry))
            self._add(Topic(entry.name, entry.topic_id, entry.configs, config, partitions))
        await self.lead_waiting()

    def _config_of(self, entry: TopicEntry) -> TopicConfig:
        try:
            return self._config.topic_config(entry.configs)
        except InvalidConfig as error:
            # Accepted once; the node's own configuration has changed since.
            raise InvalidConfig(f"topic {entry.name}: {error.message}", topic=entry.name) from error

    async def _open_logs(self, configs: Mapping[PartitionKey, TopicConfig]) -> None:
        def config_for(key: PartitionKey) -> LogConfig:
            return self._log_config(configs.get(key, self._config.topic_defaults))

        total = len(self._directory.partitions_on_disk())
        log.info("opening_logs", logs=total, start=self._directory.start.value)
        opened = scanned_bytes = cut_bytes = 0
        async for key, partition_log in self._directory.open_logs(config_for):
            opened += 1
            scanned_bytes += partition_log.opening_report.scanned_bytes
            cut_bytes += partition_log.opening_report.cut_bytes
            if key not in configs:
                log.warning("partition_of_unknown_topic", directory=key.directory_name)
            if opened % _PROGRESS_EVERY == 0:
                log.info("opening_logs_progress", opened=opened, logs=total, scanned_bytes=scanned_bytes)
        log.info("logs_opened", logs=opened, scanned_bytes=scanned_bytes, cut_bytes=cut_bytes)

    def _existing_partition(self, key: PartitionKey, config: TopicConfig) -> Partition | QuorateError:
        """A partition that cannot even be read is represented by the reason; the others go on."""
        partition_log = self._directory.get(key)
        if partition_log is None:
            error: QuorateError = StorageFailed(
                f"the directory {key.directory_name} is missing from {self._config.data_dir}; its records "
                "are gone unless it is put back",
                path=key.directory_name,
            )
        elif partition_log.failure is not None:
            error = partition_log.failure
        else:
            return self._partition(key, partition_log, config)
        log.error("partition_offline", directory=key.directory_name, code=error.code, error=error.message)
        return error

    async def lead_waiting(self) -> None:
        """Lead every partition that is not led yet; one that cannot be is read only until the next try."""
        waiting = [partition for partition in self.partitions() if not partition.is_leading]
        try:
            await self._metadata.persist_epoch()
        except StorageError as error:
            log.error("no_partition_led", partitions=len(waiting), code=error.code, error=error.message)
            for partition in waiting:
                partition.wait_to_lead(error)
            return
        await _all_of(_lead_or_wait(partition) for partition in waiting)

    # -- creating

    async def create(self, name: str, *, partition_count: int, configs: Mapping[str, str]) -> Topic:
        """Make the directories, put the topic on record, and lead its partitions.

        What has begun is finished, even if the caller goes away: a write of the metadata that is
        given up half-way would be in the way of the next one.
        """
        topic_name = check_topic_name(name)
        check_partition_count(name, partition_count)
        topic_id = topic_id_from(self._random_bytes(16))
        entry = TopicEntry(topic_name, topic_id, partition_count, dict(configs))
        creation = asyncio.create_task(self._create(entry, self._config.topic_config(configs)))
        self._creations.add(creation)
        creation.add_done_callback(self._creations.discard)
        return await asyncio.shield(creation)

    async def _create(self, entry: TopicEntry, config: TopicConfig) -> Topic:
        async with self._creating:
            if entry.name in self._by_name:
                raise TopicAlreadyExists(f"there is a topic {entry.name} already", topic=entry.name)
            await self._metadata.persist_epoch()
            partitions = await self._create_partitions(entry, config)
            try:
                await self._metadata.add_topic(entry)
            except DiskFull:
                # After any other error the topic may be on record, and then it needs its directories.
                await self._discard(entry)
                raise
            topic = Topic(entry.name, entry.topic_id, entry.configs, config, partitions)
            self._add(topic)
        log.info("topic_created", topic=entry.name, topic_id=entry.topic_id, partitions=entry.partition_count)
        return topic

    async def _create_partitions(self, entry: TopicEntry, config: TopicConfig) -> tuple[Partition, ...]:
        """All of them; if one cannot be made or led, none is left behind."""
        try:
            return tuple(await _all_of(self._create_partition(key, config) for key in _keys(entry)))
        except QuorateError:
            await self._discard(entry)
            raise

    async def _create_partition(self, key: PartitionKey, config: TopicConfig) -> Partition:
        partition_log = await self._directory.create(key, self._log_config(config))
        partition = self._partition(key, partition_log, config)
        await partition.lead()
        return partition

    async def _discard(self, entry: TopicEntry) -> None:
        for key in _keys(entry):
            await self._directory.discard(key)

    async def stop(self) -> None:
        """Finish creations under way, and end what waits for partitions; the logs stay open."""
        if self._creations:
            await asyncio.wait(self._creations)
        for partition in self.partitions():
            await partition.stop()

    # -- both

    def _partition(self, key: PartitionKey, partition_log: PartitionLog, config: TopicConfig) -> Partition:
        return Partition(
            TopicPartition(key.topic, key.partition),
            key.topic_id,
            partition_log,
            durability=config.durability,
            leader_epoch=LeaderEpoch(self._metadata.broker_epoch),
        )

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _log_config(self, config: TopicConfig) -> LogConfig:
        return LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            index_interval_bytes=config.index_interval_bytes,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            max_message_bytes=config.max_message_bytes,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )


def _keys(entry: TopicEntry) -> list[PartitionKey]:
    numbers = range(entry.partition_count)
    return [PartitionKey(entry.name, PartitionId(number), entry.topic_id) for number in numbers]


async def _lead_or_wait(partition: Partition) -> None:
    try:
        await partition.lead()
    except StorageError as error:
        log.error(
            "partition_not_led", partition=partition.topic_partition, code=error.code, error=error.message
        )
        partition.wait_to_lead(error)


async def _all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Every result in order, a few at a time. If one fails, the rest is finished first, then it is raised."""
    slots = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

    async def run(work: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await work

    outcomes = await asyncio.gather(*map(run, works), return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
