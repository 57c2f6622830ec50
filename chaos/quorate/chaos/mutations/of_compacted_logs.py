"""Mutations of how one log is compacted (rule 48): what stays, and what a death or a cut on the way leaves.

``of_compaction`` has those that a whole cluster notices. Here each is held against the test of what it
breaks, in one log: the order of two syncs, or a cut in the middle of a pass, matter for moments that no plan
comes to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.promise_hunts import PromiseHunt
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import Offset
from quorate.core.records import BatchHeader, RecordKey
from quorate.errors import CorruptBatch
from quorate.storage import cleaned_segment, compaction, offset_map, opening, segment_swap
from quorate.storage.batch_cleaner import BatchCleaner
from quorate.storage.cleaned_segment import CleanedSegment
from quorate.storage.compaction import LogCompactor, _Pass
from quorate.storage.compaction_checkpoint import CompactionCheckpoint
from quorate.storage.log_config import LogConfig
from quorate.storage.log_files import SWAP_SUFFIX
from quorate.storage.log_trimmer import LogTrimmer
from quorate.storage.log_writer import LogWriter
from quorate.storage.producer_state import ProducerStates
from quorate.storage.segment import LOG_SUFFIX, NO_TIMESTAMP, Segment, segment_path
from quorate.storage.sync_state import SyncState

__all__ = ["MUTATIONS"]


def _passes(name: str, *cases: tuple[Any, ...]) -> PromiseHunt:
    return PromiseHunt("test of compaction", "tests.log.test_compaction", name, cases or ((),))


def _around(name: str, *cases: tuple[Any, ...]) -> PromiseHunt:
    where = "test of compaction beside other things"
    return PromiseHunt(where, "tests.log.test_compaction_around", name, cases or ((),))


def _crashes(name: str, *cases: tuple[Any, ...]) -> PromiseHunt:
    return PromiseHunt("test of compaction and deaths", "tests.log.test_compaction_crashes", name, cases)


_PROCESS_CRASHES: Final = _crashes("test_process_that_dies_at_any_change_loses_nothing", ("second",))
_POWER_LOSSES: Final = _crashes(
    "test_power_loss_at_any_change_loses_nothing", ("second", None), ("second", 1)
)
_POWER_LOSSES_IN_ANY_ORDER: Final = _crashes("lose_power_with_names_in_any_order", ("second", 1))
_CUTS_DURING_A_PASS: Final = _around(
    "test_cut_during_a_pass_ends_it_and_nothing_true_is_lost", *((turns,) for turns in range(1, 40))
)
_RETENTION_DURING_A_PASS: Final = _around(
    "test_retention_during_a_pass_is_no_damage", *((turns,) for turns in range(1, 40))
)
_RETENTION_WITHIN_A_SEGMENT: Final = _around(
    "test_segment_that_retention_deletes_while_it_is_read_is_no_damage",
    *((turns,) for turns in range(1, 40)),
)


@mutation(48, hunt=_passes("test_tombstone_stays_for_its_time_after_what_it_deletes_is_gone"))
def tombstones_go_at_once_in_a_log(patch: Patch) -> None:
    patch.setattr(CompactionCheckpoint, "expired_tombstones_end", lambda self, **_: self.first_dirty_offset)


@mutation(48, hunt=_passes("test_tombstone_above_what_is_clean_never_goes"))
def tombstones_go_from_what_is_dirty(patch: Patch) -> None:
    original = BatchCleaner._stays

    def stays(self: BatchCleaner, record: RecordKey) -> bool:
        return original(self, record) and not record.is_tombstone

    patch.setattr(BatchCleaner, "_stays", stays)


@mutation(48, hunt=_passes("test_the_time_of_a_tombstone_outlives_the_process"))
def horizons_are_forgotten(patch: Patch) -> None:
    original = CompactionCheckpoint.finished

    def finished(self: CompactionCheckpoint, **facts: Any) -> CompactionCheckpoint:
        return original(self, **facts | {"has_new_tombstones": False})

    patch.setattr(CompactionCheckpoint, "finished", finished)


@mutation(48, hunt=_passes("test_tombstones_of_very_many_passes_wait_longer_never_shorter"))
def horizons_have_the_time_of_the_oldest(patch: Patch) -> None:
    original = CompactionCheckpoint.finished

    def finished(self: CompactionCheckpoint, **facts: Any) -> CompactionCheckpoint:
        if self.horizons:
            facts["now_ms"] = self.horizons[0].since_ms
        return original(self, **facts)

    patch.setattr(CompactionCheckpoint, "finished", finished)


@mutation(48, hunt=_passes("test_nothing_is_removed_for_the_sake_of_what_is_not_committed"))
def high_watermark_is_not_looked_at(patch: Patch) -> None:
    original = LogCompactor._cleanable
    patch.setattr(LogCompactor, "_cleanable", lambda self, _, now_ms: original(self, Offset(1 << 40), now_ms))


@mutation(48, hunt=_passes("test_nothing_is_removed_for_the_sake_of_what_is_not_on_the_device"))
def recovery_point_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(SyncState, "checkpointed", property(lambda self: Offset(1 << 40)))


@mutation(48, hunt=_passes("test_log_that_is_only_compacted_deletes_nothing_by_age_or_size"))
def every_log_is_deleted_by_age(patch: Patch) -> None:
    patch.setattr(LogConfig, "deletes", property(lambda self: True))


@mutation(48, hunt=_passes("test_batches_by_which_a_producer_is_known_stay_as_headers"))
def producers_are_forgotten_in_a_log(patch: Patch) -> None:
    patch.setattr(ProducerStates, "remembered_offsets", lambda self: set())


@mutation(48, hunt=_passes("test_producer_is_known_by_batches_before_the_end_of_the_pass_alone"))
def producers_are_known_by_what_comes_behind(patch: Patch) -> None:
    async def remembered(self: _Pass) -> set[Offset]:
        return self._state.producers.remembered_offsets()

    patch.setattr(_Pass, "_remembered_batches", remembered)


@mutation(48, hunt=_passes("test_no_empty_batch_covers_two_leader_epochs"))
def epochs_are_joined(patch: Patch) -> None:
    patch.setattr(cleaned_segment, "_may_be_joined", lambda removed, header: True)


@mutation(48, hunt=_passes("test_pass_ends_where_there_is_no_memory_for_more_keys_and_the_next_one_goes_on"))
def pass_claims_to_have_seen_everything(patch: Patch) -> None:
    original = _Pass._learn_newest

    def learn(self: _Pass) -> Iterator[None]:
        end = self._end_offset
        yield from original(self)
        self._end_offset = end

    patch.setattr(_Pass, "_learn_newest", learn)


@mutation(48, hunt=_PROCESS_CRASHES)
def keys_with_one_byte_of_digest(patch: Patch) -> None:
    patch.setattr(offset_map, "_digest", lambda key: key[:1])


@mutation(
    48, hunt=_passes("test_fields_outside_the_checksum_are_checked_before_they_are_written_again", (15,))
)
def epochs_are_not_checked(patch: Patch) -> None:
    patch.setattr(_Pass, "_check_epoch", lambda self, header, segment: None)


@mutation(48, hunt=_PROCESS_CRASHES)
def clean_before_it_is(patch: Patch) -> None:
    """The checkpoint says that a pass is done before it has begun."""
    original = CompactionCheckpoint.begun

    def begun(self: CompactionCheckpoint, **facts: Any) -> CompactionCheckpoint:
        return dataclasses.replace(original(self, **facts), first_dirty_offset=facts["end_offset"])

    patch.setattr(CompactionCheckpoint, "begun", begun)


@mutation(48, hunt=_PROCESS_CRASHES)
def start_finishes_no_swap(patch: Patch) -> None:
    async def finish_swaps(disk: object, directory: str) -> None:
        pass

    patch.setattr(opening, "finish_swaps", finish_swaps)


@mutation(48, hunt=_PROCESS_CRASHES)
def replaced_segments_are_removed_last(patch: Patch) -> None:
    _swap_with(patch, remove_last=True)


@mutation(48, hunt=_POWER_LOSSES)
def cleaned_segment_is_not_synced(patch: Patch) -> None:
    async def finish(self: CleanedSegment) -> None:
        self._fill_in()
        self._write()
        self._file.close()

    patch.setattr(CleanedSegment, "finish", finish)


@mutation(48, hunt=_POWER_LOSSES_IN_ANY_ORDER)
def decision_is_not_synced(patch: Patch) -> None:
    _swap_with(patch, syncs=(False, True, True))


@mutation(48, hunt=_POWER_LOSSES_IN_ANY_ORDER)
def removal_is_not_synced_before_the_last_rename(patch: Patch) -> None:
    _swap_with(patch, syncs=(True, False, True))


@mutation(48, hunt=_POWER_LOSSES)
def old_indexes_stay(patch: Patch) -> None:
    patch.setattr(segment_swap, "INDEX_SUFFIX", ".none")


def _swap_with(
    patch: Patch, *, syncs: tuple[bool, bool, bool] = (True, True, True), remove_last: bool = False
) -> None:
    """``swap_in`` with some of its steps left out, or in another order."""

    async def swap_in(state: Any, old: Any, new: Any, span: Any) -> None:
        directory, disk = state.directory, state.context.disk

        async def sync(step: int) -> None:
            if syncs[step]:
                await disk.fsync_directory(directory)

        new.move_to(span.path(directory, SWAP_SUFFIX))
        await sync(0)
        first = state.segments.index(old[0])
        state.segments[first : first + len(old)] = [new]
        for segment in old:
            segment.retire()
        if not remove_last:
            segment_swap._remove_replaced(disk, directory, span)
        await sync(1)
        new.move_to(segment_path(directory, span.base_offset, LOG_SUFFIX))
        await sync(2)
        if remove_last:
            segment_swap._remove_replaced(disk, directory, span)
        new.persist_indexes()
        new.retire()

    patch.setattr(compaction, "swap_in", swap_in)


@mutation(48, hunt=_around("test_log_that_is_cut_where_it_is_compacted_is_dropped"))
def cut_log_keeps_what_is_before_the_cut(patch: Patch) -> None:
    patch.setattr(LogTrimmer, "_lacks_what_is_behind", lambda self, offset: False)


@mutation(48, hunt=_CUTS_DURING_A_PASS)
def pass_goes_on_after_a_cut(patch: Patch) -> None:
    patch.setattr(_Pass, "_check_undisturbed", lambda self: None)


@mutation(48, hunt=_around("test_no_pass_begins_while_the_log_is_being_cut"))
def pass_begins_while_the_log_is_being_cut(patch: Patch) -> None:
    patch.setattr(LogCompactor, "_may_begin", lambda self: not self._is_running)


@mutation(48, hunt=_CUTS_DURING_A_PASS)
def intention_is_not_known_to_cuts(patch: Patch) -> None:
    patch.setattr(CompactionCheckpoint, "begun", lambda self, **_: self)


@mutation(48, hunt=_RETENTION_DURING_A_PASS)
def segments_that_are_gone_are_swapped(patch: Patch) -> None:
    patch.setattr(_Pass, "_check_still_there", lambda self, segment: None)


@mutation(44, 48, hunt=_RETENTION_WITHIN_A_SEGMENT)
def segments_that_are_gone_are_called_damaged(patch: Patch) -> None:
    """What is still to be read of one has lost its epochs: a log that is sound takes no more."""

    def check_epoch(self: _Pass, header: BatchHeader, segment: Segment) -> None:
        if header.leader_epoch != self._state.epochs.epoch_at(header.base_offset):
            raise CorruptBatch("the leader epoch is not the one on record", path=segment.path)

    patch.setattr(_Pass, "_check_epoch", check_epoch)


@mutation(48, hunt=_around("test_follower_that_ends_within_what_the_leader_has_compacted_goes_on", (10,)))
def follower_cuts_no_empty_batch(patch: Patch) -> None:
    patch.setattr(LogWriter, "_without_known_offsets", lambda self, batches, headers: (batches, headers))


@mutation(48, hunt=_around("test_half_of_the_room_is_left_to_appends"))
def all_room_is_taken(patch: Patch) -> None:
    def write(self: CleanedSegment) -> None:
        self._file.pwrite(b"".join(self._buffers), self._written_bytes)
        self._written_bytes += self._buffered_bytes
        self._buffers.clear()
        self._buffered_bytes = 0

    patch.setattr(CleanedSegment, "_write", write)


@mutation(48, hunt=_passes("test_emptied_segments_expire_as_if_they_had_their_records"))
def emptied_batches_have_no_time(patch: Patch) -> None:
    original = CleanedSegment._fill_in

    def fill_in(self: CleanedSegment) -> None:
        if self._removed is not None:
            self._removed = self._removed._replace(max_timestamp=NO_TIMESTAMP)
        original(self)

    patch.setattr(CleanedSegment, "_fill_in", fill_in)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
