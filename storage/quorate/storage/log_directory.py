"""A node's data directory: every partition's log, and how the process before this one ended.

    .lock                        held while a process uses the directory
    incarnation                  boot id of the machine when every log here was sound at last
    clean-shutdown               present only after a clean stop; holds the broker epoch (rule 30)
    metadata                     the broker's: its topics, and how often it has started
    <topic>-<partition>.<topic id>/   one log each; a recreated topic has another id (rule 43)

The marker is written after every log was synced and closed without an error (rule 31), and removed
at the next start before anything else happens, so that it can never vouch for a later crash.

The boot id is noted once every log is recovered and synced, and not before: of a process that dies on
the way the next start would think that only a process had died, and not the machine before it. A
storage error takes it back: what a failed sync has lost is still in the page cache and looks well.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from quorate.core.disk import Disk, File
from quorate.core.ids import BrokerEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.limits import TOPIC_NAME_CHARACTERS_MAX
from quorate.core.logging import get_logger
from quorate.errors import DiskFull, InvalidTopic, StorageError, StorageFailed, TopicAlreadyExists
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably
from quorate.storage.file_writes import make_durable_directory
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext, is_disk_full, lacks_descriptors, tolerate_full_disk
from quorate.storage.log_state import too_many_open_files
from quorate.storage.partition_log import PartitionLog
from quorate.storage.recovery import StartKind

__all__ = ["INCARNATION_NAME", "MARKER_NAME", "METADATA_NAME", "LogDirectory", "PartitionKey"]

log = get_logger(__name__)

INCARNATION_NAME: Final = "incarnation"
MARKER_NAME: Final = "clean-shutdown"
#: written by the broker; named here with all that lies in the directory
METADATA_NAME: Final = "metadata"

#: closing syncs every log: enough at once to keep the device busy
_CLOSING_AT_ONCE: Final = 16
_LOCK_NAME: Final = ".lock"
_PARTITION_NAME: Final = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]{{1,{TOPIC_NAME_CHARACTERS_MAX}}})-(?P<partition>\d+)\.(?P<id>[\w-]{{22}})"
)


class PartitionKey(NamedTuple):
    topic: TopicName
    partition: PartitionId
    topic_id: TopicId

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}.{self.topic_id}"

    @classmethod
    def parse(cls, directory_name: str) -> PartitionKey | None:
        match = _PARTITION_NAME.fullmatch(directory_name)
        if match is None:
            return None
        return cls(TopicName(match["topic"]), PartitionId(int(match["partition"])), TopicId(match["id"]))


class LogDirectory:
    """All methods belong to one event loop. Logs are opened one by one: see ``open_logs``."""

    def __init__(self, context: LogContext, path: str, lock: File, start: StartKind) -> None:
        """For ``open``."""
        self._context = context
        self._path = path
        self._lock = lock
        self.start = start
        self._logs: dict[PartitionKey, PartitionLog] = {}
        #: every log is recovered and on the device: what this process leaves behind is its own doing
        self._is_recovered = False
        #: logs whose last maintenance failed
        self._neglected: set[PartitionKey] = set()

    @classmethod
    async def open(
        cls, context: LogContext, path: str, *, broker_epoch: BrokerEpoch | None = None
    ) -> LogDirectory:
        """Take the directory for this process and find out how the last one ended.

        ``broker_epoch`` is the last one the cluster knows for this node; a marker of another epoch
        says that the directory is an old copy. None: not known, any counts.
        """
        disk = context.disk
        try:
            await make_durable_directory(disk, path)
            lock = disk.lock(f"{path}/{_LOCK_NAME}")
        except BlockingIOError as error:
            raise StorageFailed(f"{path} is used by another process", path=path) from error
        except OSError as error:
            raise StorageFailed(f"cannot use {path} as data directory: {error}", path=path) from error
        try:
            start = cls._classify(context, path, broker_epoch)
            await cls._remove_marker(disk, path)
            directory = cls(context, path, lock, start)
            context.on_storage_error = directory._forget_boot
            if not directory.partitions_on_disk():
                await directory._note_boot()
        except OSError as error:
            lock.close()
            raise StorageFailed(f"cannot use {path} as data directory: {error}", path=path) from error
        return directory

    @staticmethod
    def _classify(context: LogContext, path: str, broker_epoch: BrokerEpoch | None) -> StartKind:
        try:
            marker = read_checkpoint(context.disk, f"{path}/{MARKER_NAME}")
            incarnation = read_checkpoint(context.disk, f"{path}/{INCARNATION_NAME}")
        except DamagedCheckpoint as damaged:
            log.warning("start_kind_unknown", path=damaged.path, reason=damaged.reason)
            return StartKind.LOSSY
        if marker is not None:
            is_latest = broker_epoch is None or marker["broker_epoch"] == broker_epoch
            return StartKind.CLEAN if is_latest else StartKind.LOSSY
        if incarnation is None:
            is_new = not any(PartitionKey.parse(name) for name in context.disk.list(path))
            return StartKind.CLEAN if is_new else StartKind.LOSSY
        # The page cache outlived the process only if the machine did not restart in between.
        same_boot = incarnation["boot_id"] == context.disk.boot_id()
        return StartKind.PROCESS_CRASH if same_boot else StartKind.LOSSY

    @staticmethod
    async def _remove_marker(disk: Disk, path: str) -> None:
        marker = f"{path}/{MARKER_NAME}"
        if disk.exists(marker):
            disk.unlink(marker)
            await disk.fsync_directory(path)

    async def _note_boot(self) -> None:
        disk = self._context.disk
        # Without it the next start, if this process crashes, counts as lossy: safe, only slower.
        with tolerate_full_disk("note the boot id", self._path):
            await write_durably(disk, f"{self._path}/{INCARNATION_NAME}", {"boot_id": disk.boot_id()})
        self._is_recovered = True

    def _forget_boot(self) -> None:
        """The next start is a lossy one, unless the disk is so broken that not even this can be said."""
        with suppress(OSError):
            self._context.disk.unlink(f"{self._path}/{INCARNATION_NAME}")

    def partitions_on_disk(self) -> list[PartitionKey]:
        keys = (PartitionKey.parse(name) for name in self._context.disk.list(self._path))
        return sorted(key for key in keys if key is not None)

    async def open_logs(
        self, config_for: Callable[[PartitionKey], LogConfig]
    ) -> AsyncIterator[tuple[PartitionKey, PartitionLog]]:
        """Open every log there is, one at a time, so that the caller can report progress."""
        for key in self.partitions_on_disk():
            yield key, await self._open_log(key, config_for(key), self.start)
        if self._context.storage_error is not None:
            return
        try:
            await self._note_boot()
        except OSError as error:
            self._context.note_storage_error("note the boot id in", self._path, error)
            raise StorageFailed(
                f"cannot note the boot id in {self._path}: {error}", path=self._path
            ) from error

    async def _open_log(self, key: PartitionKey, config: LogConfig, start: StartKind) -> PartitionLog:
        directory = f"{self._path}/{key.directory_name}"
        self._logs[key] = await PartitionLog.open(self._context, config, directory, start=start)
        return self._logs[key]

    async def create(self, key: PartitionKey, config: LogConfig) -> PartitionLog:
        """A new, empty log; its directory is on the device when this returns."""
        if PartitionKey.parse(key.directory_name) != key:
            raise InvalidTopic(f"{key.directory_name!r} is no name for a partition", topic=key.topic)
        if key in self._logs:
            raise TopicAlreadyExists(f"{key.directory_name} exists already", topic=key.topic)
        try:
            self._context.disk.make_directory(f"{self._path}/{key.directory_name}")
            await self._context.disk.fsync_directory(self._path)
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"no space left to create {key.directory_name}", path=self._path) from error
            if lacks_descriptors(error):
                raise too_many_open_files("create", key.directory_name) from error
            self._context.note_storage_error("create", key.directory_name, error)
            raise StorageFailed(f"cannot create {key.directory_name}: {error}", path=self._path) from error
        return await self._open_log(key, config, StartKind.PROCESS_CRASH)

    async def discard(self, key: PartitionKey) -> None:
        """Take back ``create``, whether or not it succeeded: for a log that nothing was ever promised of."""
        partition_log = self._logs.pop(key, None)
        if partition_log is not None:
            assert partition_log.log_end_offset == 0, "only a log that never held a record is discarded"
            await partition_log.abandon()
        disk, directory = self._context.disk, f"{self._path}/{key.directory_name}"
        try:
            if disk.exists(directory):
                for name in disk.list(directory):
                    disk.unlink(f"{directory}/{name}")
                disk.remove_directory(directory)
        except OSError as error:
            # An empty log that no topic knows: the next start reports it, and it is in nobody's way.
            log.warning("log_not_discarded", path=directory, error=str(error))

    def get(self, key: PartitionKey) -> PartitionLog | None:
        return self._logs.get(key)

    def __iter__(self) -> Iterator[tuple[PartitionKey, PartitionLog]]:
        return iter(self._logs.items())

    async def maintain(self, high_watermark_of: Callable[[PartitionKey], Offset]) -> None:
        """What has to be done now and then: retention, old segments, recovery points."""
        for key, partition_log in list(self._logs.items()):
            if partition_log.damage is not None:
                continue
            try:
                # Retention first: on a full disk it is what lets the rest succeed.
                await partition_log.apply_retention(high_watermark=high_watermark_of(key))
                partition_log.expire_producers()
                partition_log.roll_if_old()
                await partition_log.checkpoint()
                self._neglected.discard(key)
            except StorageError as error:
                # One log's trouble is no reason to neglect the others. Said once, not every time.
                if key not in self._neglected:
                    log.error("maintenance_failed", path=partition_log.directory, error=str(error))
                self._neglected.add(key)

    async def close(self, *, broker_epoch: BrokerEpoch) -> bool:
        """Close every log; leave the marker if, and only if, all of it went well (rule 31)."""
        slots = asyncio.Semaphore(_CLOSING_AT_ONCE)

        async def close(partition_log: PartitionLog) -> bool:
            async with slots:
                return await partition_log.close()

        results = await asyncio.gather(*map(close, self._logs.values()))
        is_clean = self._is_recovered and all(results) and self._context.storage_error is None
        if is_clean:
            marker = f"{self._path}/{MARKER_NAME}"
            try:
                await write_durably(self._context.disk, marker, {"broker_epoch": broker_epoch})
            except OSError as error:
                self._context.note_storage_error("write marker in", self._path, error)
                is_clean = False
                # It may be there all the same, if only its name was not synced.
                with suppress(OSError):
                    self._context.disk.unlink(marker)
        self._logs.clear()
        self._lock.close()
        return is_clean

    async def abandon(self) -> None:
        """Let go of the directory without a marker: for a start that failed before every log was open."""
        for partition_log in self._logs.values():
            await partition_log.abandon()
        self._logs.clear()
        self._lock.close()
