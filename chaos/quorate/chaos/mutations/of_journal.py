"""Mutations of what a voter has on its disk: its journal, snapshots, identity and vote (rules 38, 42 and 44).

The whole quorum is no place to hunt them: damage of one voter is made up for by the others, and what the
journal does in a power loss matters for the one write that was under way. So each is held against a check of
one directory, which lays it out, damages it or lets its process die, and looks at the next start.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from quorate.chaos.models.quorum import journal_checkers as check
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.core.disk import Disk
from quorate.errors import QuorateError
from quorate.metadata.raft import journal_recovery, quorum_directory, quorum_state, snapshot_store
from quorate.metadata.raft.entries import Snapshot, SnapshotId
from quorate.metadata.raft.journal import Journal
from quorate.metadata.raft.journal_mark import NOTHING_SYNCED, SyncedMark
from quorate.metadata.raft.journal_recovery import Recovered, Tail
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from quorate.metadata.raft.snapshot_store import SnapshotStore
from quorate.storage.checkpoint import DamagedCheckpoint, write_cached, write_durably

__all__ = ["MUTATIONS"]


def _checked(checker: Callable[[], Awaitable[None]]) -> StoryHunt:
    # An error that nobody expects is noticed by whoever starts the voter.
    return StoryHunt("a voter's directory", checker, notices=(AssertionError, ValueError, QuorateError))


_RANDOM_DEATHS: Final = _checked(check.check_random_deaths)
_LAST_FILE_GONE: Final = _checked(check.check_last_file_that_is_gone)


# -- the journal


@mutation(38, 45, hunt=_checked(check.check_group_whose_sync_failed))
def last_group_of_the_journal_counts_unsynced(patch: Patch) -> None:
    """A start finds it in the page cache, and does not write it again."""

    async def open_without_writing_again(
        kind: type[Journal], /, disk: Disk, directory: str, recovered: Recovered, **options: int
    ) -> Journal:
        journal = kind(disk, directory, recovered, segment_bytes=options["segment_bytes"])
        journal._file.truncate(recovered.segments[-1].size)
        await journal._file.fdatasync()
        return journal

    patch.setattr(Journal, "open", classmethod(open_without_writing_again))


@mutation(44, hunt=_RANDOM_DEATHS)
def torn_tail_of_the_journal_is_not_cut(patch: Patch) -> None:
    async def open_without_cutting(
        kind: type[Journal], /, disk: Disk, directory: str, recovered: Recovered, **options: int
    ) -> Journal:
        return kind(disk, directory, recovered, segment_bytes=options["segment_bytes"])

    patch.setattr(Journal, "open", classmethod(open_without_cutting))


@mutation(38, hunt=_RANDOM_DEATHS)
def name_of_a_new_journal_file_is_not_synced(patch: Patch) -> None:
    async def sync_the_file_alone(journal: Journal) -> None:
        await journal._file.fdatasync()
        journal._is_unsynced = journal._is_name_unsynced = False

    patch.setattr(Journal, "_sync_file", sync_the_file_alone)


@mutation(38, 44, hunt=_checked(check.check_one_group_at_a_time))
def journal_is_written_while_it_is_synced(patch: Patch) -> None:
    """So more than the last group may be unfinished."""

    async def write_while_syncing(journal: Journal) -> None:
        if journal._waiting or journal._restart_after is not None:
            journal._write_group()
        await journal._file.fdatasync()

    patch.setattr(Journal, "sync", write_while_syncing)


@mutation(44, hunt=_RANDOM_DEATHS)
def power_loss_passes_for_damage_of_the_journal(patch: Patch) -> None:
    """After a loss of power everywhere nobody would be left who counts."""
    patch.setattr(journal_recovery, "has_missing_sector", lambda *_: False)


@mutation(44, 42, hunt=_checked(check.check_flips_after_a_power_loss))
def damage_of_the_journal_passes_for_a_power_loss(patch: Patch) -> None:
    patch.setattr(journal_recovery, "has_missing_sector", lambda *_: True)


@mutation(44, 42, hunt=_checked(check.check_damage_before_a_sound_group))
def journal_is_cut_at_the_first_damage(patch: Patch) -> None:
    """Whatever sound groups lie behind it."""
    patch.setattr(journal_recovery._SegmentScan, "_find_later_group", lambda _: None)


@mutation(44, hunt=_checked(partial(check.check_every_flip_of_the_journal, lost_power=False)))
def entries_of_the_journal_are_not_checked(patch: Patch) -> None:
    patch.setattr(journal_recovery, "_has_sound_payload", lambda *_: True)


@mutation(42, 44, hunt=_checked(check.check_damaged_tail))
def damaged_journal_is_cut_without_a_note(patch: Patch) -> None:
    """The voter counts at once, with less than it has answered for."""

    async def note_nothing(directory: QuorumDirectory, tail: Tail) -> None:
        pass

    patch.setattr(QuorumDirectory, "_note_tail", note_nothing)


@mutation(42, 44, hunt=_LAST_FILE_GONE)
def end_that_is_missing_is_not_looked_for(patch: Patch) -> None:
    patch.setattr(quorum_directory, "read_synced_mark", lambda *_: NOTHING_SYNCED)


@mutation(42, 44, hunt=_LAST_FILE_GONE)
def what_was_synced_is_not_marked(patch: Patch) -> None:
    patch.setattr(SyncedMark, "set", lambda *_: None)


@mutation(42, hunt=_checked(check.check_damaged_newest_snapshot))
def journal_is_trimmed_to_the_newest_snapshot(patch: Patch) -> None:
    """When that one is damaged, nothing follows the older one."""

    async def trim_to_the_newest(directory: QuorumDirectory, snapshot: Snapshot) -> None:
        directory.snapshot = snapshot
        await directory._founded_journal.trim(snapshot.id.index)

    patch.setattr(QuorumDirectory, "_take_in", trim_to_the_newest)


@mutation(39, 38, hunt=_RANDOM_DEATHS)
def journal_goes_on_across_an_installed_snapshot(patch: Patch) -> None:
    """As if it had the entries that the snapshot stands for."""

    def restart_after(journal: Journal, snapshot: SnapshotId) -> None:
        journal._last_index = snapshot.index

    patch.setattr(Journal, "restart_after", restart_after)


# -- snapshots


@mutation(42, 44, hunt=_checked(check.check_every_flip_of_the_newest_snapshot))
def checksums_of_snapshots_are_not_compared(patch: Patch) -> None:
    patch.setattr(snapshot_store, "crc32c", lambda *_: 0)


@mutation(42, hunt=_checked(check.check_damaged_snapshots))
def damaged_snapshots_are_passed_over(patch: Patch) -> None:
    """The voter starts as if it had never had any."""
    patch.setattr(SnapshotStore, "stored", lambda _: [])


@mutation(38, hunt=_RANDOM_DEATHS)
def snapshots_have_their_names_before_they_are_synced(patch: Patch) -> None:
    async def write(self: SnapshotStore, snapshot: Snapshot) -> None:
        file = self._disk.open(self.path_of(snapshot.id), create=True)
        file.truncate(0)
        await snapshot_store._write_pieces(file, snapshot)
        file.close()

    patch.setattr(SnapshotStore, "write", write)


@mutation(42, hunt=_checked(check.check_snapshot_is_durable_first))
def older_snapshots_go_before_the_newest_is_durable(patch: Patch) -> None:
    """And with them what the journal has before it."""

    async def save_snapshot(self: QuorumDirectory, snapshot: Snapshot) -> None:
        async with self._snapshots_changing:
            if self.snapshot is None or snapshot.id.index > self.snapshot.id.index:
                await self._take_in(snapshot)
                await self._store.write(snapshot)

    patch.setattr(QuorumDirectory, "save_snapshot", save_snapshot)


# -- identity and vote


@mutation(42, 44, hunt=_checked(partial(check.check_every_flip_of_a_small_file, "hard-state")))
def vote_is_believed_without_its_checksum(patch: Patch) -> None:
    """The voter votes again in a term in which it has voted."""
    _compare_no_checksum(patch)


@mutation(42, 41, hunt=_checked(partial(check.check_every_flip_of_a_small_file, "identity")))
def identity_is_believed_without_its_checksum(patch: Patch) -> None:
    """The voter is another one, over a directory that is in use."""
    _compare_no_checksum(patch)


def _compare_no_checksum(patch: Patch) -> None:
    def read(disk: Disk, path: str) -> dict[str, Any] | None:
        try:
            state = json.loads(disk.read_file(path).partition(b"\n")[2])
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DamagedCheckpoint(path, str(error)) from error
        assert isinstance(state, dict)
        return state

    patch.setattr(quorum_state, "read_checkpoint", read)


@mutation(38, 41, hunt=_checked(check.check_incarnations_grow))
def identity_stays_in_the_page_cache(patch: Patch) -> None:
    """After a loss of power a process calls itself as one before it did."""

    async def write(disk: Disk, path: str, state: dict[str, Any]) -> None:
        if path.endswith(quorum_state.IDENTITY_NAME):
            write_cached(disk, path, state)
        else:
            await write_durably(disk, path, state)

    patch.setattr(quorum_state, "write_durably", write)


@mutation(38, hunt=_RANDOM_DEATHS)
def votes_stay_in_the_page_cache(patch: Patch) -> None:
    async def write(disk: Disk, path: str, state: dict[str, Any]) -> None:
        write_cached(disk, path, state)

    patch.setattr(quorum_state, "write_durably", write)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
