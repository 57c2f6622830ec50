"""Every partition's log in one data directory.

    <topic>-<partition>.<topic id>/        one log each
    <topic>-<partition>.<topic id>.gone/   a log that is being deleted

A log goes only when the cluster has decided so, by topic id; none is ever taken for an orphan (rule 42). It
is renamed first, so that a crash leaves either all of it or something that no start takes for a log, and that
the next one may finish deleting.

Who else uses the directory, and how the process before this one ended, is the owner's business: it says how
far the logs may be trusted (``StartKind``), and it decides by the answer to ``close``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from quorate.core.disk import lacks_descriptors
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import (
    DiskFull,
    InvalidTopic,
    LogDamaged,
    QuorateError,
    StorageError,
    StorageFailed,
    TooManyOpenFiles,
    TopicAlreadyExists,
)
from quorate.storage.descriptors import too_many_open_files, with_descriptors
from quorate.storage.file_writes import make_durable_directory
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext, is_disk_full
from quorate.storage.partition_key import PartitionKey
from quorate.storage.partition_log import PartitionLog
from quorate.storage.recovery import StartKind

__all__ = ["LogDirectory"]

log = get_logger(__name__)

#: each waits for the device most of the time: enough at once to keep it busy
_AT_ONCE: Final = 16
#: short, since the longest name of a partition leaves little room to the 255 bytes that a name may have
_GONE_SUFFIX: Final = ".gone"


class LogDirectory:
    """All methods belong to one event loop."""

    def __init__(self, context: LogContext, path: str, *, start: StartKind) -> None:
        """For ``open``."""
        self.context = context
        self._path = path
        #: how far logs of the processes before this one may be trusted
        self.start = start
        self._logs: dict[PartitionKey, PartitionLog] = {}
        #: logs that are here and could not be opened, and why
        self.failures: dict[PartitionKey, StorageError] = {}
        #: logs whose last maintenance failed, and whose last compaction did
        self._neglected: set[PartitionKey] = set()
        self._uncompacted: set[PartitionKey] = set()

    @classmethod
    async def open(cls, context: LogContext, path: str, *, start: StartKind) -> LogDirectory:
        """The caller makes sure that no other process uses the directory. Logs stay shut: ``open_logs``."""
        directory = cls(context, path, start=start)
        try:
            await make_durable_directory(context.disk, path)
            for name in context.disk.list(path):
                if PartitionKey.parse(name.removesuffix(_GONE_SUFFIX)) and name.endswith(_GONE_SUFFIX):
                    await directory._delete_files(f"{path}/{name}")
        except OSError as error:
            if lacks_descriptors(error):
                raise too_many_open_files("use", path) from error
            raise StorageFailed(f"cannot use {path} as data directory: {error}", path=path) from error
        return directory

    def partitions_on_disk(self) -> list[PartitionKey]:
        """``StorageError`` if the disk cannot tell; for want of a descriptor ``TooManyOpenFiles``."""
        try:
            names = self.context.disk.list(self._path)
        except OSError as error:
            raise self._failed("list the logs in", self._path, error) from error
        keys = (PartitionKey.parse(name) for name in names)
        return sorted(key for key in keys if key is not None)

    # -- opening and making logs

    async def open_logs(
        self,
        config_for: Callable[[PartitionKey], LogConfig],
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Open every log there is; those that cannot be opened are in ``failures``, and stop no other.

        ``on_progress`` is told after each how many are done, of how many. ``TooManyOpenFiles``: some seconds
        were not enough to get a descriptor. Of such a log nothing is known, least of all that it has failed:
        the start has to come to nothing, which costs nothing (rule 30).
        """
        keys = await self._list_patiently()
        slots = asyncio.Semaphore(_AT_ONCE)
        done = 0

        async def open_one(key: PartitionKey) -> PartitionLog | StorageError:
            nonlocal done
            async with slots:
                outcome = await self._try_to_open(key, config_for(key))
            done += 1
            if on_progress is not None:
                on_progress(done, len(keys))
            return outcome

        lacking: ExceptionGroup[TooManyOpenFiles] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(open_one(key), name="open-log") for key in keys]
        except* TooManyOpenFiles as errors:
            lacking = errors
        if lacking is not None:
            # One is enough to end the start, and says why.
            raise lacking.exceptions[0]
        for key, task in zip(keys, tasks, strict=True):
            outcome = task.result()
            if isinstance(outcome, PartitionLog):
                self._logs[key] = outcome
            else:
                self.failures[key] = outcome

    async def _list_patiently(self) -> list[PartitionKey]:
        async def list_logs() -> list[PartitionKey]:
            return self.partitions_on_disk()

        return await with_descriptors(
            list_logs, self.context.clock, doing="list the logs in", path=self._path
        )

    async def _try_to_open(self, key: PartitionKey, config: LogConfig) -> PartitionLog | StorageError:
        path = self._path_of(key)
        attempt = partial(self._open_log, key, config, self.start)
        try:
            return await with_descriptors(attempt, self.context.clock, doing="open the log in", path=path)
        except TooManyOpenFiles:
            raise
        except StorageError as error:
            log.error("log_not_opened", path=path, code=error.code, error=error.message)
            return error

    async def _open_log(self, key: PartitionKey, config: LogConfig, start: StartKind) -> PartitionLog:
        return await PartitionLog.open(self.context, config, self._path_of(key), start=start)

    def _path_of(self, key: PartitionKey) -> str:
        return f"{self._path}/{key.directory_name}"

    async def create(self, key: PartitionKey, config: LogConfig) -> PartitionLog:
        """A new, empty log; its directory is on the device when this returns.

        If there is one on disk all the same, which could not be opened before, it is the log: it is of the
        same topic, and what it holds is never thrown away unasked. It is opened as it would have been then.
        """
        if PartitionKey.parse(key.directory_name) != key:
            raise InvalidTopic(f"{key.directory_name!r} is no name for a partition", topic=key.topic)
        if key in self._logs:
            raise TopicAlreadyExists(f"{key.directory_name} exists already", topic=key.topic)
        disk = self.context.disk
        try:
            is_new = not disk.exists(self._path_of(key))
            disk.make_directory(self._path_of(key))
            await disk.fsync_directory(self._path)
        except OSError as error:
            raise self._failed("create", self._path_of(key), error) from error
        start = StartKind.PROCESS_CRASH if is_new else self.start
        self._logs[key] = await self._open_log(key, config, start)
        self.failures.pop(key, None)
        return self._logs[key]

    def get(self, key: PartitionKey) -> PartitionLog | None:
        return self._logs.get(key)

    def __iter__(self) -> Iterator[tuple[PartitionKey, PartitionLog]]:
        return iter(list(self._logs.items()))

    # -- deleting

    async def remove(self, key: PartitionKey) -> None:
        """For good: the cluster has decided that this replica is no more (rule 42)."""
        partition_log = self._logs.pop(key, None)
        if partition_log is not None:
            await partition_log.abandon()
        self.failures.pop(key, None)
        self._neglected.discard(key)
        self._uncompacted.discard(key)
        disk, gone = self.context.disk, self._path_of(key) + _GONE_SUFFIX
        try:
            if disk.exists(gone):
                # An earlier one could not be finished. Nothing can be renamed to where files are.
                await self._delete_files(gone)
            if disk.exists(self._path_of(key)):
                disk.rename(self._path_of(key), gone)
                # Else a power loss could bring it back without some of its files.
                await disk.fsync_directory(self._path)
                await self._delete_files(gone)
        except OSError as error:
            raise self._failed("delete", self._path_of(key), error) from error

    async def _delete_files(self, directory: str) -> None:
        disk = self.context.disk
        for name in disk.list(directory):
            disk.unlink(f"{directory}/{name}")
            # Freeing a large file takes the file system a while.
            await asyncio.sleep(0)
        disk.remove_directory(directory)

    def _failed(self, doing: str, path: str, error: OSError) -> StorageError:
        if is_disk_full(error):
            return DiskFull(f"no space left to {doing} {path}", path=path)
        if lacks_descriptors(error):
            return too_many_open_files(doing, path)
        self.context.note_storage_error(doing, path, error)
        return StorageFailed(f"cannot {doing} {path}: {error}", path=path)

    # -- all logs at once

    async def maintain(
        self,
        *,
        deletable_below: Callable[[PartitionKey], Offset],
        on_damage: Callable[[PartitionKey, LogDamaged], None],
    ) -> None:
        """What has to be done now and then, and soon: retention, old segments, recovery points.

        ``on_damage``: called once for each log that this finds damaged.
        """
        for key, partition_log in self:
            await self._try_to(self._tidy, key, partition_log, deletable_below, on_damage, self._neglected)

    async def compact(
        self,
        *,
        high_watermark_of: Callable[[PartitionKey], Offset],
        on_damage: Callable[[PartitionKey, LogDamaged], None],
    ) -> None:
        """One pass over every log that is due; of one log at a time, so that memory for keys is needed once.

        It may take hours, and ``maintain`` goes on beside it: that is what makes room on a disk. A log that
        could not be maintained is left out.
        """
        for key, partition_log in self:
            if key not in self._neglected:
                await self._try_to(
                    self._compact, key, partition_log, high_watermark_of, on_damage, self._uncompacted
                )

    async def _try_to(
        self,
        work: Callable[[PartitionLog, Offset], Awaitable[None]],
        key: PartitionKey,
        partition_log: PartitionLog,
        below: Callable[[PartitionKey], Offset],
        on_damage: Callable[[PartitionKey, LogDamaged], None],
        failed: set[PartitionKey],
    ) -> None:
        """Up to where the replica may. One log's trouble is no reason to neglect the others."""
        if partition_log.damage is not None or self._logs.get(key) is not partition_log:
            return
        try:
            await work(partition_log, below(key))
        except QuorateError as error:
            if self._logs.get(key) is not partition_log:
                return
            # Said once, not every time.
            if key not in failed:
                log.error("maintenance_failed", path=partition_log.directory, error=str(error))
            failed.add(key)
            if isinstance(error, LogDamaged):
                on_damage(key, error)
        else:
            failed.discard(key)

    @staticmethod
    async def _tidy(partition_log: PartitionLog, below: Offset) -> None:
        # Retention first: on a full disk it is what lets the rest succeed.
        await partition_log.apply_retention(below=below)
        partition_log.expire_producers()
        partition_log.roll_if_old()
        await partition_log.checkpoint()

    @staticmethod
    async def _compact(partition_log: PartitionLog, below: Offset) -> None:
        await partition_log.compact(below=below)

    async def close(self) -> bool:
        """Sync and close every log. True if, of all that is sound here, nothing depends on the page cache.

        A quarantined log is let go of as it is: its mark says all there is to say, and is no reason to
        doubt the others.
        """
        slots = asyncio.Semaphore(_AT_ONCE)

        async def close(partition_log: PartitionLog) -> bool:
            async with slots:
                if partition_log.damage is None:
                    return await partition_log.close()
                await partition_log.abandon()
                return True

        results = await asyncio.gather(*map(close, self._logs.values()))
        self._logs.clear()
        return all(results) and not self.failures
