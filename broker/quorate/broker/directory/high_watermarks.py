"""The high watermarks that this broker's replicas knew, kept for the next process (rule 18).

A lower bound, so that after a restart of the whole cluster a leader need not wait for its followers before
it serves what was committed long ago. It is never a truncation point: that is for leader epochs to decide
(rule 8).

What has to hold is that it is never *above* the truth. All that was below a high watermark when it was saved
was committed. But the log may be another one by now: reset and fetched anew, cut after a recovery that
accepted a loss, or shortened by a power loss. So the leader epoch of the last committed batch is saved with
it. A leader writes each offset once, and followers copy it: two logs that have a batch of the same epoch at
the same offset agree on everything before it. If the log has the same epoch there, what lies below is what
was committed then. If it has not, or does not reach that far, the mark is forgotten, and the log start is the
bound.

So an old file does no harm either, and nothing needs a sync.

It is also evidence. What was committed when it was saved had been in the log before, in the page cache like
the file itself, or synced where the topic is. So a log that ends before its mark, or is not there, has lost
its end although every checksum in it is right: a file was cut, a segment or a directory went, or a power loss
took it. The batches that are left are sound and it goes on from them, but the replica does not count until it
has caught up (rules 30 and 44). What was appended since the last save can go without a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from quorate.core.disk import Disk, lacks_descriptors
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.logging import get_logger
from quorate.errors import StorageFailed
from quorate.storage import LogDirectory, PartitionKey, PartitionLog
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_cached
from quorate.storage.data_directory_files import HIGH_WATERMARKS_NAME
from quorate.storage.descriptors import too_many_open_files, with_descriptors
from quorate.storage.log_context import is_disk_full

__all__ = ["HighWatermarkCheckpoint"]

log = get_logger(__name__)

_NOTHING: Final = Offset(0)


class HighWatermarkCheckpoint:
    """One file for all replicas: it is rewritten every few seconds, and a file each would be many writes."""

    def __init__(self, disk: Disk, directory: str, logs: LogDirectory) -> None:
        self._disk = disk
        self._path = f"{directory}/{HIGH_WATERMARKS_NAME}"
        self._logs = logs
        #: by the process before this one: evidence, until the controller has been told
        self._saved: dict[PartitionKey, tuple[Offset, LeaderEpoch]] = {}

    async def read(self) -> None:
        """What the process before this one has saved. A ``StorageError`` has to end the start.

        If the disk cannot tell now, it may to the next process: whoever went on would write over it what the
        logs have now, and nobody would ever know what they once held.
        """

        async def read() -> dict[PartitionKey, tuple[Offset, LeaderEpoch]]:
            return self._read()

        context = self._logs.context
        try:
            self._saved = await with_descriptors(read, context.clock, doing="read", path=self._path)
        except OSError as error:
            if lacks_descriptors(error):
                raise too_many_open_files("read", self._path) from error
            context.note_storage_error("read", self._path, error)
            raise StorageFailed(f"cannot read {self._path}: {error}", path=self._path) from error

    def load(self) -> dict[PartitionKey, Offset]:
        """For every open log: at least its start, at most its end."""
        return {key: _lower_bound(partition_log, self._saved.get(key)) for key, partition_log in self._logs}

    def find_shortened(self) -> list[PartitionKey]:
        """Logs that lack some of what they once held.

        One that is being fetched anew, or was cut because a recovery accepted a loss, may be among them until
        the next save. It is in no ISR, or has a leader that is complete without it: nothing is lost by that.
        """
        found = []
        for key, (high_watermark, epoch) in sorted(self._saved.items()):
            partition_log = self._logs.get(key)
            is_gone = partition_log is None and key not in self._logs.failures
            if is_gone or (partition_log is not None and _lacks(partition_log, high_watermark, epoch)):
                log.error(
                    "log_shortened",
                    directory=key.directory_name,
                    log_end_offset=None if partition_log is None else partition_log.log_end_offset,
                    high_watermark=high_watermark,
                )
                found.append(key)
        return found

    def forget_shortened(self) -> None:
        """The controller has been told. From here on what they hold may count, if an operator decides so."""
        if not self.save(self.load()):
            # Better none than one that speaks against them again.
            with suppress(OSError):
                self._disk.unlink(self._path)

    def save(self, high_watermarks: Mapping[PartitionKey, Offset]) -> bool:
        """To the page cache; whether it is there. Without it, the next start takes a little longer."""
        state = {}
        for key, high_watermark in sorted(high_watermarks.items()):
            partition_log = self._logs.get(key)
            if partition_log is not None and partition_log.log_start_offset < high_watermark:
                epoch = partition_log.leader_epoch_at(Offset(high_watermark - 1))
                state[key.directory_name] = [high_watermark, epoch]
        try:
            write_cached(self._disk, self._path, {"high_watermarks": state})
        except OSError as error:
            log.warning("high_watermarks_not_saved", path=self._path, error=str(error))
            if not is_disk_full(error) and not lacks_descriptors(error):
                self._logs.context.note_storage_error("write", self._path, error)
            return False
        return True

    def _read(self) -> dict[PartitionKey, tuple[Offset, LeaderEpoch]]:
        try:
            state = read_checkpoint(self._disk, self._path)
        except DamagedCheckpoint as error:
            log.warning("high_watermarks_unreadable", path=self._path, error=str(error))
            return {}
        saved = {}
        for name, (high_watermark, epoch) in (state or {"high_watermarks": {}})["high_watermarks"].items():
            key = PartitionKey.parse(name)
            if key is not None:
                saved[key] = (Offset(high_watermark), LeaderEpoch(epoch))
        return saved


def _lacks(partition_log: PartitionLog, high_watermark: Offset, epoch: LeaderEpoch) -> bool:
    """A log with a newer epoch below the mark was cut there for a leader that was forced (rule 11)."""
    return (
        partition_log.damage is None
        and partition_log.log_end_offset < high_watermark
        and partition_log.latest_leader_epoch <= epoch
    )


def _lower_bound(partition_log: PartitionLog, saved: tuple[Offset, LeaderEpoch] | None) -> Offset:
    if partition_log.damage is not None:
        return _NOTHING
    log_start_offset = partition_log.log_start_offset
    if saved is None:
        return log_start_offset
    high_watermark, epoch = saved
    if not log_start_offset < high_watermark <= partition_log.log_end_offset:
        return log_start_offset
    if partition_log.leader_epoch_at(Offset(high_watermark - 1)) != epoch:
        return log_start_offset
    return high_watermark
