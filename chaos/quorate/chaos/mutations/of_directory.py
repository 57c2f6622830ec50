"""Mutations of a broker's directory: its notes, its last run, the logs in it (rules 30, 31 and 42)."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from quorate.broker.directory import broker_directory, run_notes
from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.high_watermarks import HighWatermarkCheckpoint
from quorate.broker.directory.run_notes import RunNotes, RunNotesFile
from quorate.broker.replicas import Replicas
from quorate.chaos.models.directory import directory_checkers as check
from quorate.chaos.mutations.cluster_stories import (
    a_log_that_no_metadata_speaks_of_is_left_alone,
    cluster_story,
)
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.shortened_log_story import a_shortened_log_does_not_lead
from quorate.chaos.sim.patch import Patch
from quorate.core.disk import Disk, NameNotSynced
from quorate.errors import StorageError, StorageFailed, TooManyOpenFiles
from quorate.metadata.image import MetadataImage
from quorate.storage import StartKind, checkpoint, log_directory, opening, sync_state
from quorate.storage.checkpoint import write_cached
from quorate.storage.log_context import LogContext, tolerate_full_disk

__all__ = ["MUTATIONS"]


def _story(checker: Callable[[], Awaitable[None]]) -> StoryHunt:
    return StoryHunt("lives of a directory", checker)


@mutation(31, hunt=_story(check.check_failed_sync))
def storage_errors_are_not_on_record(patch: Patch) -> None:
    patch.setattr(RunNotesFile, "note_storage_error", lambda *_: None)


@mutation(31, hunt=_story(check.check_failed_sync))
def storage_errors_do_not_forbid_a_clean_stop(patch: Patch) -> None:
    patch.setattr(LogContext, "note_storage_error", lambda *_: None)


@mutation(30, hunt=_story(check.check_power_loss_after_a_clean_stop))
def marker_of_a_clean_stop_stays(patch: Patch) -> None:
    original = RunNotesFile.change

    async def change(self: RunNotesFile, change: Callable[[RunNotes], RunNotes]) -> None:
        was_clean = self.notes.is_clean
        await original(
            self, lambda notes: replace(change(notes), is_clean=change(notes).is_clean or was_clean)
        )

    patch.setattr(RunNotesFile, "change", change)


@mutation(30, hunt=_story(check.check_crash_before_the_epoch_is_noted))
def incarnation_is_not_noted(patch: Patch) -> None:
    async def note_incarnation(*_: object) -> None:
        pass

    patch.setattr(BrokerDirectory, "note_incarnation", note_incarnation)


@mutation(30, hunt=_story(check.check_power_loss_after_a_clean_stop))
def boot_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(broker_directory, "_is_same_boot", lambda *_: True)


@mutation(30, hunt=_story(check.check_power_loss_before_a_start_that_died))
def boot_is_noted_before_the_logs_are_recovered(patch: Patch) -> None:
    original = BrokerDirectory.recover_logs

    async def recover_logs(self: BrokerDirectory, *arguments: Any) -> None:
        disk = self._context.disk
        await self._file.change(lambda notes: replace(notes, boot_id=disk.boot_id()))
        await original(self, *arguments)

    patch.setattr(BrokerDirectory, "recover_logs", recover_logs)


@mutation(30, 44, hunt=cluster_story(a_shortened_log_does_not_lead))
def log_that_has_lost_its_end_counts(patch: Patch) -> None:
    patch.setattr(HighWatermarkCheckpoint, "find_shortened", lambda _: [])


@mutation(30, 33, hunt=_story(check.check_start_without_descriptors))
def log_that_lacked_a_descriptor_counts_as_lost(patch: Patch) -> None:
    async def open_once(
        work: Callable[[], Awaitable[object]], *_: object, doing: str, path: str, **__: object
    ) -> object:
        try:
            return await work()
        except TooManyOpenFiles as error:
            raise StorageFailed(error.message, path=path) from error

    patch.setattr(log_directory, "with_descriptors", open_once)


@mutation(30, hunt=_story(check.check_high_watermarks_that_cannot_be_read))
def high_watermarks_that_cannot_be_read_are_none(patch: Patch) -> None:
    original = HighWatermarkCheckpoint.read

    async def read(self: HighWatermarkCheckpoint) -> None:
        with suppress(StorageError):
            await original(self)

    patch.setattr(HighWatermarkCheckpoint, "read", read)


@mutation(31, hunt=_story(check.check_start_without_descriptors))
def directory_that_lacked_a_descriptor_is_a_storage_error(patch: Patch) -> None:
    """It looks like a device that has failed to sync it."""
    original = checkpoint.write_durably

    async def write(*arguments: Any, **_: object) -> None:
        try:
            await original(*arguments)
        except NameNotSynced as error:
            raise OSError(errno.EIO, str(error)) from error

    for module in (run_notes, sync_state):
        patch.setattr(module, "write_durably", write)


@mutation(45, hunt=_story(check.check_kill_during_a_failing_sync))
def killed_process_is_taken_to_have_failed_no_sync(patch: Patch) -> None:
    patch.setattr(
        opening._Opening,
        "_may_have_failed_to_sync",
        lambda self: self.report.start is StartKind.LOSSY,
    )


@mutation(30, hunt=_story(check.check_another_file_system))
def file_system_is_not_looked_at(patch: Patch) -> None:
    def is_same_boot(notes: RunNotes, uptime: broker_directory.Uptime) -> bool:
        return notes.boot_id == uptime.boot_id

    patch.setattr(broker_directory, "_is_same_boot", is_same_boot)


@mutation(30, hunt=_story(check.check_power_loss_after_a_clean_stop))
def notes_are_not_synced(patch: Patch) -> None:
    async def write(disk: Disk, path: str, state: dict[str, Any], **_: object) -> None:
        write_cached(disk, path, state)

    patch.setattr(run_notes, "write_durably", write)


@mutation(30, 44, hunt=_story(check.check_cut_by_a_start_that_died))
def damage_is_cut_without_a_note(patch: Patch) -> None:
    async def tell(*_: object) -> None:
        pass

    patch.setattr(LogContext, "tell_of_recovery_damage", tell)


@mutation(30, 44, hunt=_story(check.check_cut_by_a_start_that_died))
def damage_is_taken_for_what_was_never_written(patch: Patch) -> None:
    patch.setattr(opening, "is_unwritten", lambda _: True)


@mutation(31, hunt=_story(check.check_full_disk))
def full_disk_keeps_the_old_notes(patch: Patch) -> None:
    async def replace_notes(self: BrokerDirectory, notes: RunNotes) -> None:
        with tolerate_full_disk("note the epoch", self.path):
            await self._file.change(lambda _: notes)

    patch.setattr(BrokerDirectory, "_replace_notes", replace_notes)


@mutation(42, hunt=cluster_story(a_log_that_no_metadata_speaks_of_is_left_alone))
def log_that_no_metadata_speaks_of_is_deleted(patch: Patch) -> None:
    """It is taken for an orphan (NATS #7556)."""
    original = Replicas._report_strangers

    def report_strangers(self: Replicas, image: MetadataImage) -> None:
        original(self, image)
        for key in self._logs.partitions_on_disk():
            if image.partition(key.topic_id, key.partition) is None:
                self._deletions.delete_later(key)

    patch.setattr(Replicas, "_report_strangers", report_strangers)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
