"""One broker of a simulated cluster, as the observer sees it: its process while it runs, its disk always.

A look has to cost next to nothing, for there is one after every callback of the process. So of each replica a
few integers and identities are compared with those of the look before (``_Fingerprint``), and only where one
differs is anything done. New batches are read from the simulated disk itself, past the seam: to read through
it would count as an operation, and a disk that is told to fail might fail the observer.

A broker that is down still has a copy of each log: what its next start would find. It is read again when the
process ends, and when something happens to the disk of a machine that is down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.copies import Batch, Copy, Loss, batches_in
from quorate.chaos.invariants.partition_watch import Leading, PartitionWatch, Sighting
from quorate.core.ids import NO_LEADER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, Offset, ReplicaKey
from quorate.core.records import parse_header
from quorate.errors import QuorateError
from quorate.node.node import Node
from quorate.storage import PartitionLog
from quorate.storage.compaction_checkpoint import CompactionCheckpoint
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME
from quorate.storage.log_files import SWAP_SUFFIX, Span
from quorate.storage.quarantine import Damage
from quorate.storage.segment import LOG_SUFFIX, Segment

__all__ = ["BrokerView"]


class _Fingerprint(NamedTuple):
    """What is compared from look to look."""

    log_start_offset: Offset
    log_end_offset: Offset
    durable_end: Offset
    #: as the replica notes it: while its log is cut, this may be beyond the log's end
    noted_high_watermark: Offset
    cuts_under_way: int
    #: replaced when a pass begins, and when it has ended
    compaction: CompactionCheckpoint
    damage: Damage | None
    failure: QuorateError | None
    leadership: Leadership | None
    #: of the leadership: as committed, and the wish that is under way
    isr: object
    wish: object


class _Reading:
    """Of one replica of the process that runs."""

    __slots__ = ("epoch", "fingerprint", "position", "segment")

    def __init__(self) -> None:
        self.fingerprint: _Fingerprint | None = None
        #: up to where its copy was read; None: from the start
        self.segment: Segment | None = None
        self.position = 0
        #: of the last batch that was read
        self.epoch = NO_LEADER_EPOCH


class BrokerView:
    """``watches``: of every partition that there is by the newest metadata; the observer's."""

    def __init__(self, machine: SimMachine, watches: Mapping[ReplicaKey, PartitionWatch]) -> None:
        self.machine = machine
        self.broker_id: BrokerId = machine.config.node_id
        #: when a fault took something: the epoch that the broker was registered with last. None: nothing
        #: is lost, or the broker is back and the controller knows.
        self.lost_in_epoch: BrokerEpoch | None = None
        self._watches = watches
        self._node: Node | None = None
        self._process = ""
        self._unsynced_losses = machine.disk.unsynced_losses
        self._damages = machine.disk.damages
        self._rotten_count = 0
        self._readings: dict[Partition, _Reading] = {}
        #: of every replica that it has
        self._directories: dict[ReplicaKey, str] = {}

    # -- the process and the disk

    @property
    def is_as_before(self) -> bool:
        """The same process runs, or none; and nothing has happened to the disk."""
        disk = self.machine.disk
        return (
            self.machine.node is self._node
            and disk.unsynced_losses == self._unsynced_losses
            and disk.damages == self._damages
            and len(disk.rotten) == self._rotten_count
        )

    def machine_changed(self, registered_epoch: BrokerEpoch) -> None:
        """Its process was killed, stopped or started; or something happened to the disk."""
        disk = self.machine.disk
        for path in disk.rotten[self._rotten_count :]:
            self._note_rot(path)
        self._rotten_count = len(disk.rotten)
        if not self.is_as_before:
            self._begin_anew(registered_epoch)

    def _note_rot(self, path: str) -> None:
        for key, directory in self._directories.items():
            copy = self._watches[key].copies.get(self.broker_id)
            if copy is not None and path.startswith(f"{directory}/"):
                copy.is_rotten = True

    def _begin_anew(self, registered_epoch: BrokerEpoch) -> None:
        """With another process, or none: every copy is what a start would find on the disk now."""
        disk = self.machine.disk
        has_lost_unsynced = disk.unsynced_losses != self._unsynced_losses
        is_damaged = disk.damages != self._damages
        self._node = self.machine.node
        self._unsynced_losses, self._damages = disk.unsynced_losses, disk.damages
        self._process = f"{self.machine.name}#{self.machine.starts}"
        self._readings.clear()
        watches = [self._watches[key] for key in self._directories]
        for watch, directory in zip(watches, self._directories.values(), strict=True):
            copy = watch.copies.get(self.broker_id)
            if copy is None:
                continue
            if is_damaged or copy.is_out_of_service or (has_lost_unsynced and not watch.is_synced):
                copy.lose(is_synced=watch.is_synced)
                self.lost_in_epoch = registered_epoch
            elif copy.is_rotten:
                # What lies behind the bit that rotted is about to be out of sight.
                copy.remember(is_synced=watch.is_synced)
            copy.is_out_of_service = copy.is_quarantined = False
            self._read_disk(copy, directory, is_compacted=watch.compacted is not None)
            if has_lost_unsynced:
                copy.durable_end = copy.log_end_offset
            else:
                copy.durable_end = min(copy.durable_end, copy.log_end_offset)
        for watch in watches:
            if self.broker_id in watch.copies:
                watch.process_ended(self.broker_id)

    def _read_disk(self, copy: Copy, directory: str, *, is_compacted: bool) -> None:
        """What a start would find: up to the first batch that is torn or rotten."""
        copy.empty(copy.log_start_offset)
        try:
            files = self.machine.disk.snapshot(directory).files
        except OSError:
            copy.empty(Offset(0))
            return
        end: Offset | None = None
        for base, content in _segments_in(files):
            if end is not None and base != end:
                return
            copy.add(batches_in(content, is_sound=False, is_compacted=is_compacted))
            end = copy.log_end_offset

    def broker_is_back(self) -> None:
        """Registered and unfenced: what was lost is known, and counts no longer."""
        self.lost_in_epoch = None
        for key in list(self._directories):
            watch = self._watches[key]
            copy = watch.copies.get(self.broker_id)
            if copy is not None and copy.loss is Loss.UNREPORTED:
                copy.report_loss()
                watch.settle()

    def forget(self, key: ReplicaKey) -> None:
        """Its topic is gone."""
        self._directories.pop(key, None)

    # -- the replicas

    def look(self, replicas: Mapping[ReplicaKey, Partition]) -> None:
        """``replicas``: all that the process has now."""
        readings = self._readings
        for replica in replicas.values():
            reading = readings.get(replica)
            if reading is None:
                reading = readings[replica] = _Reading()
            # The fields of ``_Fingerprint``. Past all properties, and written out here: this is what a look
            # costs, and a function of its own would be a third of it.
            log, leadership = replica.log, replica.leadership
            state = log._state
            isr: InSyncReplicas | None = None if leadership is None else leadership._membership.isr
            fingerprint = (
                state.log_start_offset,
                state.segments[-1].next_offset if state.segments else state.log_start_offset,
                log._sync_state._commits.synced_offset,
                replica._high_watermark.offset,
                state.cuts_under_way,
                state.compaction,
                state.damage,
                replica._failure,
                leadership,
                None if isr is None else isr.committed,
                None if isr is None else isr._wish,
            )
            if fingerprint != reading.fingerprint:
                before, reading.fingerprint = reading.fingerprint, _Fingerprint._make(fingerprint)
                self._replica_changed(replica, reading, before, reading.fingerprint)
        if len(replicas) != len(readings):
            self._drop_all_but(list(replicas.values()))

    def _drop_all_but(self, replicas: list[Partition]) -> None:
        kept = {replica.key for replica in replicas}
        for replica in [each for each in self._readings if each not in replicas]:
            del self._readings[replica]
            if replica.key not in kept:
                self._directories.pop(replica.key, None)
                watch = self._watches.get(replica.key)
                if watch is not None:
                    watch.replica_left(self.broker_id)

    def _replica_changed(
        self, replica: Partition, reading: _Reading, before: _Fingerprint | None, now: _Fingerprint
    ) -> None:
        watch = self._watches.get(replica.key)
        if watch is None:
            # Its topic is deleted, and the broker has not heard of that.
            return
        copy = watch.copies.get(self.broker_id)
        if copy is None:
            copy = watch.copies[self.broker_id] = Copy()
        self._directories[replica.key] = replica.log.directory
        copy.is_quarantined = now.damage is not None
        copy.is_out_of_service = copy.is_quarantined or now.failure is not None
        if not copy.is_quarantined and before is not None and before.damage is not None:
            copy.is_rotten = False
            copy.forgotten.clear()
        is_cut = now.cuts_under_way > 0 or (before is not None and before.cuts_under_way > 0)
        high_watermark = replica.high_watermark
        if not copy.is_quarantined:
            start_before_a_crash = copy.log_start_offset
            self._read(watch, copy, replica.log, reading, before, now, is_cut=is_cut)
            if before is None:
                watch.log_start_found(self.broker_id, before=start_before_a_crash, now=now.log_start_offset)
            elif now.log_start_offset != before.log_start_offset and not is_cut:
                watch.log_start_moved(
                    self.broker_id,
                    before=before.log_start_offset,
                    now=now.log_start_offset,
                    high_watermark=high_watermark,
                )
        if before is not None and now.compaction is not before.compaction:
            _note_compaction(watch, before.compaction, now.compaction)
        watch.saw(
            self.broker_id,
            Sighting(
                process=self._process,
                high_watermark=high_watermark,
                is_cut=is_cut or copy.is_quarantined,
                leading=None if now.leadership is None else _leading(now.leadership),
            ),
            is_first=before is None,
        )

    def _read(
        self,
        watch: PartitionWatch,
        copy: Copy,
        log: PartitionLog,
        reading: _Reading,
        before: _Fingerprint | None,
        now: _Fingerprint,
        *,
        is_cut: bool,
    ) -> None:
        is_anew = (
            before is None
            or is_cut
            or before.damage is not None
            or now.log_end_offset < before.log_end_offset
            or now.log_start_offset != before.log_start_offset
            or now.compaction != before.compaction
            # A cleaned one has taken its place, in a pass that has not ended.
            or (reading.segment is not None and reading.segment not in log._state.segments)
        )
        if is_anew:
            copy.empty(now.log_start_offset)
            reading.segment, reading.position = None, 0
        if is_anew or now.log_end_offset > copy.log_end_offset:
            end = copy.log_end_offset
            self._read_segments(copy, log, reading, is_compacted=watch.compacted is not None)
            if is_anew:
                # What a start has found, or a cut has left, was looked at when it was written.
                reading.epoch = max((each.epoch for each in copy.batches.values()), default=NO_LEADER_EPOCH)
            else:
                self._check_epochs(watch, copy.between(end, now.log_end_offset), log, reading)
        copy.durable_end = now.durable_end
        if is_anew or before is None or now.durable_end != before.durable_end:
            self._check_recovery_point(watch, log, now.durable_end, None if is_anew else before)

    def _check_recovery_point(
        self, watch: PartitionWatch, log: PartitionLog, claimed: Offset, before: _Fingerprint | None
    ) -> None:
        """``before``: what was claimed then was looked at then; None: look at all of it."""
        for segment in log._state.segments:
            if before is not None and segment.next_offset <= before.durable_end:
                continue
            if segment.base_offset >= claimed:
                break
            position = self.machine.disk.first_unsynced(segment.path)
            if position is None or position >= segment.size or self._is_about_to_be_swapped(log, segment):
                continue
            # Writes begin where batches do.
            unsynced = parse_header(self.machine.disk.peek(segment.path, position)).base_offset
            watch.recovery_point_moved(self.broker_id, claimed=claimed, unsynced=unsynced)
            return
        watch.recovery_point_moved(self.broker_id, claimed=claimed, unsynced=log.log_end_offset)

    def _is_about_to_be_swapped(self, log: PartitionLog, segment: Segment) -> bool:
        """It has got its name, and the device knows it by the one before, which a start goes by as well."""
        span = Span(segment.base_offset, segment.next_offset)
        return self.machine.disk.peek_durable(span.path(log.directory, SWAP_SUFFIX)) is not None

    def _check_epochs(
        self, watch: PartitionWatch, fresh: list[Batch], log: PartitionLog, reading: _Reading
    ) -> None:
        for batch in fresh:
            if batch.epoch != reading.epoch:
                reading.epoch = batch.epoch
                watch.epoch_began(self.broker_id, batch, self._epoch_on_record(log.directory))

    def _epoch_on_record(self, directory: str) -> LeaderEpoch:
        """The newest one that the next start would find in the checkpoint."""
        try:
            content = self.machine.disk.peek(f"{directory}/{EPOCH_CHECKPOINT_NAME}")
        except FileNotFoundError:
            return NO_LEADER_EPOCH
        _, _, body = content.partition(b"\n")
        epochs = [epoch for epoch, _ in json.loads(body)["epochs"]]
        return LeaderEpoch(epochs[-1]) if epochs else NO_LEADER_EPOCH

    def _read_segments(self, copy: Copy, log: PartitionLog, reading: _Reading, *, is_compacted: bool) -> None:
        """From where the last reading ended."""
        segments = log._state.segments
        for segment in segments[0 if reading.segment is None else segments.index(reading.segment) :]:
            start = reading.position if segment is reading.segment else 0
            content = self.machine.disk.peek(segment.path, start)[: segment.size - start]
            copy.add(batches_in(content, is_sound=True, is_compacted=is_compacted))
            reading.segment, reading.position = segment, segment.size


