"""A broker's data directory, from the moment a process takes it to the moment it lets go.

    .lock              held while a process uses the directory
    broker-identity    directory id, node, cluster (``identity``)
    run-notes          the last process that served, and how it ended (``run_notes``)
    high-watermarks    a lower bound for each replica (``high_watermarks``)
    cache-witness      whether the page cache has survived (``cache_witness``)
    device-witness     whether this is an old copy (``device_witness``)
    <topic>-<partition>.<topic id>/   one log each (``quorate.storage.LogDirectory``)

A node that is a controller too has its quorum's files in a directory of their own below this one, with a lock
and an identity of their own.

The steps of a start, each on the device before the next begins (rule 30):

1. ``open``: the lock, whose directory it is, how the last process ended.
2. ``recover_logs``: every log is opened, and if the last process did not stop cleanly, checked and synced;
   then the witnesses are synced.
3. ``note_incarnation``: from here on the controller may know of this process.
4. The caller registers, with ``previous_run`` and ``damaged``.
5. ``note_epoch``: from here on the controller may unfence it, so from here on the notes are about this run.
6. ``advance_cache_witness`` before each heartbeat, and ``advance_device_witness`` now and then.

``close`` notes a clean stop if it was one: every log synced and closed, the cache witness, too, and no
storage error ever (rule 31).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Self

from quorate.broker.directory.cache_witness import CacheWitness
from quorate.broker.directory.device_witness import DeviceWitness
from quorate.broker.directory.identity import (
    DirectoryIdentity,
    check_owner,
    new_identity,
    read_identity,
    write_identity,
)
from quorate.broker.directory.run_notes import (
    NO_BROKER_EPOCH,
    RunNotes,
    RunNotesFile,
    read_run_notes,
    start_kind_of,
)
from quorate.core.disk import Disk, File, lacks_descriptors
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.core.logging import get_logger
from quorate.errors import DiskFull, StorageError, StorageFailed
from quorate.storage import LogConfig, LogContext, LogDirectory, PartitionKey, StartKind
from quorate.storage.data_directory_files import LOCK_NAME
from quorate.storage.descriptors import too_many_open_files, with_descriptors
from quorate.storage.file_writes import make_durable_directory
from quorate.storage.log_context import is_disk_full, tolerate_full_disk
from quorate.v1.controller_pb2 import PreviousRun, ReplicaName

__all__ = ["BrokerDirectory", "Uptime"]

log = get_logger(__name__)

_PROGRESS_EVERY_S: Final = 1.0
_UNKNOWN: Final = ""


class Uptime(NamedTuple):
    """Of the machine, and what is mounted in it: as long as both stay, so does the page cache."""

    boot_id: str
    file_system_id: str

    @classmethod
    def of(cls, disk: Disk, path: str) -> Self:
        """Read once, when a process begins: later there may be no descriptor to read it with."""
        return cls(disk.boot_id(), disk.file_system_id(path))


class BrokerDirectory:
    """Belongs to one event loop. ``open`` makes one."""

    def __init__(
        self,
        context: LogContext,
        path: str,
        lock: File,
        identity: DirectoryIdentity,
        configured_cluster_id: str | None,
        found: RunNotes,
        uptime: Uptime,
        witness: CacheWitness,
        device_witness: DeviceWitness,
        logs: LogDirectory,
    ) -> None:
        self._context = context
        self._path = path
        self._lock = lock
        self._identity = identity
        self._configured_cluster_id = configured_cluster_id
        #: the notes as this process found them
        self._found = found
        #: the one that this process runs in
        self._uptime = uptime
        self._file = RunNotesFile(context, path, found)
        self._witness = witness
        self._device_witness = device_witness
        self._is_recovered = False
        self._has_epoch = False
        #: logs that end before what they once held, without a batch that is damaged
        self._shortened: tuple[PartitionKey, ...] = ()
        self.logs = logs

    @classmethod
    async def open(
        cls,
        context: LogContext,
        path: str,
        *,
        node_id: BrokerId,
        cluster_id: str | None,
        random_bytes: Callable[[int], bytes],
    ) -> BrokerDirectory:
        """Take the directory for this process; make it if need be. ``cluster_id`` None: whatever it says."""
        disk = context.disk
        lock = await _lock(disk, path)
        try:
            identity = read_identity(disk, path)
            if identity is None:
                identity = new_identity(node_id, random_bytes)
                await _format(context, path, identity)
            check_owner(path, identity, node_id, cluster_id)
            found = read_run_notes(disk, path)
            if found is None or found.directory_id != identity.directory_id:
                found = _without_history(disk, path, identity)
            witness = CacheWitness(context, path)
            device_witness = DeviceWitness(context, path)
            uptime = Uptime.of(disk, path)
            start = start_kind_of(found, is_same_boot=_is_same_boot(found, uptime))
            logs = await LogDirectory.open(context, path, start=start)
        except BaseException as error:
            lock.close()
            if isinstance(error, OSError):
                raise _cannot_use(path, error) from error
            raise
        directory = cls(
            context, path, lock, identity, cluster_id, found, uptime, witness, device_witness, logs
        )
        context.on_storage_error = directory._note_storage_error
        context.on_recovery_damage = directory._note_unsound_log
        return directory

    # -- what it is

    @property
    def path(self) -> str:
        return self._path

    @property
    def directory_id(self) -> str:
        return self._identity.directory_id

    @property
    def cluster_id(self) -> str | None:
        """Until the first registration what the configuration calls it, or None."""
        return self._identity.cluster_id or self._configured_cluster_id

    @property
    def start(self) -> StartKind:
        """How far the logs could be trusted, as far as this directory can tell."""
        return self.logs.start

    @property
    def failures(self) -> Mapping[PartitionKey, StorageError]:
        """Logs that could not be opened, and why."""
        return self.logs.failures

    # -- a start, step by step

    async def recover_logs(self, config_for: Callable[[PartitionKey], LogConfig]) -> None:
        """Open every log; those that cannot be opened are in ``failures``, and stop no other.

        ``TooManyOpenFiles`` is no reason to give a log up: the start ends, and has cost nothing.
        """
        clock = self._context.clock
        said_at = began = clock.monotonic()
        log.info("recovering_logs", path=self._path, start=self.start.value)

        def progress(done: int, total: int) -> None:
            nonlocal said_at
            now = clock.monotonic()
            if now - said_at >= _PROGRESS_EVERY_S:
                said_at = now
                log.info("recovering_logs", path=self._path, done=done, total=total)

        await self.logs.open_logs(config_for, progress)
        await self._begin_witness(self._witness)
        await self._begin_witness(self._device_witness)
        self._is_recovered = True
        log.info(
            "logs_recovered",
            path=self._path,
            logs=len(list(self.logs)),
            failed=len(self.failures),
            damaged=len(self.damaged()),
            seconds=round(clock.monotonic() - began, 3),
        )

    async def _begin_witness(self, witness: CacheWitness | DeviceWitness) -> None:
        async def begin() -> None:
            with tolerate_full_disk("make a witness", self._path):
                await witness.begin()

        await self._write("make or sync a witness", begin)

    async def _write(self, doing: str, write: Callable[[], Awaitable[None]]) -> None:
        """``write`` may be repeated. Before this process serves nobody waits for it but the start."""
        try:
            await with_descriptors(write, self._context.clock, doing=f"{doing} in", path=self._path)
        except OSError as error:
            raise self._failed(doing, error) from error

    def note_shortened(self, keys: Iterable[PartitionKey]) -> None:
        """Before the registration. What shows it stays on disk until then, for the next process to see."""
        self._shortened = tuple(keys)

    def previous_run(self) -> PreviousRun | None:
        """For the registration: how the process before this one ended. None: there was none."""
        assert self._is_recovered, "whether the logs are intact is known once they are recovered"
        found = self._found
        if not found.is_history:
            return None
        return PreviousRun(
            broker_epoch=found.broker_epoch,
            is_clean=found.is_clean and found.storage_error is None,
            is_same_boot=_is_same_boot(found, self._uptime),
            is_intact=self._is_intact(),
            unnoted_incarnation_ids=found.unnoted_incarnation_ids,
            cache_witness=self._witness.found,
            device_witness=self._device_witness.found,
        )

    def _is_intact(self) -> bool:
        """Also of the processes since the last run, this one included."""
        if self._found.storage_error is not None or self._context.storage_error is not None:
            return False
        return not self._file.notes.unsound_logs and not self.failures

    def damaged(self) -> list[ReplicaName]:
        """For the registration: replicas that lack records, or may lack some, whatever their durability."""
        keys = {PartitionKey.parse(name) for name in self._file.notes.unsound_logs}
        keys |= {key for key, partition_log in self.logs if partition_log.damage is not None}
        keys |= {*self.failures, *self._shortened}
        names = sorted({(key.topic_id, key.partition) for key in keys if key is not None})
        return [ReplicaName(topic_id=topic_id, partition=partition) for topic_id, partition in names]

    async def note_incarnation(self, incarnation_id: str) -> None:
        """Before the first registration is sent."""
        assert self._is_recovered

        async def note() -> None:
            # Without it, a process that dies before it notes its epoch leaves a stranger's directory behind.
            with tolerate_full_disk("note the incarnation", self._path):
                await self._file.change(lambda notes: notes.with_incarnation(incarnation_id))

        await self._write("note the incarnation", note)

    async def note_epoch(self, broker_epoch: BrokerEpoch, cluster_id: str) -> None:
        """Registered. Must return before the broker asks to be unfenced, leads or follows."""
        assert self._is_recovered
        check_owner(self._path, self._identity, self._identity.node_id, cluster_id)
        context = self._context
        notes = RunNotes(
            directory_id=self.directory_id,
            broker_epoch=broker_epoch,
            boot_id=self._uptime.boot_id,
            file_system_id=self._uptime.file_system_id,
            is_clean=False,
        )

        async def note() -> None:
            if self._identity.cluster_id is None:
                identity = replace(self._identity, cluster_id=cluster_id)
                await write_identity(context.disk, self._path, identity, clock=context.clock)
                self._identity = identity
            await self._replace_notes(notes)

        await self._write("note the epoch", note)
        self._has_epoch = True

    async def _replace_notes(self, notes: RunNotes) -> None:
        try:
            await self._file.change(lambda _: notes)
        except OSError as error:
            if not is_disk_full(error):
                raise
            # A node whose disk is full has to start, but the old notes may not vouch for what it does now.
            await self._file.drop(notes)
            # Their room may be just enough for the new ones.
            with tolerate_full_disk("note the epoch", self._path):
                await self._file.change(lambda _: notes)

    # -- what comes up

    def advance_cache_witness(self) -> int | None:
        """Before a heartbeat leaves: the number that it carries. None: there is no witness."""
        return self._witness.advance()

    async def advance_device_witness(self) -> None:
        """Now and then, once registered: the next number is on the device when this returns."""
        assert self._has_epoch, "before the registration the number that was found is evidence"
        await self._device_witness.advance()

    @property
    def device_witness(self) -> int | None:
        """For a heartbeat: the highest number that is on the device. None: there is none yet."""
        return self._device_witness.number

    def _note_storage_error(self) -> None:
        assert self._context.storage_error is not None
        self._file.note_storage_error(self._context.storage_error)

    async def _note_unsound_log(self, directory: str) -> None:
        name = directory.rpartition("/")[2]
        await self._file.change(lambda notes: notes.with_unsound_log(name))

    def _failed(self, doing: str, error: OSError) -> StorageError:
        if is_disk_full(error):
            return DiskFull(f"no space left to {doing} in {self._path}", path=self._path)
        if lacks_descriptors(error):
            return too_many_open_files(f"{doing} in", self._path)
        self._context.note_storage_error(doing, self._path, error)
        return StorageFailed(f"cannot {doing} in {self._path}: {error}", path=self._path)

    # -- the end

    async def close(self) -> bool:
        """Close every log. True if the stop is on record as a clean one (rules 30 and 31)."""
        is_closed = await self.logs.close()
        is_clean = is_closed and self._is_recovered and self._context.storage_error is None
        if is_clean:
            is_clean = await self._seal_witness()
        if is_clean and self._has_epoch:
            try:
                await self._file.change(lambda notes: replace(notes, is_clean=True))
            except OSError as error:
                # It may say so all the same, if only its name was not synced. For want of a descriptor that
                # is the truth, all else is on the device; if the device has failed, this takes it back.
                if not is_disk_full(error) and not lacks_descriptors(error):
                    self._context.note_storage_error("note the clean stop in", self._path, error)
        self._witness.close()
        await self._device_witness.close()
        self._lock.close()
        notes = self._file.notes
        return is_clean and notes.is_clean and notes.storage_error is None

    async def _seal_witness(self) -> bool:
        """Before the marker: the next start may ask for this number even though the stop was clean."""
        try:
            await self._witness.seal()
        except OSError as error:
            self._context.note_storage_error("sync the cache witness in", self._path, error)
            return False
        return True


async def _lock(disk: Disk, path: str) -> File:
    try:
        await make_durable_directory(disk, path)
        return disk.lock(f"{path}/{LOCK_NAME}")
    except BlockingIOError as error:
        raise StorageFailed(f"{path} is used by another process", path=path) from error
    except OSError as error:
        raise _cannot_use(path, error) from error


async def _format(context: LogContext, path: str, identity: DirectoryIdentity) -> None:
    """The directory is used for the first time. Logs without an identity are not its to take over."""
    disk = context.disk
    if any(PartitionKey.parse(name) for name in disk.list(path)):
        raise StorageFailed(
            f"{path} holds logs, but the file that says whose they are is missing. Put it back from a "
            "backup, or give the node an empty data.dir; it then fetches its replicas anew",
            path=path,
        )
    await write_identity(disk, path, identity, clock=context.clock)
    # A process that died between making the directory and this may have left its name unsynced.
    await disk.fsync_directory(path.rpartition("/")[0] or "/")
    log.info("data_directory_formatted", path=path, directory_id=identity.directory_id)


def _without_history(disk: Disk, path: str, identity: DirectoryIdentity) -> RunNotes:
    """No notes, or another directory's. Where there are no logs either, there is nothing to doubt."""
    is_empty = not any(PartitionKey.parse(name) for name in disk.list(path))
    return RunNotes(identity.directory_id, NO_BROKER_EPOCH, _UNKNOWN, _UNKNOWN, is_clean=is_empty)


def _is_same_boot(notes: RunNotes, uptime: Uptime) -> bool:
    """Whether the page cache that the last process wrote to is still the one that is read from."""
    return Uptime(notes.boot_id, notes.file_system_id) == uptime


def _cannot_use(path: str, error: OSError) -> StorageError:
    if is_disk_full(error):
        return DiskFull(f"no space left to start in {path}: {error}", path=path)
    if lacks_descriptors(error):
        return too_many_open_files("start in", path)
    return StorageFailed(f"cannot use {path} as data directory: {error}", path=path)
