"""Rules 30 to 32 are switched off one by one, and the checks that stand for them must notice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from quorate.broker.directory import broker_directory, run_notes
from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.run_notes import RunNotes, RunNotesFile
from quorate.core.disk import Disk
from quorate.storage.checkpoint import write_cached
from quorate.storage.log_context import LogContext, tolerate_full_disk
from tests.unit.directory import directory_checkers as check

Patch = pytest.MonkeyPatch


def storage_errors_are_not_on_record(patch: Patch) -> None:
    patch.setattr(RunNotesFile, "note_storage_error", lambda *_: None)


def storage_errors_do_not_forbid_a_clean_stop(patch: Patch) -> None:
    patch.setattr(LogContext, "note_storage_error", lambda *_: None)


def marker_of_a_clean_stop_stays(patch: Patch) -> None:
    original = RunNotesFile.change

    async def change(self: RunNotesFile, change: Callable[[RunNotes], RunNotes]) -> None:
        was_clean = self.notes.is_clean
        await original(
            self, lambda notes: replace(change(notes), is_clean=change(notes).is_clean or was_clean)
        )

    patch.setattr(RunNotesFile, "change", change)


def incarnation_is_not_noted(patch: Patch) -> None:
    async def note_incarnation(*_: object) -> None:
        pass

    patch.setattr(BrokerDirectory, "note_incarnation", note_incarnation)


def boot_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(broker_directory, "_is_same_boot", lambda *_: True)


def boot_is_noted_before_the_logs_are_recovered(patch: Patch) -> None:
    original = BrokerDirectory.recover_logs

    async def recover_logs(self: BrokerDirectory, *arguments: Any) -> None:
        disk = self._context.disk
        await self._file.change(lambda notes: replace(notes, boot_id=disk.boot_id()))
        await original(self, *arguments)

    patch.setattr(BrokerDirectory, "recover_logs", recover_logs)


def file_system_is_not_looked_at(patch: Patch) -> None:
    def is_same_boot(disk: Disk, _: str, notes: RunNotes) -> bool:
        return notes.boot_id == disk.boot_id()

    patch.setattr(broker_directory, "_is_same_boot", is_same_boot)


def notes_are_not_synced(patch: Patch) -> None:
    async def write(disk: Disk, path: str, state: dict[str, Any]) -> None:
        write_cached(disk, path, state)

    patch.setattr(run_notes, "write_durably", write)


def damage_is_cut_without_a_note(patch: Patch) -> None:
    async def tell(*_: object) -> None:
        pass

    patch.setattr(LogContext, "tell_of_recovery_damage", tell)


def full_disk_keeps_the_old_notes(patch: Patch) -> None:
    async def replace_notes(self: BrokerDirectory, notes: RunNotes) -> None:
        with tolerate_full_disk("note the epoch", self.path):
            await self._file.change(lambda _: notes)

    patch.setattr(BrokerDirectory, "_replace_notes", replace_notes)


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], Awaitable[None]]]] = [
    (storage_errors_are_not_on_record, check.check_failed_sync),
    (storage_errors_do_not_forbid_a_clean_stop, check.check_failed_sync),
    (marker_of_a_clean_stop_stays, check.check_power_loss_after_a_clean_stop),
    (incarnation_is_not_noted, check.check_crash_before_the_epoch_is_noted),
    (boot_is_not_looked_at, check.check_power_loss_after_a_clean_stop),
    (boot_is_noted_before_the_logs_are_recovered, check.check_power_loss_before_a_start_that_died),
    (file_system_is_not_looked_at, check.check_another_file_system),
    (notes_are_not_synced, check.check_power_loss_after_a_clean_stop),
    (damage_is_cut_without_a_note, check.check_cut_by_a_start_that_died),
    (full_disk_keeps_the_old_notes, check.check_full_disk),
]


@pytest.mark.parametrize(
    ("mutate", "checker"), MUTANTS, ids=[mutate.__name__.replace("_", " ") for mutate, _ in MUTANTS]
)
async def test_mutant_is_noticed(
    mutate: Callable[[Patch], None], checker: Callable[[], Awaitable[None]], monkeypatch: Patch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        await checker()