def _segments_in(files: Mapping[str, bytes]) -> list[tuple[Offset, bytes]]:
    """By their first offsets, as a start takes them: cleaned ones in the place of what they replace."""
    found = {
        Offset(int(name.removesuffix(LOG_SUFFIX))): content
        for name, content in files.items()
        if name.endswith(LOG_SUFFIX)
    }
    for name in sorted(name for name in files if name.endswith(SWAP_SUFFIX)):
        base, end = map(int, name.removesuffix(SWAP_SUFFIX).split("-"))
        found = {offset: content for offset, content in found.items() if not base <= offset < end}
        found[Offset(base)] = files[name]
    return sorted(found.items())


def _note_compaction(watch: PartitionWatch, before: CompactionCheckpoint, now: CompactionCheckpoint) -> None:
    if now.first_dirty_offset > before.first_dirty_offset:
        watch.log_compacted()
    if now.compacted.tombstones_removed_below > before.compacted.tombstones_removed_below:
        if now.compacted.superseded_below > 0 and now.first_dirty_offset == 0:
            # Never compacted, and yet something is missing: it was told so by its leader.
            watch.copy_begun_anew()
        else:
            watch.tombstones_removed()


def _leading(leadership: Leadership) -> Leading:
    membership = leadership._membership
    return Leading(
        epoch=leadership.epoch,
        is_high_watermark_known=leadership.is_high_watermark_known,
        maximal_isr=membership.isr.maximal,
        can_commit=membership.has_enough,
        min_insync_replicas=membership._state.min_insync_replicas,
    )
